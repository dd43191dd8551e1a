"""SQL for tests of commands on the 900 people of `visits.parquet`, and what a command has printed."""

from typing import Any

# Enough budget that every group is shown and no test depends on luck: at this epsilon the noise of a count
# of hundreds is far below one.
OPTIONS = "epsilon = 1000, delta = 1e-6, privacy_unit_column = id, max_rows_per_group = 1"


def query(
    columns: str, *, groups: bool = True, source: str = "'visits.parquet'", options: str = OPTIONS
) -> str:
    """Return a private SELECT of columns, grouped by those that are no aggregates."""
    limit = ", max_groups_contributed = 3" if groups else ""
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}{limit}) {columns} FROM {source}"
    return text + " GROUP BY ALL" * groups


def line(text: str) -> str:
    """Return printed text as one line."""
    return " ".join(text.split())


def refused(done: Any, code: int, says: str) -> None:
    """Fail where a command did not end with this code and an error that says so, and nothing else."""
    assert done.exit_code == code, done.output
    assert says in line(done.stderr), done.stderr
    assert "Traceback" not in done.output and done.stdout == ""
