"""Faults of error bars, guidance and advice: what is said of errors, limits and bounds, and what finding it out costs."""

from __future__ import annotations

from tests.faults.fault import Fault

GUIDANCE = "tests/guidance"
SHIFTS = f"{GUIDANCE}/test_shifts.py"
PREVIEW = f"{GUIDANCE}/test_preview.py"
BOUNDS = f"{GUIDANCE}/test_automatic_bounds.py"
LIMITS = f"{GUIDANCE}/test_automatic_limits.py"
ADVICE = "tests/advice/test_advice.py"

FAULTS = [
    # Error bars of noise.
    Fault("error bars of several numbers fail as often as one", "release/release.py",
          "error_bars = self._error_bars(bars, self._among(bars, batches))", "error_bars = self._error_bars(bars, 1)", "tests/release/test_bars.py::test_simultaneous_bars_share_the_failure"),
    Fault("an interval of a sum has half of the tolerance of its noise", "noise/noise_sums.py",
          "return Interval(value - half, value + half)", "return Interval(value - half / 2, value + half / 2)", "tests/engines/test_noise.py::test_error_bars_of_single_numbers_are_tight_and_shorter_ones_are_seen"),
    # Expected errors.
    Fault("a variance of a choice is left out", "guidance/expected_error.py",
          "total += (1 if one == other else 2) * slopes[one]", "total += (0 if one == other else 2) * slopes[one]", "tests/engines/test_analysis.py::test_it_is_what_pipelinedp_defines"),
    Fault("chances to be shown forget how much numbers vary", "guidance/expected_error.py",
          "deviation = np.sqrt(np.maximum(variance, 0.0))", "deviation = 0 * np.sqrt(np.maximum(variance, 0.0))", "tests/engines/test_analysis.py::test_the_chance_to_be_shown_is_that_of_a_sum_of_coins"),
    Fault("a unit beyond the limit counts in full in an analysis", "engines/duckdb/analysis_sql.py",
          "ELSE ({whole}::BIGINT // j) / {WHOLE}::DOUBLE END", "ELSE 1.0 END", "tests/engines/test_analysis.py::test_of_units_in_part_the_bias_is_the_engines_own"),
    Fault("the variance of a choice of groups is its mean", "engines/duckdb/analysis_sql.py",
          """{self._add(f'sum({first} * {second})')} * v{i}""", """{self._add(f'sum({first} * {second})')} * w{i}""", "tests/engines/test_analysis.py::test_it_is_what_pipelinedp_defines"),
    # Bounds and limits that are found.
    Fault("what a bound cuts off is forgotten", "guidance/histogram_tail.py",
          "errors = np.hypot(noise * (tried + other), _cut_off(tails, tried))", "errors = np.hypot(noise * (tried + other), 0 * _cut_off(tails, tried))", "tests/guidance/test_automatic_bounds.py::test_a_bound_is_where_noise_and_what_is_cut_off_meet"),
    Fault("the noise of counting groups is not paid from the look at limits", "guidance/inferred_limits.py",
          "part = epsilon * (1 - _OF_GROUPS)", "part = epsilon", "tests/guidance/test_automatic_limits.py"),
    Fault("a smaller limit is advised for its noise", "guidance/contribution_distribution.py",
          "return self._within(ENOUGH, -2.0)", "return self._within(ENOUGH)", f"{GUIDANCE}/test_diagnostics.py::test_a_smaller_limit_is_advised_where_noise_is_no_reason_for_it"),
    # Shifts.
    Fault("each sum of a shift has all of what a bar may fail with", "guidance/shifts.py",
          "k = -math.log10((1 - confidence) / len(self.sums))", "k = -math.log10(1 - confidence)", f"{SHIFTS}::test_a_bar_holds_where_all_of_its_sums_do"),
    Fault("shifts forget the limit of groups", "guidance/counted_rows.py",
          'limits = {"groups": "in_groups", "rows": "in_group", "total_rows": "in_all"}', 'limits = {"rows": "in_group", "total_rows": "in_all"}', f"{SHIFTS}::test_every_statistic_has_its_shift"),
    # Previews and expected errors.
    Fault("the smallest epsilon is too small", "guidance/preview.py",
          "low, high = (low, middle) if reached(math.exp(middle))[0] else (middle, high)", "low, high = (low, middle)", f"{PREVIEW}::test_the_smallest_budget_that_shows_a_group"),
    Fault("expected noise forgets all numbers but one", "guidance/expected_error.py",
          "squares += ((up - down) / 2) ** 2", "squares = ((up - down) / 2) ** 2", f"{GUIDANCE}/test_expected_error.py::test_what_is_assumed_seen_and_exact_have_one_error"),
    # Bounds and limits that are found.
    Fault("runs of noise are said to be rarer than they are", "guidance/histogram_tail.py",
          ".sum(axis=1)) - t[:, 0]", ".sum(axis=1)) - 1.1 * t[:, 0]", f"{BOUNDS}::test_runs_of_noise_are_as_rare_as_they_say"),
    Fault("noise of far bins is taken for units", "guidance/contribution_distribution.py",
          "end = min(LIMITS.index(self._within(NEARLY_ALL)) + 1, self._sure)", "end = LIMITS.index(self._within(NEARLY_ALL)) + 1", f"{LIMITS}::test_noise_of_far_bins_is_taken_for_nobody"),
    Fault("noise is taken for values", "guidance/histogram_tail.py",
          "np.full(size, probability / len(_RUNS) / max(size, 1))", "np.full(size, min(0.5, probability * 1e4))", f"{BOUNDS}::test_no_bound_is_far_beyond_the_values"),
    Fault("found bounds lie beyond what an aggregate takes", "guidance/inferred_bounds.py",
          "end if stays else min(max(end, -most), most) for", "end for", f"{BOUNDS}::test_admissible_bounds_are_taken_by_every_aggregate"),
    Fault("limits that are found pass those of a catalog", "guidance/inferred_limits.py",
          "return min(groups, LIMITS[-1]), min(rows, LIMITS[-1])", "return LIMITS[-1], LIMITS[-1]", f"{LIMITS}::test_a_catalog_has_the_last_word"),
    # Advice.
    Fault("a division of the budget is more than all of it", "advice/advise.py",
          "left -= found[-1]", "left -= found[-1] // 2", f"{ADVICE}::test_the_division_has_the_smallest_sum"),
    Fault("advice begins without the budget for its releases", "advice/advise.py",
          "    if budget is not None:\n        _check_enough(request, budget)", "    if False:\n        _check_enough(request, budget)", f"{ADVICE}::test_a_budget_must_have_enough_for_all_of_it"),
    Fault("looks of an advice are not paid", "advice/advise.py",
          "payment(budget, [queries.claim], what, made_up=made_up)", "payment(None, [queries.claim], what, made_up=True)", f"{ADVICE}::test_a_budget_pays_for_looks_now_and_for_releases_later"),
    Fault("each look of an advice has the epsilon of all", "advice/shared_queries.py",
          "each = epsilon / max(parts, 1)", "each = epsilon", f"{ADVICE}::test_all_epsilons_add_up_exactly"),
    Fault("advice is released with the epsilon of all questions", "advice/advise.py",
          "    epsilon, one = request.portion * number, m.asked", "    epsilon, one = request.portion * request.portions, m.asked", f"{ADVICE}::test_all_epsilons_add_up_exactly"),
]  # fmt: skip
