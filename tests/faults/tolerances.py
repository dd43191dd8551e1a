"""Faults of tolerances: how far a noisy number may be off in a test, and how often a test may fail."""

from tests.faults.fault import Fault

NOISE = "tests/testing/tolerances/test_numbers.py"
RATIOS = "tests/testing/tolerances/test_ratios.py"
DISCRETE = "tests/testing/test_discrete.py"
NOISY = "tests/testing/assertions/test_noisy.py"
K_NORM = "tests/testing/assertions/test_together.py"
LARGEST = "tests/testing/assertions/test_largest.py"
PLUGIN = "tests/testing/test_plugin.py"
BOUNDS = "testing/tolerances/"
CHECKS = "testing/assertions/"

FAULTS = [
    # One noisy number.
    Fault("partitions share k as if there were one", BOUNDS + "noise_tolerances.py",
          "context.expm1(context.div(log, count))", "context.expm1(log)", f"{NOISE}::test_erratum_3_the_printed_split_cancels"),
    # Means and variances.
    Fault("sum and count of a mean have all of the flakiness each", BOUNDS + "mean_tolerances.py",
          "part_k = per_partition_k(k, 2)", "part_k = per_partition_k(k, 1)", f"{RATIOS}::test_mean_intervals_by_hand"),
    Fault("the square of a sum's noise is left out", BOUNDS + "variance_tolerances.py",
          "bend = (2 * total + x) * (x / c)", "bend = 2 * total * (x / c)", f"{RATIOS}::test_variance_against_mpmath"),
    Fault("a mean that is clamped passes its bound", BOUNDS + "ratio_tolerances.py",
          "Ends(above=high < self.highest, below=low > self.lowest)", "Ends(above=high <= self.highest, below=low >= self.lowest)", f"{RATIOS}::test_a_tolerance_that_reaches_the_bound_exactly_is_not_read_as_a_float"),
    Fault("whole counts end half a step early", BOUNDS + "ratio_noises.py",
          "self.shape.tail(np.array([(-r - self.step / 2) / self.unit]))", "self.shape.tail(np.array([(-r) / self.unit]))", f"{RATIOS}::test_mean_measured"),
    # Noise that is drawn whole.
    Fault("values at a tolerance count as beyond it", "testing/discrete_laws.py",
          'np.searchsorted(-self._sizes, -x, side="left")', 'np.searchsorted(-self._sizes, -x, side="right")', f"{DISCRETE}::test_a_pmf_is_the_law_that_it_writes"),
    # Assertions.
    Fault("each value has all of the flakiness", CHECKS + "stated_tolerances.py",
          "each_k(self.k, max(values, 1), apart=apart)", "each_k(self.k, 1, apart=apart)", f"{NOISY}::test_tolerances_by_group_by_output_and_by_k"),
    Fault("outputs of a group have all of its flakiness", CHECKS + "noise_assertions.py",
          "each = each_k(k, groups, apart=apart) + math.log10(parts)", "each = each_k(k, groups, apart=apart)", f"{NOISY}::test_outputs_of_a_group_share_its_flakiness"),
    Fault("each check of a spread has all of the flakiness", CHECKS + "noise_spread.py",
          "each = k + math.log10(_CHECKS)", "each = k", f"{NOISY}::test_each_check_of_a_spread_has_its_part"),
    Fault("a check that passes without noise is not refused", CHECKS + "noise_spread.py",
          "    try:\n        check([replace(r, noise=0.0) for r in residues])", "    try:\n        raise AssertionError", f"{DISCRETE}::test_a_check_that_cannot_fail_is_refused"),
    Fault("groups that may be missing are judged", CHECKS + "released_values.py",
          "return found if all(group in self.places for group in found) else {}", "return dict(truth)", f"{K_NORM}::test_groups_that_may_be_missing_are_not_judged"),
    Fault("a mean's tolerance forgets the noise of its count", CHECKS + "output_tolerances.py",
          "weights = {total: 1.0, e.count: -at, e.null_count: at}", "weights = {total: 1.0, e.null_count: at}", f"{NOISY}::test_failure_rates_of_each_output"),
    Fault("a quantile's probability is of one noise", CHECKS + "quantile_tolerances.py",
          "return min(0.0, log10_two_sided_tail(self.law, reach + 0.5) + math.log10(NOISES))", "return min(0.0, 1.1 * log10_two_sided_tail(self.law, reach + 0.5))",
          "tests/testing/assertions/test_quantiles.py::test_the_probability_is_that_of_the_k_at_which_the_interval_just_holds_a_value"),
    Fault("noise that a law never gives passes", CHECKS + "noise_spread.py",
          "        if not law.is_possible(noise):", "        if False:", f"{DISCRETE}::test_noise_that_a_law_never_gives_fails"),
    Fault("the group behind the candidates is forgotten", CHECKS + "top_group_assertions.py",
          "self.end = after[0] + 1 + (self.drawn.margin or 0)", "self.end = Fraction(0)", f"{LARGEST}::test_a_right_release_fails_no_more_often_than_it_says"),
    # Flakiness of tests and runs.
    Fault("a test spends more flakiness than it has", "testing/flakiness.py",
          "part = self.left / (self._shares + 1)", "part = self.left / 2 ** (self._shares > 9)", f"{PLUGIN}::test_shares_never_add_up_to_more_than_the_whole"),
    Fault("a test has more assertions than it said", "testing/flakiness.py",
          "elif self._shares > self.assertions:", "elif False:", f"{PLUGIN}::test_a_planned_number_is_held"),
    Fault("a test that met noise and says nothing is not counted", "testing/flakiness.py",
          "return self.unknown or int(self.fresh and self.log10_spent == -math.inf)", "return self.unknown", f"{PLUGIN}::test_with_a_setting_a_test_that_met_noise_and_states_nothing_fails"),
    Fault("a run that is too flaky succeeds", "testing/plugin.py",
          "self.most_k is not None and self.log10 > -self.most_k", "self.most_k is not None and self.log10 > 0", f"{PLUGIN}::test_a_run_of_more_than_the_setting_fails"),
    Fault("noise of a fixture is met by its first test alone", "testing/plugin.py",
          "request.config.stash[_noisy_fixtures].add(fixturedef)", "pass", f"{PLUGIN}::test_with_a_setting_a_test_that_met_noise_and_states_nothing_fails"),
    # Releases without noise, repeated, and recorded.
    Fault("releases without noise are made outside of tests", "testing/recorder.py",
          'require_test("releases without noise")\n    words, original = NoiselessWords(), ', "words, original = object.__new__(NoiselessWords), ",
          f"{PLUGIN}::test_outside_of_tests_all_is_refused", elsewhere=True),
    Fault("repeated releases have one noise", "testing/repeated_release.py",
          "noisy = measurement.draw(self._tiled(batch, size, groups), self.release._words).outputs()",
          "noisy = measurement.draw(self._tiled(batch, size, groups), __import__('sfumato.noise').noise.SeededWords(1)).outputs()", "tests/audit/test_releases.py::test_bulk_draws_are_releases"),
]  # fmt: skip
