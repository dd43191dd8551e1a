"""Faults of the auditor and the falsifier: what they find, and what they must not."""

from tests.faults.fault import Fault

AUDIT = "tests/audit/test_audit.py"
ALARMS = "tests/audit/test_false_alarms.py"
DATASETS = "tests/audit/test_datasets.py"
MECHANISMS = "tests/audit/test_mechanisms.py"
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
    # Claims.
    Fault("e to the epsilon is rounded down", "audit/claims.py",
          "round_up(exp_bounds(Fraction(epsilon), 80)[1])", "float(exp_bounds(Fraction(epsilon), 80)[0]) * (1 - 2**-52)", f"{DATASETS}::test_e_to_the_epsilon_is_rounded_up"),
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
    # Histograms.
    Fault("each bucket has all of the confidence", "audit/histogram_buckets.py",
          "1 - (1 - confidence) / (2 * buckets)", "1 - (1 - confidence) / 2", f"{HISTOGRAM}::test_intervals_and_predicate_by_hand"),
    Fault("a dataset has the draws of another one of its text", "audit/histogram_method.py",
          "    return type(value), pickle.dumps(value)\n", "    return type(value), repr(value)\n", f"{HISTOGRAM}::test_records_of_one_text_are_not_taken_for_the_same"),
    # Closeness.
    Fault("repeats are said to be rarer than they are", "audit/closeness/law_checks.py",
          "mu = n * (n - 1) / 2 * maximum", "mu = n * (n - 1) / 8 * maximum", f"{CLOSENESS}::test_repeats_are_bounded"),
    Fault("a distance is said to be rarer than it is", "audit/closeness/law_checks.py",
          "2 * math.exp(-2 * n * largest**2)", "2 * math.exp(-4 * n * largest**2)", f"{CLOSENESS}::test_checks_are_no_rarer_than_they_say"),
    Fault("sets of pooled draws have all of the error each", "audit/closeness/two_samples.py",
          "min(1.0, float(found[worst]) * len(found)), text", "min(1.0, float(found[worst])), text", f"{CLOSENESS}::test_each_probability_is_as_rare_as_it_says_over_all_labels"),
    # Reports.
    Fault("outputs speak to the terminal", "audit/report_text.py",
          'first, words = f"  {label:<{_LABEL}}", visible(words)', 'first = f"  {label:<{_LABEL}}"', f"{AUDIT}::test_a_terminal_obeys_nothing_that_outputs_say"),
    # The falsifier.
    Fault("a claim that is reached is called broken", "audit/falsifier/falsification.py",
          "broken = distance > bound", "broken = distance >= bound", f"{FALSIFIER}::test_no_honest_claim_is_broken_and_each_is_reached"),
    Fault("maps are judged at the largest distance alone", "audit/falsifier/falsification.py",
          "if distance <= bound and apart < self.room and", "if distance <= bound and apart < 0 and", f"{FALSIFIER}::test_maps_are_judged_at_the_distance_between_the_inputs_too"),
]  # fmt: skip
