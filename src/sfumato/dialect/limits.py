"""The limits of contribution that a private SELECT sets: as it says, as a catalog does, or the least."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from sfumato.catalogs.declarations import TableDeclaration
from sfumato.catalogs.notes import limit_note
from sfumato.dialect.aggregates import Aggregates
from sfumato.dialect.options import Options
from sfumato.dialect.syntax import Statement
from sfumato.dialect.words import refusal
from sfumato.query.aggregates import Aggregate


class Limits:
    """How much a privacy unit contributes to the answer of a statement.

    Args:
        statement: the private SELECT.
        options: what its OPTIONS say.
        aggregates: what it asks; those of its notes are added to that are about limits.
        declared: what a catalog says of its table.
    """

    def __init__(
        self,
        statement: Statement,
        options: Options,
        aggregates: Aggregates,
        declared: TableDeclaration | None,
    ) -> None:
        self.statement = statement
        self.options = options
        self.aggregates = aggregates
        self.declared = declared
        self.notes: list[str] = aggregates.notes

    def groups(self, grouped: bool) -> int | Literal["auto"] | None:
        """Return in how many groups a unit counts; "auto" where that is to be found."""
        groups = self.options.groups
        if not grouped or self.options.total_rows is not None:
            return None
        if groups is None and self.options.auto_limits:
            return "auto"
        if groups is None and self.declared is not None and self.declared.max_groups is not None:
            groups = self.declared.max_groups
            self.notes.append(limit_note(self.declared, "max_groups_contributed", groups))
        elif groups is None:
            self.notes.append(
                "max_groups_contributed was not given: a privacy unit counts in at most 1 group "
                "(BigQuery's default)."
            )
        return groups or 1

    def rows(self, asked: Iterable[Aggregate]) -> int | Literal["auto"] | None:
        """Return as how many rows of a group a unit counts; None where nothing depends on it."""
        rows, of_count, total = self.options.rows, self.aggregates.rows, self.options.total_rows
        if total is not None:
            if of_count is not None:
                raise refusal(
                    self.statement.text,
                    of_count[1],
                    f"a COUNT is bounded by {of_count[0]} in each group, but max_rows_contributed = {total} "
                    "limits a unit's rows over all groups together; keep one of the two",
                )
            return None
        if of_count is not None:
            if rows is not None and rows != of_count[0]:
                raise refusal(
                    self.statement.text,
                    of_count[1],
                    f"a COUNT is bounded by {of_count[0]}, but max_rows_per_group is {rows}; "
                    "one limit of rows holds for the whole question",
                )
            rows = of_count[0]
        needed = any(a.needs_rows for a in asked)
        if rows is None and needed and self.options.auto_limits:
            return "auto"
        if rows is None and needed and self.declared is not None and self.declared.max_rows is not None:
            rows = self.declared.max_rows
            self.notes.append(limit_note(self.declared, "max_rows_per_group", rows))
        if rows is None and needed:
            self.notes.append(
                "max_rows_per_group was not given: a privacy unit counts as at most 1 row in a group."
            )
            rows = 1
        return rows
