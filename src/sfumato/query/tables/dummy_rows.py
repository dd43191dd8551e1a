"""Dummy rows: what is to be made up, as plain data, from declarations alone."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import field
from fractions import Fraction

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import positive_int

MAX_ROWS = 1_000_000
UNIT = "unit"  # what privacy units are called, where they are texts
MADE_UP = (
    "THESE ROWS ARE DUMMY ROWS, generated from declarations of column types, bounds and domains. "
    "They hold no row of the data, so the answer is about nobody, and no budget is charged."
)


@dataclass(frozen=True)
class Known:
    """What a catalog declares of a column of dummy rows.

    Args:
        bounds: lower and upper, or None.
        domain: all values, or None.
    """

    bounds: tuple[Fraction, Fraction] | None = None
    domain: tuple[Hashable, ...] | None = None


@dataclass(frozen=True)
class Making:
    """How dummy rows are made up.

    Args:
        rows: how many.
        units: of how many privacy units.
        seed: with another one, rows are others.
    Raises:
        ParameterError: a number is not admissible.
    """

    rows: int
    units: int
    seed: int

    @classmethod
    def from_options(cls, rows: object, units: object, seed: object) -> Making:
        """Return valid numbers of dummy rows and units; with units left out, four rows of each."""
        count = positive_int(rows, "rows")
        if count > MAX_ROWS:
            raise ParameterError("rows", rows, f"at most {MAX_ROWS:,}")
        people = max(1, count // 4) if units is None else positive_int(units, "units")
        if people > count:
            raise ParameterError("units", units, f"at most rows, {count:,}, as each unit has one")
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise ParameterError("seed", seed, "a whole number")
        return cls(count, people, seed)


@dataclass(frozen=True)
class Reference:
    """A foreign key between tables of dummy rows.

    Args:
        column: here.
        count: how many values there are that it names.
        name: what such values are called, where they are texts.
    """

    column: str
    count: int
    name: str


@dataclass(frozen=True)
class DummyRows:
    """A table of dummy rows, as a source.

    Args:
        making: how many there are.
        columns: names, and types as DuckDB calls them.
        complete: columns in which no value is missing.
        unit: the column that tells whose a row is, or the first of several; None of a public table.
        known: what is declared of columns, by name.
        unique: a column in which each row has a value of its own, which foreign keys of other tables name.
        refers: a foreign key, all of whose values are there; None without one.
        public: whether rows are public: then each value is there once, as far as can be.
        name: what the table is called.
        elsewhere: whether they stand for rows of a service, which alone answers.
    """

    making: Making
    columns: Mapping[str, str] = field(hash=False)
    complete: frozenset[str]
    unit: str | None
    known: Mapping[str, Known] = field(default_factory=dict, hash=False)
    unique: str | None = None
    refers: Reference | None = None
    public: bool = False
    name: str = "dummy rows"
    elsewhere: bool = False
