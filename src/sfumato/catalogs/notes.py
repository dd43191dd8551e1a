"""What an explanation says of what a question took from its catalog."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sfumato.catalogs.declarations import ForeignKey, TableDeclaration
from sfumato.catalogs.domains import size


def bounds_note(table: TableDeclaration, column: str, bounds: tuple[Fraction, Fraction]) -> str:
    """Say whose the bounds of a column are."""
    lower, upper = (str(float(b)) if b.denominator > 1 else str(b) for b in bounds)
    return (
        f"{column} has no bounds in the question: each row is clamped to {lower} to {upper}, as "
        f"{table.where} says."
    )


def groups_note(table: TableDeclaration, keys: Sequence[str], domains: Sequence[Sequence[object]]) -> str:
    """Say why groups are public."""
    return (
        f"the {size(domains)} groups by {', '.join(keys)} are public, as {table.where} declares their "
        "domains: each is shown, and rows with other values are in none."
    )


def limit_note(table: TableDeclaration, name: str, limit: int) -> str:
    """Say where a limit comes from."""
    return f"{name} was not given: {limit} is taken, the most that {table.where} allows."


def unused_note(table: TableDeclaration, name: str) -> str:
    """Say that the largest groups need no limit."""
    return (
        f"{name} of {table.where} limits nothing here: a unit counts in all its groups, each of which it "
        "moves by its bound at most, and the noise hides it in however many."
    )


def beyond(table: TableDeclaration, name: str, given: int, limit: int) -> str:
    """Say that a limit is larger than the owner allows."""
    return f"{name} is {given}, but {table.where} allows at most {limit}"


def owner_notes(table: TableDeclaration, key: ForeignKey, unit: str) -> list[str]:
    """Say whose rows are that reach their unit by a foreign key, and on what that rests."""
    told = [
        f"a row of {table.name} belongs to the {unit} whose row of {key.table} has its {key.column} as "
        f"{key.key}, as {table.where} says; one that finds none is dropped."
    ]
    if key.key.casefold() != unit.casefold():
        told.append(
            f"{key.table}.{key.key} is declared unique, which no release checks, as that would tell of "
            f"rows: a row of {table.name} whose {key.column} several {unit} have counts for each of them, "
            "and is protected so many times less."
        )
    return told
