"""Faults of error bars, analyses and explanations: how exact an output is said to be."""

from __future__ import annotations

from tests.faults.fault import Fault

ANALYSIS, CHOICES = "tests/engines/test_analysis.py", "tests/engines/test_analysis_of_choices.py"
COMPARISON, TOP, NOISE = (
    "tests/release/test_comparison.py",
    "tests/engines/test_top.py",
    "tests/engines/test_noise.py",
)
BOUNDS, LIMITS = "tests/guidance/test_automatic_bounds.py", "tests/guidance/test_automatic_limits.py"
EXPECTED, PREVIEW = "tests/guidance/test_expected_error.py", "tests/guidance/test_preview.py"
BIAS = f"{ANALYSIS}::test_of_units_in_part_the_bias_is_the_engines_own"
PUBLIC = f"{ANALYSIS}::test_it_is_what_pipelinedp_defines"
QUANTILES = f"{CHOICES}::test_quantiles_are_those_of_rows_that_count_in_part"
TIGHT = f"{NOISE}::test_error_bars_of_single_numbers_are_tight_and_shorter_ones_are_seen"

FAULTS = [
    # Error bars of noise.
    Fault("error bars of several numbers fail as often as one", "release/release.py",
          "among = self._numbers(batches) if simultaneous else 1", "among = 1", f"{NOISE}::test_simultaneous_bars_cover_all_at_once"),
    Fault("an interval of a sum has half of the tolerance of its noise", "query/aggregates/estimate.py",
          "return Interval(exact - half, exact + half)", "return Interval(exact - half / 2, exact + half / 2)", TIGHT),
    Fault("error bars of the largest groups are of one number each", "release/top_release.py",
          "width = self.plan.measurement.half_width(confidence, simultaneous)", "width = self.plan.measurement.half_width(confidence, False)", f"{TOP}::test_without_counts_and_error_bars"),
    Fault("any confidence is admitted", "query/error_bars.py",
          "not isinstance(confidence, (int, float)) or not 0 < confidence < 1", "not isinstance(confidence, (int, float))", "tests/engines/test_release.py::test_error_bars_that_were_asked_for_are_in_every_look_at_a_release"),
    # Comparisons of groups.
    Fault("a difference around 0 excludes it", "release/group_comparison.py",
          "return low > 0 or high < 0", "return high > 0 or low < 0", COMPARISON),
    # Expected errors.
    Fault("a variance of a choice is left out", "guidance/expected_error.py",
          "total += (1 if one == other else 2) * slopes[one]", "total += (0 if one == other else 2) * slopes[one]", PUBLIC),
    Fault("what limits cut of a sum is forgotten", "guidance/expected_error.py",
          "each = hypot(noise, lost * whole + cut * size)", "each = noise", EXPECTED),
    Fault("a variance's error grows with the width of its bounds alone", "guidance/expected_error.py",
          "factor = times**2 if _squared(_bounded(plan, name)) else times", "factor = times", EXPECTED),
    Fault("squares in an analysis are counted from another middle", "guidance/unit_contributions.py",
          "valued: moved**2 - taken,", "valued: -taken / 2,", BIAS),
    Fault("chances to be shown forget how much numbers vary", "guidance/expected_error.py",
          "deviation = np.sqrt(np.maximum(variance, 0.0))", "deviation = 0 * np.sqrt(np.maximum(variance, 0.0))", f"{ANALYSIS}::test_the_chance_to_be_shown_is_that_of_a_sum_of_coins"),
    Fault("quantiles pass the bounds in an analysis", "guidance/quantile_errors.py",
          "return np.clip(quantile_of(values, counted, ranks), e.lower, e.upper)", "return quantile_of(values, counted, ranks)", QUANTILES),
    Fault("values that count nothing are quantiles", "guidance/quantile_errors.py",
          "wanted = first + np.clip(ranks, _ROUNDED, 1.0) *", "wanted = first + np.clip(ranks, 0.0, 1.0) *", f"{CHOICES}::test_quantile_of_passes_over_what_counts_nothing"),
    Fault("noise of quantiles is drawn from counts of another share", "guidance/quantile_errors.py",
          "steps = values.expected[at] * 2.0**-statistic.exponent", "steps = values.rows * 2.0**-statistic.exponent", f"{CHOICES}::test_what_is_drawn_is_what_an_engine_gives"),
    Fault("a preview says that all groups are shown", "guidance/preview.py",
          'columns["shown"].append(chance_shown(plan, size))', 'columns["shown"].append(1.0)', PREVIEW),
    # Bounds and limits that are found.
    Fault("what a bound cuts off is forgotten", "guidance/histogram_tail.py",
          "errors = np.hypot(noise * (tried + other), _cut_off(tails, tried))", "errors = np.hypot(noise * (tried + other), 0 * _cut_off(tails, tried))", f"{BOUNDS}::test_a_bound_is_where_noise_and_what_is_cut_off_meet"),
    Fault("the noise of counting groups is not paid from the look at limits", "guidance/inferred_limits.py",
          "part = epsilon * (1 - _OF_GROUPS)", "part = epsilon", LIMITS),
    Fault("what is lost beyond a limit leaves out the tail", "guidance/contribution_distribution.py",
          "        beyond += self._tail.beyond(limit)\n", "", LIMITS),
]  # fmt: skip
