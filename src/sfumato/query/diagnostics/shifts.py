"""How far limits and bounds shift each output: what is computed for each unit, and what follows from it.

A value beyond a bound counts up to the width of the bounds further out: values that are further away shift an
output by more than what is shown. All groups are taken together. Proof: docs/proofs/diagnostics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product

from sfumato.dataclass import dataclass
from sfumato.query.aggregates import Aggregate, CountPrivacyUnits, CountRows, Mean, Sum
from sfumato.query.plans.plan import Plan
from sfumato.query.query import Query
from sfumato.query.schema import quoted
from sfumato.transformations import UnitSum

PARTS = ("inside", "above", "below", "kept", "kept_inside")


@dataclass(frozen=True)
class Clamp:
    """Bounds that clamp the values of a column, or with `per_unit` their sum of one unit and group.

    Args:
        column: of the values.
        lower, upper: the bounds.
        per_unit: whether they clamp sums.
        binds: whether a value may be beyond them.
    """

    column: str
    lower: float
    upper: float
    per_unit: bool
    binds: bool

    @property
    def width(self) -> float:
        """How far the bounds are apart."""
        return self.upper - self.lower

    @property
    def number(self) -> str:
        """SQL of a row's value as a number; NULL where it has none."""
        value = f"try_cast({quoted(self.column)} AS DOUBLE)"
        return f"CASE WHEN isnan({value}) THEN NULL ELSE {value} END"

    def parts(self, value: str) -> dict[str, str]:
        """Return SQL of where a value is, each from 0 to 1: within the bounds, above them, and below them."""
        low, high = (f"CAST('{at!r}' AS DOUBLE)" for at in (self.lower, self.upper))
        width = f"CAST('{self.width!r}' AS DOUBLE)"
        found = {
            "inside": f"({value} - {low})",
            "above": f"({value} - {high})",
            "below": f"({low} - {value})",
        }
        return {name: f"least(greatest({part} / {width}, 0.0), 1.0)" for name, part in found.items()}


@dataclass(frozen=True)
class Shift:
    """How far limits and bounds shift an output, of all groups together.

    Args:
        output: its name.
        shift: what it is off on average: with `relative` as a part of what it would be without limits and
            bounds, else in its own unit. Below 0 it is too small.
        half_width: of the error bar of the shift.
        relative: which of the two.

    Made by `Diagnostics.shifts`.

    >>> print(Shift("n", -0.312, 0.021, True))
    n is about 31% ± 2% lower than without limits and bounds
    """

    output: str
    shift: float
    half_width: float
    relative: bool

    def __str__(self) -> str:
        if self.relative:
            digits = 0 if self.half_width >= 0.01 else 1
            size, bar = f"{abs(self.shift):.{digits}%}", f"{self.half_width:.{digits}%}"
        else:
            size, bar = f"{abs(self.shift):.3g}", f"{self.half_width:.2g}"
        if abs(self.shift) <= self.half_width:
            return f"limits and bounds shift {self.output} by no more than noise explains: {size} ± {bar}"
        way = "higher" if self.shift > 0 else "lower"
        return f"{self.output} is about {size} ± {bar} {way} than without limits and bounds"


@dataclass(frozen=True)
class Question:
    """What is asked for the shift of an output.

    Args:
        output: its name.
        relative: whether the shift is a part of the output.
        means: the names of the means that it follows from, by what each is.
        of: makes the shift of these means.
    """

    output: str
    relative: bool
    means: Mapping[str, str]
    of: Callable[[Mapping[str, float]], float]

    def shift(self, values: Mapping[str, float], bars: Mapping[str, float]) -> Shift:
        """Return the shift, of noisy means and their error bars, all of which hold at once.

        The shift is monotone in each mean, so that its extremes are where all means are at an end.
        """

        def at(signs: tuple[int, ...]) -> float:
            ends = zip(self.means.items(), signs, strict=True)
            return self.of({part: min(max(values[m] + s * bars[m], 0.0), 1.0) for (part, m), s in ends})

        middle = at((0,) * len(self.means))
        far = max(abs(at(signs) - middle) for signs in product((-1, 1), repeat=len(self.means)))
        return Shift(self.output, middle, far, self.relative)


def clamps(plan: Plan) -> tuple[Clamp, ...]:
    """Return the bounds of means and sums, each once."""
    return tuple(dict.fromkeys(c for _, a in plan.query.measured if (c := _clamp(plan, a)) is not None))


def _clamp(plan: Plan, asked: Aggregate) -> Clamp | None:
    if not isinstance(asked, Mean | Sum):
        return None
    summed = {s.column for s in plan.statistics if isinstance(s, UnitSum)}
    per_unit = isinstance(asked, Sum) and asked.column in summed
    binds = asked.clamps(plan.query.schema)
    return Clamp(asked.column, float(asked.lower), float(asked.upper), per_unit, binds)


def questions(
    plan: Plan, names: Callable[[str], str]
) -> tuple[dict[str, tuple[str, str]], list[Question], list[str]]:
    """Return what is asked of people, one row each, for the shift of each output.

    Args:
        plan: of the release.
        names: makes names of columns.
    Returns:
        SQL of a share from 0 to 1 and the column of its weight, by name; what follows from their means; and
        the outputs whose shift is not estimated.
    """
    query, asked = plan.query, dict[str, tuple[str, str]]()
    known = clamps(plan)
    made, left = list[Question](), list[str]()
    limited = bool(query.binding_limits)
    for name, aggregate in query.measured:
        clamp = _clamp(plan, aggregate)
        found: Question | None = None
        if clamp is not None:
            found = _of_values(name, aggregate, clamp, known.index(clamp), query, names, asked)
            if found is None:
                continue  # nothing can shift it
        elif isinstance(aggregate, CountRows):
            kept = _asked(asked, names("kept_rows"), f"{_kept(query, names)} * {_part(names)}", names("rows"))
            found = Question(name, True, {"kept": kept}, _less_one)
        elif isinstance(aggregate, CountPrivacyUnits) and query.total_rows is None:
            if not any(limit == "groups" for limit, _ in query.binding_limits):
                continue
            kept = _asked(asked, names("kept_groups"), _kept(query, names), names("groups"))
            found = Question(name, True, {"kept": kept}, _less_one)
        if found is not None:
            made.append(found)
        elif limited or aggregate.clamps(query.schema) or aggregate.limits_values:
            left += aggregate.outputs(name)
    return asked, made, left


def _asked(asked: dict[str, tuple[str, str]], name: str, share: str, weight: str) -> str:
    asked[name] = share, weight
    return name


def _kept(query: Query, names: Callable[[str], str]) -> str:
    """Return SQL of the part of a unit that counts, by the limit of groups, or of rows in all."""
    for limit, most in query.binding_limits:
        if limit != "rows":
            return f"least({most} / CAST({names('rows' if limit == 'total_rows' else limit)} AS DOUBLE), 1.0)"
    return "1.0"


def _part(names: Callable[[str], str]) -> str:
    """Return SQL of the part of a unit's rows that is within the limit of rows in a group."""
    return f"(1.0 - {names('cut')} / CAST({names('rows')} AS DOUBLE))"


def _of_values(
    name: str,
    aggregate: Aggregate,
    clamp: Clamp,
    i: int,
    query: Query,
    names: Callable[[str], str],
    asked: dict[str, tuple[str, str]],
) -> Question | None:
    """Ask for the shift of a mean or a sum; None where nothing can shift it."""
    limits = {limit for limit, _ in query.binding_limits}
    if clamp.per_unit:
        limits -= {"rows"}
    relative = isinstance(aggregate, Sum)
    if not limits and not clamp.binds:
        return None
    needed = {part for part in ("above", "below") if clamp.binds}
    if limits or relative:
        needed.add("inside")
    if limits:
        needed |= {"kept", "kept_inside"} if relative else {"mean_of_kept"}
    means, known, kept = {}, names(f"known{i}"), names(f"kept{i}")
    for part in sorted(needed):
        if part == "mean_of_kept":  # of the part of each unit that counts
            share, weight = f"{names(f'kept_inside{i}')} / greatest({kept}, 1e-9)", names(f"weight{i}")
        else:
            share, weight = f"{names(f'{part}{i}')} / greatest(CAST({known} AS DOUBLE), 1.0)", known
        if part in ("kept", "kept_inside"):
            share = f"{_kept(query, names)} * {share}"
        means[part] = _asked(asked, names(f"share_{part}{i}"), share, weight)

    def of(at: Mapping[str, float]) -> float:
        inside = at.get("inside", 0.0)
        beyond = at.get("above", 0.0) - at.get("below", 0.0)
        if not relative:
            return clamp.width * (at.get("mean_of_kept", inside) - inside - beyond)
        total = clamp.lower * at.get("kept", 1.0) + clamp.width * at.get("kept_inside", inside)
        without = clamp.lower + clamp.width * (inside + beyond)
        return total / without - 1 if without else 0.0

    return Question(name, relative, means, of)


def _less_one(at: Mapping[str, float]) -> float:
    return at["kept"] - 1


def weights(plan: Plan, names: Callable[[str], str]) -> dict[str, str]:
    """Return SQL of how much of a unit counts, with the limit of groups, by column."""
    kept = _kept(plan.query, names)
    return {names(f"weight{i}"): f"{kept} * {names(f'kept{i}')}" for i in range(len(clamps(plan)))}


def by_row(clamps: tuple[Clamp, ...], names: Callable[[str], str]) -> dict[str, str]:
    """Return SQL of what is derived from each row."""
    found = {names(f"number{i}"): one.number for i, one in enumerate(clamps)}
    for i, one in enumerate(clamps):
        if not one.per_unit:
            found |= {names(f"{part}{i}"): sql for part, sql in one.parts(names(f"number{i}")).items()}
    return found


def by_pair(clamps: tuple[Clamp, ...], names: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Yield what is added up of the rows of a unit and group."""
    for i, one in enumerate(clamps):
        number = names(f"number{i}")
        yield names(f"values{i}"), f"count({number})"
        if one.per_unit:
            yield names(f"total{i}"), f"sum({number})"
        else:
            yield from ((names(f"{part}{i}"), f"sum({names(f'{part}{i}')})") for part in PARTS[:3])


def of_pair(
    clamps: tuple[Clamp, ...], names: Callable[[str], str], limit: int | None
) -> Iterator[tuple[str, str]]:
    """Yield SQL of what a unit and group has, after that."""
    rows = f"CAST({names('rows')} AS DOUBLE)"
    for i, one in enumerate(clamps):
        values, part = names(f"values{i}"), "1.0" if limit is None else f"least({limit} / {rows}, 1.0)"
        if one.per_unit:
            part = "1.0"
            yield names(f"known{i}"), f"CASE WHEN {values} > 0 THEN 1 ELSE 0 END"
            for where, sql in one.parts(names(f"total{i}")).items():
                yield names(f"{where}{i}"), f"CASE WHEN {values} > 0 THEN {sql} ELSE 0.0 END"
        else:
            yield names(f"known{i}"), values
        yield names(f"kept{i}"), f"{part} * {names(f'known{i}')}"
        yield names(f"kept_inside{i}"), f"{part} * {names(f'inside{i}')}"


def of_unit(clamps: tuple[Clamp, ...], names: Callable[[str], str]) -> list[str]:
    """Return what is added up over the groups of a unit."""
    return [names(f"{part}{i}") for i in range(len(clamps)) for part in ("known", *PARTS)]
