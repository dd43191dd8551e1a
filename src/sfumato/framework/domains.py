"""Domains: sets of values that functions take and give, such as atoms, vectors, tables, rows and groups."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence, Sized
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Short
from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, positive_int

Kind = type[bool] | type[int] | type[float] | type[Fraction] | type[str]
NUMBERS = (int, float, Fraction)
Entries = TypeVar("Entries", bound=Sized)


class Domain(ABC):
    """A domain: a set of values.

    Examples are `AtomDomain` and `VectorDomain`.

    >>> ages, numbers = VectorDomain(AtomDomain(int, lower=0, upper=120)), VectorDomain(AtomDomain(int))
    >>> ages.contains([30, 41]), ages.contains([30, -1])
    (True, False)
    >>> numbers.includes(ages), ages.includes(numbers)
    (True, False)
    """

    def _in_messages(self) -> str:
        return repr(self)

    @abstractmethod
    def contains(self, value: Any) -> bool:
        """Whether a value is a member of the domain.

        Args:
            value: any value.
        """

    def includes(self, other: Domain) -> bool:
        """Whether the domain includes every member of another; claims made here then hold there.

        Args:
            other: a domain.
        """
        return self == other


@dataclass(frozen=True, repr=False)
class AtomDomain(Short, Domain):
    """A domain of single values of one kind, optionally between bounds.

    Args:
        kind: bool, int, float, str, or Fraction for exact numbers (which whole numbers are too).
        lower, upper: bounds of a number, in its unit, or None. Without a bound on one side, a float may be
            infinite on that side.
        nan: whether a float may be NaN.
        null: whether None (NULL) is a member.
    Raises:
        ParameterError: the arguments do not fit together.

    >>> ages = AtomDomain(int, lower=0, upper=120)
    >>> ages.contains(30), ages.contains(-1), ages.contains(30.0), AtomDomain(float).contains(float("nan"))
    (True, False, False, False)
    >>> AtomDomain(int).includes(ages), ages.includes(AtomDomain(int))
    (True, False)
    """

    kind: Kind
    lower: Fraction | None = None
    upper: Fraction | None = None
    nan: bool = False
    null: bool = False

    if TYPE_CHECKING:  # numbers of any kind are made exact

        def __init__(
            self,
            kind: Kind,
            lower: Number | None = None,
            upper: Number | None = None,
            nan: bool = False,
            null: bool = False,
        ) -> None: ...

    def __post_init__(self) -> None:
        if not isinstance(self.kind, type) or self.kind not in (bool, str, *NUMBERS):
            raise ParameterError("kind", self.kind, "bool, int, float, Fraction or str")
        if self.nan and self.kind is not float:
            raise ParameterError("nan", True, "False, but for float")
        for name in ("lower", "upper"):
            bound = getattr(self, name)
            if bound is not None:
                if self.kind not in NUMBERS:
                    raise ParameterError(name, bound, "None, but for numbers")
                object.__setattr__(self, name, as_fraction(bound, name))
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ParameterError("lower", self.lower, f"at most the upper bound, {self.upper}")

    @property
    def is_number(self) -> bool:
        """Whether all members are numbers: neither NaN nor NULL nor text."""
        return self.kind in NUMBERS and not self.nan and not self.null

    @property
    def is_bounded(self) -> bool:
        """Whether all members are between two bounds."""
        return self.lower is not None and self.upper is not None

    def contains(self, value: Any) -> bool:
        """Whether a value is of the domain's kind and within its bounds."""
        if value is None:
            return self.null
        if isinstance(value, bool) or self.kind is bool:
            return self.kind is bool and isinstance(value, bool)
        kind = (int, Fraction) if self.kind is Fraction else self.kind
        if type(value) is not self.kind and not isinstance(value, kind):  # the first takes less time
            return False
        if isinstance(value, str):
            return True
        if isinstance(value, float) and math.isnan(value):
            return self.nan
        low, high = self._ends
        return (low is None or value >= low) and (high is None or value <= high)

    @cached_property
    def _ends(self) -> tuple[Any, Any]:
        """The bounds of the domain, as ints where they are whole, which compare ten times as fast."""
        ends = [
            None if b is None else b.numerator if b.denominator == 1 else b for b in (self.lower, self.upper)
        ]
        return ends[0], ends[1]

    def includes(self, other: Domain) -> bool:
        """Whether this domain of single values includes every member of another."""
        if isinstance(other, CategoryDomain):
            return all(map(self.contains, other.members))
        return (
            isinstance(other, AtomDomain)
            and (self.kind is other.kind or (self.kind is Fraction and other.kind is int))
            and (self.lower is None or (other.lower is not None and other.lower >= self.lower))
            and (self.upper is None or (other.upper is not None and other.upper <= self.upper))
            and self.nan >= other.nan
            and self.null >= other.null
        )


@dataclass(frozen=True)
class CategoryDomain(Domain):
    """A domain of a few known values, the categories.

    Raises:
        ParameterError: there are fewer than two values, or one occurs twice.

    >>> CategoryDomain(("yes", "no")).contains("maybe")
    False
    """

    members: tuple[Hashable, ...]

    def __post_init__(self) -> None:
        members = tuple(self.members)
        if len(members) < 2 or len(set(members)) < len(members):
            raise ParameterError("members", members, "at least two different values")
        object.__setattr__(self, "members", members)

    def contains(self, value: Any) -> bool:
        """Whether a value is in the domain of categories."""
        return any(type(value) is type(m) and value == m for m in self.members)


@dataclass(frozen=True, repr=False)
class VectorDomain(Short, Domain):
    """A domain of sequences with members from one domain, of any length or of a fixed one.

    Args:
        element: the domain of each entry.
        size: the length, at least 1, or None.
        null: whether None (NULL) is a member, in place of a vector.

    >>> pairs = VectorDomain(AtomDomain(int), size=2)
    >>> pairs.contains([3, 4]), VectorDomain(AtomDomain(int)).includes(pairs)
    (True, True)
    """

    element: Domain
    size: int | None = None
    null: bool = False

    def __post_init__(self) -> None:
        if self.size is not None:
            positive_int(self.size, "size")

    def contains(self, value: Any) -> bool:
        """Whether a value is a vector of the domain's length and members."""
        if value is None:
            return self.null
        return (
            isinstance(value, Sequence)
            and not isinstance(value, (str, bytes))
            and self.size in (None, len(value))
            and all(map(self.element.contains, value))
        )

    def includes(self, other: Domain) -> bool:
        """Whether this vector domain includes every member of another domain."""
        return (
            isinstance(other, VectorDomain)
            and self.null >= other.null
            and self.size in (None, other.size)
            and self.element.includes(other.element)
        )


@dataclass(frozen=True)
class ProductDomain(Domain):
    """A domain of sequences with an entry from each of several domains.

    Raises:
        ParameterError: there is no domain.

    >>> visits = ProductDomain((AtomDomain(int, lower=0), AtomDomain(str)))
    >>> visits.contains((3, "Ulm")), ProductDomain((AtomDomain(int), AtomDomain(str))).includes(visits)
    (True, True)
    """

    parts: tuple[Domain, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts:
            raise ParameterError("parts", self.parts, "at least one domain")

    def contains(self, value: Any) -> bool:
        """Whether a value has a member of each of the product's domains, in their order."""
        return (
            isinstance(value, Sequence)
            and not isinstance(value, (str, bytes))
            and len(value) == len(self.parts)
            and all(part.contains(v) for part, v in zip(self.parts, value, strict=True))
        )

    def includes(self, other: Domain) -> bool:
        """Whether this product domain includes every member of another domain."""
        return (
            isinstance(other, ProductDomain)
            and len(self.parts) == len(other.parts)
            and all(a.includes(b) for a, b in zip(self.parts, other.parts, strict=True))
        )


@dataclass(frozen=True)
class TableDomain(Domain):
    """A domain of tables: sequences of records, each a mapping with a value for every column.

    Args:
        columns: pairs of a name and the domain of its values.
        size: the number of records, or None.

    >>> TableDomain((("age", AtomDomain(int)),)).contains([{"age": 30}, {"age": 41}])
    True
    """

    columns: tuple[tuple[str, Domain], ...]
    size: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if self.size is not None:
            positive_int(self.size, "size")

    def contains(self, value: Any) -> bool:
        """Whether a value is a table with the domain's columns."""
        names = {name for name, _ in self.columns}
        return (
            isinstance(value, Sequence)
            and self.size in (None, len(value))
            and all(isinstance(r, Mapping) and set(r) == names for r in value)
            and all(domain.contains(r[name]) for r in value for name, domain in self.columns)
        )


class Row(NamedTuple):
    """A row in a domain of personal tables: privacy unit, group key, and values by column name.

    Args:
        unit: the privacy unit that the row belongs to.
        key: the key of the row's group.
        values: by column name.

    >>> Row("ann", "Ulm", {"age": 30}).key
    'Ulm'
    """

    unit: Hashable
    key: Hashable
    values: Mapping[str, Any]


@dataclass(frozen=True)
class RowsDomain(Domain):
    """A domain of tables of personal rows: sequences of `Row`.

    Args:
        columns: pairs of a name and the domain of its values, for the columns that matter.

    >>> people = RowsDomain((("age", AtomDomain(int)),))
    >>> people.contains([Row("ann", "Ulm", {"age": 30})])
    True
    >>> RowsDomain().includes(people), people.includes(RowsDomain())  # more columns do no harm
    (True, False)
    """

    columns: tuple[tuple[str, Domain], ...] = ()

    def contains(self, value: Any) -> bool:
        """Whether a value is a sequence of personal rows with the domain's columns."""
        return isinstance(value, Sequence) and all(
            hasattr(row, "unit") and all(d.contains(row.values[name]) for name, d in self.columns)
            for row in value
        )

    def includes(self, other: Domain) -> bool:
        """Whether another domain's personal rows also have this one's columns."""
        return isinstance(other, RowsDomain) and all(
            any(name == n and domain.includes(d) for n, d in other.columns) for name, domain in self.columns
        )


# What a part of a unit is counted in, so that parts are whole numbers.
WEIGHT_BITS = 20
WHOLE = 1 << WEIGHT_BITS


class Part(NamedTuple):
    """A fraction of a unit in a domain of contributions: its rows in a group, and the weight that counts.

    Args:
        rows: the values of each row, by column name.
        weight: from 0 to `WHOLE`, which is 2^20 and stands for the whole unit.

    >>> Part([Row("ann", "Ulm", {})], 2**19).weight  # a half of her
    524288
    """

    rows: Sequence[Mapping[str, Any]]
    weight: int


@dataclass(frozen=True)
class ContributionDomain(Domain):
    """A domain of bounded contributions: for each group, the rows of each unit in it.

    Args:
        groups: the most groups of a unit.
        rows: the most rows of a unit in each group, or None for any number.
        scaled: whether units are in any number of groups, with a `Part` in each, and the fractions of a unit
            sum to at most `groups`.
        total: the most rows of a unit over all groups together, or None for any number.
        shared: whether units have a `Part` in each of their groups, and the squares of their fractions sum to
            at most 1.

    >>> ContributionDomain(groups=1).contains({"Ulm": [[Row("ann", "Ulm", {})]]})
    True
    """

    groups: int
    rows: int | None = None
    scaled: bool = False
    total: int | None = None
    shared: bool = False

    def contains(self, value: Any) -> bool:
        """Whether a value is in the domain: groups with lists of units' rows, or of their `Part`s."""
        return isinstance(value, Mapping) and all(
            isinstance(units, list) and all(map(self._holds, units)) for units in value.values()
        )

    def _holds(self, unit: Any) -> bool:
        if isinstance(unit, Part) is not (self.scaled or self.shared):
            return False
        rows = unit.rows if isinstance(unit, Part) else unit
        known = not isinstance(unit, Part) or 0 <= unit.weight <= WHOLE
        return known and (self.rows is None or len(rows) <= self.rows)


@dataclass(frozen=True)
class GroupedIntegers(Domain):
    """A domain of exact integers by group, one for each named coordinate, in grid steps.

    >>> GroupedIntegers(("units",)).contains({"Ulm": {"units": 3}})
    True
    """

    coordinates: tuple[str, ...]

    def contains(self, value: Any) -> bool:
        """Whether a value is in the domain: groups with integers by coordinate."""
        return isinstance(value, Mapping) and all(
            isinstance(total, Mapping) and all(isinstance(n, int) for n in total.values())
            for total in value.values()
        )


def check_length(values: Entries, size: int | None, name: str, what: str = "the input") -> Entries:
    """Take a value of a domain of known length, where None is any; `name` is the constructor's."""
    if size is not None and len(values) != size:
        raise ParameterError(f"{name}: length of {what}", len(values), f"{size}")
    return values
