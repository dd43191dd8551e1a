"""Faults of commands: what they pay, print and write, and the exit codes that they end with."""

from tests.faults.fault import Fault

SQL = "tests/cli/test_sql_command.py::"
LEDGER = "tests/cli/test_ledger_commands.py::"
OWNER = "tests/cli/test_owner_commands.py::"

FAULTS: list[Fault] = [
    # Receipts.
    Fault("a receipt with a wrong claim is certified", "cli/check_command.py",
          "(report(certificate), True) if certificate and not wrong else", "(report(certificate), True) if certificate else", f"{OWNER}test_another_table_or_receipt_is_not_certified"),
    Fault("a table is not compared with its receipt", "cli/check_command.py",
          'if answer is not None and given.get("sha256") == digest(given):', "if False:", f"{OWNER}test_another_table_or_receipt_is_not_certified"),
    # What is claimed, and what is paid.
    Fault("nothing pays for a release", "cli/sql_command.py",
          "release: NoisyTable = asked.release(None if self.payer is None else self.payer.budget)", "release: NoisyTable = asked.release(None)", f"{LEDGER}test_a_query_is_paid_once_before_a_row_is_read_and_what_is_left_is_said"),
    Fault("the budget of all pays, and not the analyst's", "cli/ledger_command.py",
          "open_ledger(place).budget(dataset, analyst))", "open_ledger(place).budget(dataset))", f"{LEDGER}test_refusals_and_plans_read_no_row_and_cost_nothing"),
    Fault("a dry run releases", "cli/sql_command.py",
          "        if self.dry_run:\n            console.print", "        if False:\n            console.print", f"{SQL}test_a_dry_run_reads_no_row"),
    # What is read, printed and written.
    Fault("exact numbers are shown without being asked for", "cli/check_command.py",
          "if not not_private:", "if False:", f"{OWNER}test_what_cannot_be_analyzed_or_is_not_asked_for"),
    Fault("real rows are asked as dummy rows", "cli/sql_command.py",
          "return found.dummy() if dummy else found", "return found", f"{SQL}test_dummy_rows_of_a_catalog_are_no_release"),
    Fault("an output replaces the rows", "cli/sql_command.py",
          "planned._check_no_source(path, name)", "pass", f"{SQL}test_mistakes_are_errors_before_anything_is_drawn"),
    Fault("an output replaces the ledger", "cli/ledger_command.py",
          "if resolve_output_path(path) in (resolve_output_path(self.place), os.path.realpath(self.place)):", "if False:", f"{LEDGER}test_refusals_and_plans_read_no_row_and_cost_nothing"),
    Fault("a password of a database is printed", "cli/options.py",
          'hidden = entry if "://" not in entry else entry.partition("://")[0] + "://..."', "hidden = entry", f"{SQL}test_mistakes_are_errors_before_anything_is_drawn"),
    Fault("a text of an analyst is a formula of a spreadsheet", "cli/ledger_command.py",
          "guard_formula(value) if isinstance(value, str) else value", "value", f"{LEDGER}test_an_owner_makes_budgets_and_sees_what_becomes_of_them"),
    Fault("the history of an analyst is that of all", "cli/ledger_command.py",
          "open_ledger(ledger).history(dataset, analyst)", "open_ledger(ledger).history(dataset)", f"{LEDGER}test_an_owner_makes_budgets_and_sees_what_becomes_of_them"),
]  # fmt: skip
