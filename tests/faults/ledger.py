"""Faults of ledgers and journals: what is charged and remembered."""

from tests.faults.fault import Fault

HERE = "tests/budget/ledger/"
AGAIN, EDITS, JOURNAL, LEDGER, PLACES, PROCESSES = (
    f"{HERE}test_{name}.py" for name in ("again", "edits", "journal", "ledger", "places", "processes")
)
CHANGED = f"{JOURNAL}::test_what_was_changed_is_found_where_it_is"
WHO = f"{AGAIN}::test_who_asks_which_version_and_what_the_owner_publishes"
SOURCE = "budget/ledger/"

FAULTS = [
    # What is charged.
    Fault("the dataset pays nothing for an analyst", SOURCE + "ledger.py",
          "            for kept in after:\n", "            for kept in after[-1:]:\n", f"{LEDGER}::test_what_is_spent_is_there_for_whoever_opens_it"),
    Fault("the cap of the dataset bounds no analyst", SOURCE + "ledger.py",
          "for was, kept in zip(before, after, strict=True) if not", "for was, kept in [*zip(before, after, strict=True)][-1:] if not", f"{LEDGER}::test_analysts_together_never_pass_the_cap_of_the_dataset"),
    Fault("a question is entered without its line", SOURCE + "ledger.py",
          "            journal._record_query(connection, at, entry, short, key)\n", "", f"{JOURNAL}::test_every_way_to_ask_is_written_with_its_plan_and_what_came"),
    Fault("a request with a key is paid each time", SOURCE + "ledger.py",
          "if first and key is not None and journal._is_charged(", "if False and journal._is_charged(", f"{AGAIN}::test_a_request_with_a_key_pays_once"),
    Fault("a cap that changes forgets what was spent", SOURCE + "ledger.py",
          "ledger_accounts.save(connection, self._where, kept._replay_entries(paid), cap=True)", "ledger_accounts.save(connection, self._where, kept, cap=True)", f"{LEDGER}::test_a_cap_that_changes_keeps_what_was_spent"),
    Fault("a lifetime is renewed too", SOURCE + "ledger_accounts.py",
          "return replace(self, since=since, account=empty)", "return replace(self, since=since, account=empty, lifetime=empty)", f"{LEDGER}::test_a_period_renews_what_is_left_and_the_lifetime_grows"),
    Fault("a week has the year of its day", SOURCE + "ledger_entries.py",
          'return f"{year:04}-W{week:02}"', 'return f"{day.year:04}-W{week:02}"', f"{LEDGER}::test_periods_are_in_order_and_whole"),
    Fault("long fractions are rounded down", SOURCE + "ledger_entries.py",
          "return Fraction(ceil(number * 2**_FINEST), 2**_FINEST)", "return Fraction(floor(number * 2**_FINEST), 2**_FINEST)", f"{LEDGER}::test_odd_numbers_stay_exact"),
    Fault("caps are rounded up", SOURCE + "ledger_entries.py",
          "return Fraction(floor(limit * 2**_FINEST), 2**_FINEST)", "return Fraction(ceil(limit * 2**_FINEST), 2**_FINEST)", f"{LEDGER}::test_a_cap_of_which_a_ledger_can_hold_nothing_is_refused"),
    Fault("chances of events are not entered", SOURCE + "ledger_entries.py",
          "            additive_delta=outward(loss.additive_delta),\n", "", f"{LEDGER}::test_what_is_written_is_what_was_asked_or_more"),
    Fault("joint bounds are read back as none", SOURCE + "ledger_entries.py",
          "pure=None if pure is None else Fraction(pure)", "pure=None", f"{LEDGER}::test_a_ledger_admits_what_a_budget_admits"),
    # Answers that are given again.
    Fault("anybody has an answer again", SOURCE + "journal.py",
          'mine = (JOURNAL.c.analyst == (analyst or "")) | JOURNAL.c.entry.in_(published)', "mine = JOURNAL.c.id > 0", WHO),
    Fault("an answer is given again of other data", SOURCE + "journal.py", '"data": version}', '"data": ""}', WHO),
    Fault("an answer is kept for data that was declared since", SOURCE + "journal.py",
          "known = kept and question is not None and read_data_version(connection, found[0]) == data", "known = kept and question is not None", f"{AGAIN}::test_an_answer_of_data_that_was_declared_since_is_not_given"),
    Fault("a repeated answer is not written", SOURCE + "journal.py",
          "        if found.body is not None:\n            self._record_repeat(dataset, analyst, found.entry)\n        return found\n\n    def _paid_answer(", "        return found\n\n    def _paid_answer(",
          f"{AGAIN}::test_the_same_question_has_the_same_answer_for_nothing"),
    Fault("an answer that was moved to another is given", SOURCE + "journal.py",
          "or not journal_lines.has_matching_index(line)\n", "or False\n", f"{AGAIN}::test_an_answer_that_was_made_somebody_elses_is_not_given"),
    Fault("a paid answer is anybody's", SOURCE + "journal.py",
          'mine = (JOURNAL.c.dataset == dataset) & (JOURNAL.c.analyst == (analyst or ""))\n        of = JOURNAL.c.question == key if', 'mine = JOURNAL.c.dataset == dataset\n        of = JOURNAL.c.question == key if', f"{AGAIN}::test_a_request_with_a_key_pays_once"),
    Fault("refusals are written without end", SOURCE + "journal.py", "        elif today == 1:\n", "        else:\n", f"{JOURNAL}::test_who_is_refused_without_end_fills_no_disk"),
    # What was changed by hand.
    Fault("a line that is found as another is not seen", SOURCE + "journal_lines.py", "elif not has_matching_index(row):", "elif False:", CHANGED),
    Fault("a journal without its end goes on", SOURCE + "journal_lines.py", "    if digest != kept:\n        raise", "    if False:\n        raise", f"{JOURNAL}::test_a_journal_that_lost_its_end_pays_for_nothing"),
    Fault("a cap that was raised by hand is spent", SOURCE + "journal_lines.py",
          "if any(said.get(name) != cell for name, cell in cap_cells(account).items()):", "if False:", f"{EDITS}::test_a_cap_that_is_raised_spent_and_put_back_is_found"),
    Fault("a head of other lines is one of these", SOURCE + "journal_verify.py", "elif then != (now if number else digest(begins)):", "elif False:", f"{JOURNAL}::test_whoever_writes_all_of_it_anew_is_found_by_the_head_alone"),
    Fault("lines that were cut off are not missed", SOURCE + "journal_verify.py", "    if last < number:\n", "    if False:\n", f"{JOURNAL}::test_an_end_that_is_cut_off_cleanly_is_found_by_the_head_alone"),
    Fault("an entry that was put in is not seen", SOURCE + "journal_verify.py", "for number in sorted(entries.keys() - seen):", "for number in ():", CHANGED),
    Fault("a changed answer is not seen", SOURCE + "journal_verify.py", "if held != said.pop(number, None):", "if not said.pop(number, None):", CHANGED),
    Fault("a day that was set ahead is not seen", SOURCE + "journal_verify.py",
          '["day"] != day:', '["day"] < day:', f"{EDITS}::test_a_day_that_is_set_ahead_renews_nothing_unseen"),
    Fault("an entry may give back what was spent", SOURCE + "ledger_accounts.py", "    if epsilon < 0 or delta < 0:", "    if False:", f"{EDITS}::test_a_line_that_gives_back_what_was_spent_is_found"),
    Fault("a sum may be below 0", SOURCE + "ledger_entries.py", "if not all(0 <= number <= _LARGEST**2", "if not all(number <= _LARGEST**2", f"{PLACES}::test_what_was_changed_by_hand_is_told"),
    Fault("an older copy takes the place of a ledger", SOURCE + "ledger.py", "(found[0] != known[0] or found[1] < known[1])", "found[0] != known[0]", f"{PLACES}::test_what_takes_the_place_of_a_ledger_is_not_spent_from"),
    # Files and processes.
    Fault("a file with two names is spent from", SOURCE + "ledger_databases.py", "if found.st_nlink > 1:", "if False:", f"{PLACES}::test_a_file_with_two_names_is_refused"),
    Fault("a spend is perhaps not on disk", SOURCE + "ledger_databases.py", "PRAGMA synchronous = EXTRA", "PRAGMA synchronous = NORMAL", f"{PLACES}::test_every_setting_that_makes_a_spend_durable_is_on"),
    Fault("anybody reads the file of a ledger", SOURCE + "ledger_databases.py", "os.O_RDWR, 0o600", "os.O_RDWR, 0o644", f"{PLACES}::test_a_ledger_that_is_not_there_is_not_made_by_asking"),
    Fault("two spend at once", SOURCE + "ledger_databases.py", '"BEGIN IMMEDIATE"', '"BEGIN"', f"{PROCESSES}::test_eight_analysts_in_eight_processes_spend_what_there_is_and_no_more"),
    Fault("an answer of no version is given again", SOURCE + "journal.py",
          "            if version is None:\n                return PriorAnswer(None)\n            content", "            content",
          f"{AGAIN}::test_where_no_version_is_declared_each_is_paid"),
    Fault("largest groups by any sum are one question", "release/canonical_form.py",
          '"by": "units" if question.by is None else _output("sum", question.by, told["columns"]),', '"by": "units",',
          "tests/release/test_canonical.py::test_the_largest_groups"),
    Fault("a child ends what its parent began", SOURCE + "ledger_databases.py",
          '    if connection.info.get("process", process()) != process():\n', "    if False:\n", f"{PROCESSES}::test_a_fork_in_the_middle_of_a_spend_pays_once_and_for_one"),
    Fault("a child shows what its parent paid", SOURCE + "ledger.py", "        self._check_home()  # one that was forked meanwhile has paid nothing\n", "", f"{PROCESSES}::test_a_fork_after_the_spend_is_refused_what_its_parent_paid"),
]  # fmt: skip
