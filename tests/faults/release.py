"""Faults of releases and queries: numbers that change on their way out, receipts, comparisons, combined tables."""

from __future__ import annotations

from tests.faults.fault import Fault

RELEASE = "tests/release"
RECEIPT = f"{RELEASE}/test_receipt.py"
DIGEST = f"{RECEIPT}::test_tables_that_differ_have_digests_that_differ"
SAMPLING = f"{RELEASE}/test_sampling.py"
DERIVED = f"{RELEASE}/test_comparison.py"
STANDARD = f"{RELEASE}/test_standard_errors.py"

FAULTS = [
    # Drawing once.
    Fault("an object that took over attributes is at home", "ownership.py",
          "return made_in == process() and owner() is self", "return made_in == process()", "tests/test_ownership.py::test_attributes_that_moved_to_another_object_are_refused"),
    Fault("a child is at home where its parent is", "ownership.py",
          "return made_in == process() and owner() is self", "return owner() is self", "tests/test_ownership.py::test_a_forked_child_is_refused"),
    Fault("a process of the same number is the same process", "ownership.py",
          "return os.getpid(), _forks", "return os.getpid(), 0", "tests/test_ownership.py::test_a_fork_of_a_thread_and_a_grandchild_are_other_processes"),
    Fault("a handler asks in the middle of a question", "ownership.py",
          "            self._held.notify(0)\n            raise RefusalError(", "            self._held.notify(0)\n            RefusalError(", "tests/test_ownership.py::test_a_question_in_the_middle_of_an_answer_is_refused_and_spoils_nothing"),
    Fault("a copy of a release brings its engine along", "release/release.py",
          "engine = DetachedEngine.from_engine(self._engine, self.plan.query.steps)", "engine = self._engine", f"{RELEASE}/test_passed_on.py::test_a_finished_release_has_the_same_numbers_elsewhere_and_never_draws[one number]"),
    Fault("a part of a table is written with all of it", "plan/serialization.py",
          "whole = whole.take(pa.array(range(whole.num_rows), pa.int64()))", "pass", f"{RELEASE}/test_passed_on.py::test_rows_that_a_table_is_a_part_of_are_not_kept"),
    # Files.
    Fault("row groups of a file show how many groups were left out", "release/release_files.py",
          "whole = size - size % each", "whole = size", "tests/engines/test_sources.py::test_row_groups_do_not_tell_how_many_groups_there_were"),
    Fault("a file that was changed is read back", "release/release_files.py",
          "if identity(file) != written:", "if False:", "tests/engines/test_files.py::test_a_file_may_be_written_again_and_is_read_back"),
    Fault("an output replaces the file that its rows come from", "files.py",
          "if any(_same(path, file) for file in files) or _fits(path, source):", "if _fits(path, source):", "tests/engines/test_top.py::test_a_source_is_not_written_over"),
    Fault("an output replaces a file that a pattern matches", "files.py",
          'files = [source, f"{source}.wal", *_matching(source)]', 'files = [source, f"{source}.wal"]', "tests/engines/test_files.py::test_a_source_is_not_written_over"),
    Fault("texts of a CSV file are formulas", "release/release_files.py",
          """_replaced(column, f"^{FORMULA}", r"'\\1")""", """_replaced(column, f"^{FORMULA}", r"\\1")""", f"{RELEASE}/test_files.py::test_every_text_comes_back"),
    Fault("a quote of a text is taken for a guard", "display/formatting.py",
          "and _FORMULA.match(text) else text", "else text", f"{RELEASE}/test_files.py::test_every_text_comes_back"),
    # Digests and receipts.
    Fault("a digest has no names", "release/table_digest.py",
          'json.dumps(names, separators=(",", ":"))', 'json.dumps([], separators=(",", ":"))', DIGEST),
    Fault("a receipt that was changed is read", "release/receipt.py",
          'if canonical_bytes(made.to_dict() | {"ledger": None}) != canonical_bytes({**given, "ledger": None}):', "if False:", f"{RECEIPT}::test_a_receipt_in_which_anything_was_changed_is_none"),
    Fault("verifying a receipt does not certify it anew", "release/receipt.py",
          "wrong = () if self.description is None else tuple(checked(known)[1])", "wrong = ()", f"{RELEASE}/test_described_receipts.py::test_a_changed_receipt_verifies_no_table"),
    Fault("made-up rows and known noise verify", "release/receipt.py",
          "return whole and not self.receipt.dummy and not self.receipt.unsafe_words", "return whole", f"{RECEIPT}::test_known_noise_is_said_and_agrees_with_nothing"),
    Fault("a receipt of several SELECTs claims the first one's budget", "release/processed_release.py",
          "return ExactCost(sum(epsilons, Fraction(0)), sum(deltas, Fraction(0)))", "return ExactCost(epsilons[0], deltas[0])", f"{RELEASE}/test_described_receipts.py::test_receipts_of_every_kind_are_verified[several]"),
    Fault("many public groups have one canonical form", "release/canonical_form.py",
          'groups["sha256"] = table_digest(public)', 'groups["sha256"] = ""', f"{RELEASE}/test_canonical.py::test_groups_that_are_too_many_to_list"),
    # Comparisons, shares, ratios.
    Fault("a difference of two groups has half of its interval", "release/group_comparison.py",
          "Interval(middle - half, middle + half), quotient(", "Interval(middle - half / 2, middle + half / 2), quotient(", f"{DERIVED}::test_comparisons_hold_as_often_as_they_say"),
    Fault("a share is held against no noise of the other groups", "release/group_comparison.py",
          "[(1, form), (others, of)] for of in (Form({}), form)", "[(1, of), (others, Form({}))] for of in (form, form)", f"{DERIVED}::test_a_share_is_held_against_the_noise_of_both_groups"),
    Fault("the bar of a ratio may fail four times as often", "query/aggregates/estimate.py",
          "quotient(used, top, bottom, failure)", "quotient(used, top, bottom, min(0.99, 4 * failure))", f"{DERIVED}::test_bars_hold_as_often_as_they_say"),
    # Standard errors.
    Fault("a standard error of a count leaves out that it is whole", "noise/noise_sums.py",
          "return float((2 * m + 1) @ ", "return float(2 * m @ ", f"{STANDARD}::test_that_of_a_count_is_of_the_rounded_law"),
    Fault("a standard error is of half a slope", "query/aggregates/estimate.py",
          "(above - below) / (2 * by)", "(above - below) / (4 * by)", f"{STANDARD}::test_those_of_sums_and_means_are_of_their_noises"),
    Fault("a ratio has a standard error as if both outputs had other noise", "query/aggregates/derived_outputs.py",
          "return [1 / divisor, -first / divisor**2]", "return [1 / divisor, first / divisor**2]", f"{STANDARD}::test_what_noise_leaves_open_has_none"),
    Fault("a number that may be 0 is divided by", "query/aggregates/estimate.py",
          "return np.asarray(np.abs(divisor) >= _SURE * error)", "return np.asarray(np.abs(divisor) >= 0 * error)", f"{STANDARD}::test_what_noise_leaves_open_has_none"),
    # Sampling error.
    Fault("ends of a share are for one no fewer", "release/sampling_error.py",
          "betaincinv(np.where(there, ones, 1.0), zeros + 1, tail)", "betaincinv(np.where(there, ones, 1.0), zeros, tail)", f"{SAMPLING}::test_ends_fail_no_more_often_than_stated"),
    Fault("the entropy of a mean is four times as surprising", "release/sampling_error.py",
          "_term(r, count * (1 - p)) > least)", "_term(r, count * (1 - p)) > least / 4)", f"{SAMPLING}::test_ends_fail_no_more_often_than_stated"),
    # Combined tables, totals, series.
    Fault("rows of one unit meet rows of another", "query/tables/combined_tables.py",
          "if right.unit is not None and (left.unit, right.unit) not in pairs:", "if False:", "tests/engines/test_combined.py::test_what_is_not_unit_local_is_refused"),
    Fault("units of two types are put together", "query/tables/combined_tables.py",
          '    _check_same_units("union", left, right)\n', "", "tests/engines/test_composite_units.py::test_weeks_are_those_of_the_declared_time_zone"),
    Fault("units in several groups are added up in totals", "query/group_totals.py",
          "if isinstance(aggregate, CountPrivacyUnits) and groups > 1:", "if False:", "tests/plan/test_totals.py::test_questions_that_are_refused"),
    # Statistics as they are shown.
    Fault("the bar of a covariance takes the means for exact", "query/aggregates/regression.py",
          "{first.total: -k, last.total: -m}", "{first.total: -k, last.total: -m * 0}", "tests/query/test_cross.py::test_bars_hold_as_often_as_they_say[gaussian]"),
    Fault("the bar of a coefficient takes the others for 0", "query/aggregates/regression.py",
          "rest = self.solution - ", "rest = 0 * self.solution - ", "tests/query/test_cross.py::test_bars_hold_as_often_as_they_say[gaussian]"),
    Fault("the bar of a correlation takes the variances for exact", "query/aggregates/regression.py",
          "below[name] = below.get(name, 0.0) + factor * weight", "below[name] = below.get(name, 0.0) + factor * weight * (name in self.signs)", "tests/query/test_cross.py::test_bars_hold_as_often_as_they_say[gaussian]"),
    Fault("the bar of a quantile takes the outer places for exact", "plan/quantile_candidates.py",
          "wide = SPREAD * ranks + y", "wide = 0 * y", "tests/plan/test_quantiles.py::test_bars_of_chosen_places_hold_as_often_as_they_say"),
    Fault("the bar of a quantile reaches to the outer places", "query/aggregates/quantile_aggregates.py",
          "reach = np.where(near, share", "reach = np.where(near & False, share", "tests/plan/test_quantiles.py::test_bars_of_chosen_places_hold_as_often_as_they_say"),
    # Questions that are refused.
    Fault("groups may be those of the unit itself", "api/table.py",
          "            if key == self.unit:\n", "            if False:\n", "tests/api/test_refusals.py::test_what_cannot_be_is_refused_before_anything_is_read_or_drawn[key]"),
    Fault("the privacy unit can be redefined", "api/table.py",
          "            if name.casefold() == self.unit.casefold():\n", "            if False:\n", "tests/engines/test_release.py::test_a_derived_column_takes_the_place_of_one_under_another_case_whole_but_never_of_the_unit"),
    Fault("a unit has one row wherever rows are made", "api/table.py",
          "if not unique or not set(unique) <= {self.unit, *self.keys}:", "if not unique:", "tests/engines/test_one_row.py::test_elsewhere_a_limit_is_asked_for"),
    Fault("diagnostics by themselves are not paid", "api/question.py",
          "made.paid = payment(budget, [told], what, form=form, made_up=engine.made_up)()", "made.paid = payment(None, [told], what, form=form, made_up=True)()", "tests/guidance/test_diagnostics.py::test_a_budget_pays_for_both"),
    Fault("a share counts beside an epsilon", "api/question.py",
          "if epsilon is not None or admissible_delta(delta) or diagnostics is not None:", "if False:", "tests/release/test_payment.py::test_what_is_no_share_is_refused"),
    Fault("a word of the budget is drawn by what is no source", "release/release.py",
          "if unsafe_words is not None and not isinstance(unsafe_words, Words):", "if False:", "tests/release/test_payment.py::test_what_is_refused_costs_nothing"),
    Fault("a plan is remembered for other limits", "plan/planning.py",
          'parts |= {"schema": tuple(query.schema.items()), "public_keys": count}', 'parts |= {"schema": tuple(query.schema.items()), "public_keys": count, "max_groups": None}', "tests/plan/test_planning.py::test_what_differs_is_planned_anew"),
    # What is shown.
    Fault("bars of numbers shown as 0 end where the number was", "query/aggregates/estimate.py",
          "value, interval = self.shown(numbers), self.interval", "value, interval = self.value(numbers), self.interval", f"{RELEASE}/test_nonnegative.py"),
    Fault("numbers below 0 are shown as positive ones", "query/aggregates/estimate.py",
          "return np.maximum(value, 0.0) if self.nonnegative", "return np.abs(value) if self.nonnegative", f"{RELEASE}/test_nonnegative.py"),
    Fault("sums of negative numbers are shown from 0 on", "api/question.py",
          "isinstance(a, Sum) and a.lower < 0}", "isinstance(a, Sum) and a.upper < 0}", f"{RELEASE}/test_nonnegative.py"),
    Fault("error bars are rounded inwards", "display/formatting.py",
          "quantize(last, ROUND_CEILING, _CONTEXT)\n    return Shown", "quantize(last, ROUND_HALF_EVEN, _CONTEXT)\n    return Shown", "tests/display/test_numbers.py::test_the_shown_error_is_never_too_small_and_the_value_is_near"),
    Fault("escape codes reach a terminal", "display/formatting.py",
          "c if c.isprintable() or c in allowed else", "c if c.isprintable() or c in allowed or c == '\\x1b' else", "tests/display/test_cards.py::test_each_place_of_a_card_is_escaped"),
]  # fmt: skip
