"""Faults of guidance and advice: what is said of limits, bounds and errors, and what finding it out costs."""

from __future__ import annotations

from tests.faults.fault import Fault

GUIDANCE = "tests/guidance"
DIAGNOSTICS = f"{GUIDANCE}/test_diagnostics.py"
SHIFTS = f"{GUIDANCE}/test_shifts.py"
PREVIEW = f"{GUIDANCE}/test_preview.py"
BOUNDS = f"{GUIDANCE}/test_automatic_bounds.py"
LIMITS = f"{GUIDANCE}/test_automatic_limits.py"
ADVICE = "tests/advice/test_advice.py"

FAULTS = [
    # Diagnostics.
    Fault("diagnostics are drawn again at another confidence", "guidance/diagnostics.py",
          "        if not self._done:\n            self._check_home()", "        if confidence != 0.95 or not self._done:\n            self._parts = None\n            self._check_home()", f"{DIAGNOSTICS}::test_drawn_once_in_one_place"),
    Fault("the share of public keys without rows is that of keys with some", "guidance/diagnostics.py",
          "min(max(1 - row[name] / keys, 0.0), 1.0)", "min(max(row[name] / keys, 0.0), 1.0)", f"{DIAGNOSTICS}::test_rows_in_no_public_group_do_not_count_and_a_group_of_null_has_its_rows"),
    # Shifts.
    Fault("shifts forget the limit of groups", "guidance/counted_rows.py",
          'limits = {"groups": "in_groups", "rows": "in_group", "total_rows": "in_all"}', 'limits = {"rows": "in_group", "total_rows": "in_all"}', f"{SHIFTS}::test_every_statistic_has_its_shift"),
    Fault("a unit stays as its rows do", "guidance/counted_rows.py",
          "ELSE 1.0 - exp({a} + {b} - {c} - {d}) END", "ELSE exp({a} + {b} - {c} - {d}) END", f"{SHIFTS}::test_units_and_their_sums_with_a_limit_of_rows_in_all"),
    Fault("a shift of a variance takes the mean for 0", "guidance/shifts.py",
          "found = (products[i, j] - square).scaled(half[i] * half[j])", "found = products[i, j].scaled(half[i] * half[j])", f"{SHIFTS}::test_every_statistic_has_its_shift"),
    Fault("quantiles with limits have the ends of a place beside theirs", "guidance/shifts.py",
          "low, high = places[first][0], places[last][1]", "low, high = places[max(first - 1, 0)][0], places[max(last - 1, 0)][1]", f"{SHIFTS}::test_quantiles_have_a_shift_of_their_value"),
    # Previews and expected errors.
    Fault("the smallest epsilon is too small", "guidance/preview.py",
          "low, high = (low, middle) if reached(math.exp(middle))[0] else (middle, high)", "low, high = (low, middle)", f"{PREVIEW}::test_the_smallest_budget_that_shows_a_group"),
    Fault("the smallest epsilon is rounded down", "guidance/preview.py",
          "math.ceil(value / unit)", "math.floor(value / unit)", f"{PREVIEW}::test_the_smallest_budget_reaches_the_goal_and_less_does_not"),
    Fault("a preview shows the median error as that of 95%", "guidance/simulated_groups.py",
          'found[name] = float(np.quantile(off, confidence, method="higher"))', 'found[name] = float(np.quantile(off, confidence / 2, method="higher"))', f"{PREVIEW}::test_errors_and_bars_are_those_of_many_releases"),
    Fault("expected noise forgets all numbers but one", "guidance/expected_error.py",
          "squares += ((up - down) / 2) ** 2", "squares = ((up - down) / 2) ** 2", f"{GUIDANCE}/test_expected_error.py::test_what_is_assumed_seen_and_exact_have_one_error"),
    Fault("errors of outputs are compared without their weights", "plan/noise_error.py",
          'own = {name: float(known.get(name or "", least)) for name in one}', "own = {name: 1.0 for name in one}", "tests/plan/test_weights.py::test_the_choice_of_noise_follows_weights"),
    Fault("a sum's expected error forgets its centre", "plan/noise_error.py",
          "each, sums = e.centre, {total: 1.0}", "each, sums = 0.0, {total: 1.0}", "tests/plan/test_expected.py::test_expected_errors_are_what_noise_moves_outputs_by"),
    # Bounds and limits that are found.
    Fault("noise is taken for values", "guidance/histogram_tail.py",
          "np.full(size, probability / len(_RUNS) / max(size, 1))", "np.full(size, min(0.5, probability * 1e4))", f"{BOUNDS}::test_no_bound_is_far_beyond_the_values"),
    Fault("found bounds lie beyond what an aggregate takes", "guidance/inferred_bounds.py",
          "end if stays else min(max(end, -most), most) for", "end for", f"{BOUNDS}::test_admissible_bounds_are_taken_by_every_aggregate"),
    Fault("the limit with the largest error is taken", "guidance/inferred_limits.py",
          "found = min(_tried(found, place, most[place], cost), key=cost)", "found = max(_tried(found, place, most[place], cost), key=cost)", f"{LIMITS}::test_limits_are_those_of_the_table"),
    Fault("limits that are found pass those of a catalog", "guidance/inferred_limits.py",
          "return min(groups, LIMITS[-1]), min(rows, LIMITS[-1])", "return LIMITS[-1], LIMITS[-1]", f"{LIMITS}::test_a_catalog_has_the_last_word"),
    Fault("what limits leave out is said to be within them", "query/inferred_parameters.py",
          'of, share = content["left out"][0], 100 * content["left out"][1]', 'of, share = content["left out"][0], 100 * (1 - content["left out"][1])', f"{LIMITS}::test_what_limits_leave_out_is_told"),
    # Advice.
    Fault("a division of the budget is more than all of it", "advice/advise.py",
          "left -= found[-1]", "left -= found[-1] // 2", f"{ADVICE}::test_the_division_has_the_smallest_sum"),
    Fault("a question gets less than it needs", "advice/advise.py",
          "own[:few] = np.inf", "own[:1] = np.inf", f"{ADVICE}::test_a_division_adds_up_whatever_the_costs"),
    Fault("advice begins without the budget for its releases", "advice/advise.py",
          "    if budget is not None:\n        _check_enough(request, budget)", "    if False:\n        _check_enough(request, budget)", f"{ADVICE}::test_a_budget_must_have_enough_for_all_of_it"),
    Fault("looks of an advice are not paid", "advice/advise.py",
          "payment(budget, [queries.claim], what, made_up=made_up)", "payment(None, [queries.claim], what, made_up=True)", f"{ADVICE}::test_a_budget_pays_for_looks_now_and_for_releases_later"),
    Fault("questions of other rows share a look", "advice/shared_queries.py",
          "(a.unit, a._steps, a.keys) != (b.unit, b._steps, b.keys)", "(a.unit, a.keys) != (b.unit, b.keys)", f"{ADVICE}::test_questions_of_other_rows_share_no_look"),
    Fault("each look of an advice has the epsilon of all", "advice/shared_queries.py",
          "each = epsilon / max(parts, 1)", "each = epsilon", f"{ADVICE}::test_all_epsilons_add_up_exactly"),
    Fault("advice is released with the epsilon of all questions", "advice/advise.py",
          "    epsilon, one = request.portion * number, m.asked", "    epsilon, one = request.portion * request.portions, m.asked", f"{ADVICE}::test_all_epsilons_add_up_exactly"),
    Fault("an advised question may be asked with another epsilon", "advice/advice.py",
          "            if name in options:\n", "            if False:\n", f"{ADVICE}::test_what_was_advised_is_given_once"),
]  # fmt: skip
