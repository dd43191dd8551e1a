"""Faults of the auditor and the falsifier: what they find, and what they must not."""

from __future__ import annotations

from tests.faults.fault import Fault

AUDIT = "tests/audit/test_audit.py"
ALARMS = "tests/audit/test_false_alarms.py"
DATASETS = "tests/audit/test_datasets.py"
MECHANISMS = "tests/audit/test_mechanisms.py"
OUTPUTS = "tests/audit/test_outputs.py"
HISTOGRAM = "tests/audit/test_histogram.py"
CLOSENESS = "tests/audit/test_closeness.py"
FALSIFIER = "tests/audit/test_falsifier.py"

FAULTS = [
    # The wealth of an audit, and what it says.
    Fault("each pair of datasets has all of the wealth", "audit/auditor.py",
          "- math.log(len(tests))\n            trace", "\n            trace", f"{AUDIT}::test_wealth_is_shared_by_pairs_features_and_bets"),
    Fault("each pair of a curve has all of the confidence", "audit/auditor.py",
          "needed = math.log(len(pairs) / (1 - confidence))", "needed = math.log(1 / (1 - confidence))", f"{AUDIT}::test_pairs_of_a_curve_share_the_confidence"),
    Fault("what a pass excludes has an error on one side alone", "audit/auditor.py",
          "(1 + pair.factor) * error", "error", f"{AUDIT}::test_the_excess_bound_of_a_constant"),
    Fault("draws that settled a number are judged by it", "audit/auditor.py",
          "drawn = slice(start, start + n)", "drawn = slice(0, n)", f"{AUDIT}::test_a_number_that_came_late_is_judged_by_later_draws_alone"),
    Fault("pairs that forgot their wealth count whole", "audit/auditor.py",
          "of_edge = np.repeat([[t.log_share] for t in tests], len(claims), axis=1)", "of_edge = np.zeros((len(tests), len(claims)))", f"{AUDIT}::test_a_pair_whose_calls_raised_has_no_more_in_the_lower_bound_than_it_kept"),
    Fault("what always raises passes", "audit/auditor.py",
          "if raising and None not in raising:", "if raising and None not in raising and not tests:", f"{MECHANISMS}::test_a_mechanism_that_raises_always_has_no_verdict"),
    Fault("only the first direction is looked at", "audit/auditor.py",
          "for p, q in ((below_x, below_y), (below_y, below_x)):", "for p, q in ((below_x, below_y),):", f"{AUDIT}::test_what_a_pass_excludes_is_of_both_directions"),
    # Claims.
    Fault("e to the epsilon is rounded down", "audit/claims.py",
          "round_up(exp_bounds(Fraction(epsilon), 80)[1])", "float(exp_bounds(Fraction(epsilon), 80)[0]) * (1 - 2**-52)", f"{DATASETS}::test_e_to_the_epsilon_is_rounded_up"),
    Fault("a claim of zCDP has the delta of a larger epsilon", "audit/claims.py",
          "zcdp_delta(exact, exact + step)", "zcdp_delta(exact, exact + 2 * step)", f"{DATASETS}::test_zcdp_pairs_are_implied_by_the_claim"),
    Fault("a Gaussian claim takes mu for its square", "audit/claims.py",
          "gaussian_delta(exact * k / 2, exact * exact)", "gaussian_delta(exact * k / 2, exact)", f"{DATASETS}::test_gaussian_profile"),
    # Bets.
    Fault("events are chosen after a look at the present draws", "audit/bets.py",
          "        past, inside = self._chosen(batch)\n", "        self._counts = self._counts[0] + 9 * batch[0], self._counts[1] + 9 * batch[1]\n        past, inside = self._chosen(batch)\n", f"{AUDIT}::test_bets_are_chosen_by_the_past_alone"),
    Fault("a bet forgets delta", "audit/bets.py",
          "rest = 1 + c - s * claim.delta", "rest = 1 + c", f"{ALARMS}::test_no_bet_gains_on_average_while_the_claim_holds"),
    Fault("all bets on a feature have all of its wealth", "audit/bets.py",
          "float(np.logaddexp.reduce(self.log_wealth.ravel())) - math.log(self.log_wealth.size)", "float(np.logaddexp.reduce(self.log_wealth.ravel()))", f"{AUDIT}::test_wealth_is_shared_by_pairs_features_and_bets"),
    Fault("a leaf that is new decides about bets on it", "audit/bets.py",
          "        x, y = x.narrow(self._columns), y.narrow(self._columns)\n", "", f"{ALARMS}::test_a_leaf_seen_first_in_a_batch_plays_no_part_in_bets_on_it"),
    # One pair of datasets.
    Fault("calls that are forgotten give their wealth back", "audit/pair_audit.py",
          "self.log_share = 0.0 if not self.samples else np.log(1 - _VECTORISED)", "self.log_share = 0.0", f"{ALARMS}::test_wealth_of_vectorised_calls_is_lost_when_one_raises"),
    Fault("what a call is like as a whole tells the side", "audit/pair_audit.py",
          "                if found != self._form:\n", "                if not found:\n", f"{ALARMS}::test_calls_that_return_their_outputs_in_another_way_are_made_singly"),
    # Mechanisms.
    Fault("one dataset is always drawn from first", "audit/mechanisms.py",
          "for side in (bit, 1 - bit)]", "for side in (0, 1)]", f"{MECHANISMS}::test_two_sides_are_drawn_in_random_order_call_by_call"),
    Fault("a dataset may be changed", "audit/mechanisms.py",
          "if fingerprint(after) != fingerprinted:", "if fingerprint(after) != fingerprint(after):", f"{MECHANISMS}::test_a_changed_dataset"),
    Fault("places in memory are outputs", "audit/mechanisms.py",
          "return _ADDRESS.sub(lambda found: f\"{found[0].partition('0x')[0]}0x...\", text)", "return text", f"{OUTPUTS}::test_what_is_read_does_not_tell_where_in_memory_an_output_lies"),
    # Outputs and what is looked at.
    Fault("a whole number is the float that it equals", "audit/output_columns.py",
          'tokens[i] = self.vocabulary.code("an int" if not isinstance(value, bool) else str(value))', "pass", f"{OUTPUTS}::test_different_outputs_stay_different"),
    Fault("the sign of a zero is lost", "audit/output_columns.py",
          "if not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0):", "if not math.isfinite(value):", f"{OUTPUTS}::test_a_draw_is_read_alike_beside_whatever_other_draws"),
    Fault("the classifier sees one side alone", "audit/output_features.py",
          "side = np.concatenate([np.ones(len(x)), -np.ones(len(y))])", "side = np.concatenate([np.ones(len(x)), np.ones(len(y))])", f"{AUDIT}::test_small_shifts_of_many_coordinates_are_found_by_a_score"),
    # Datasets.
    Fault("odd datasets have no NaN", "audit/datasets.py",
          "        [nan],\n        [inf],\n", "        [inf],\n", f"{AUDIT}::test_the_default_datasets_find_what_only_odd_values_show"),
    Fault("units with many rows are not tried", "audit/datasets.py",
          '"40 rows in one group": [(first, high)] * 40,', '"40 rows in one group": [(first, high)],', f"{DATASETS}::test_user_level_pairs_differ_by_one_unit"),
    Fault("neighbours differ by two records", "audit/datasets.py",
          "        return dataset[:index] + dataset[index + 1 :]\n    if isinstance(dataset, tuple):", "        return dataset[:index] + dataset[index + 2 :]\n    if isinstance(dataset, tuple):", f"{DATASETS}::test_edges_are_neighbours"),
    # Histograms.
    Fault("each bucket has all of the confidence", "audit/histogram_buckets.py",
          "1 - (1 - confidence) / (2 * buckets)", "1 - (1 - confidence) / 2", f"{HISTOGRAM}::test_intervals_and_predicate_by_hand"),
    Fault("histograms are compared in one direction", "audit/histogram_method.py",
          "for sides, counts in (((x, y), (a, b)), ((y, x), (b, a))):", "for sides, counts in (((x, y), (a, b)),):", f"{HISTOGRAM}::test_a_defect_on_one_side_only_is_found_in_both_orders"),
    Fault("a dataset has the draws of another one of its text", "audit/histogram_method.py",
          "    return type(value), pickle.dumps(value)\n", "    return type(value), repr(value)\n", f"{HISTOGRAM}::test_records_of_one_text_are_not_taken_for_the_same"),
    # Closeness.
    Fault("each check of a sample has all of alpha", "audit/closeness/law_checks.py",
          "c.probability > alpha / len(checks)", "c.probability > alpha", f"{CLOSENESS}::test_checks_share_alpha_and_a_given_function_has_none_of_density"),
    Fault("repeats are said to be rarer than they are", "audit/closeness/law_checks.py",
          "mu = n * (n - 1) / 2 * most", "mu = n * (n - 1) / 8 * most", f"{CLOSENESS}::test_repeats_are_bounded"),
    Fault("a distance is said to be rarer than it is", "audit/closeness/law_checks.py",
          "2 * math.exp(-2 * n * largest**2)", "2 * math.exp(-4 * n * largest**2)", f"{CLOSENESS}::test_checks_are_no_rarer_than_they_say"),
    Fault("sets of pooled draws have all of the error each", "audit/closeness/two_samples.py",
          "min(1.0, float(found[worst]) * len(found)), text", "min(1.0, float(found[worst])), text", f"{CLOSENESS}::test_each_probability_is_as_rare_as_it_says_over_all_labels"),
    # Reports.
    Fault("a lower bound is rounded up", "audit/report_text.py",
          "rounded_bound(report.epsilon_lower, ROUND_FLOOR)", "rounded_bound(report.epsilon_lower, ROUND_CEILING)", f"{AUDIT}::test_bounds_are_written_on_the_safe_side"),
    Fault("outputs speak to the terminal", "audit/report_text.py",
          'first, words = f"  {label:<{_LABEL}}", visible(words)', 'first = f"  {label:<{_LABEL}}"', f"{AUDIT}::test_a_terminal_obeys_nothing_that_outputs_say"),
    # The falsifier.
    Fault("a claim that is reached is called broken", "audit/falsifier/falsification.py",
          "broken = distance > bound", "broken = distance >= bound", f"{FALSIFIER}::test_no_honest_claim_is_broken_and_each_is_reached"),
    Fault("inputs lie further apart than asked", "audit/falsifier/falsification.py",
          "        if not apart <= self.room:\n            return None\n", "", f"{FALSIFIER}::test_domains_of_ones_own_take_their_members_from_the_caller"),
    Fault("maps are judged at the largest distance alone", "audit/falsifier/falsification.py",
          "if distance <= bound and apart < self.room and", "if distance <= bound and apart < 0 and", f"{FALSIFIER}::test_maps_are_judged_at_the_distance_between_the_inputs_too"),
    Fault("what floats break is called broken in exact numbers", "audit/falsifier/falsification.py",
          "self.exact_ratio is not None and self.exact_ratio <= 1", "self.exact_ratio is None", f"{FALSIFIER}::test_whole_numbers_are_replayed_where_the_function_divides_them"),
    Fault("order is never changed", "audit/falsifier/record_pairs.py",
          "    if order == 1:\n        return items[::-1]\n", "    if order >= 0:\n        return items\n", f"{FALSIFIER}::test_order_is_tried_at_distance_zero"),
    Fault("rows without a unit are not tried", "audit/falsifier/record_pairs.py",
          "for unit in common[:1] for key, values in unit]", "for unit in common[:0] for key, values in unit]", f"{FALSIFIER}::test_every_planted_defect_is_found"),
    Fault("edges of floats and integers are not tried", "audit/falsifier/domain_members.py",
          "for bits in (31, 53, 63, 64) for more in (0, -1, 1))", "for bits in (31,) for more in (0,))", f"{FALSIFIER}::test_numbers_that_code_trips_over_are_tried"),
]  # fmt: skip
