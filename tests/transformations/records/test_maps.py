"""Stability maps of records against brute force: never below what neighbours do, and reached where tight."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import pytest

from sfumato.framework import (
    AbsoluteDistance,
    AtomDomain,
    ChangeOneDistance,
    Linear,
    ProductDomain,
    SymmetricDistance,
    TableDomain,
    Transformation,
)
from sfumato.transformations import (
    Norm,
    bounded_sum,
    cast,
    clamp,
    column,
    count,
    count_by_categories,
    covariance,
    histogram,
    impute,
    mean,
    variance,
)

ADD_REMOVE, CHANGE_ONE = SymmetricDistance(), ChangeOneDistance()
METRICS = (ADD_REMOVE, CHANGE_ONE)
NAN, INF = math.nan, math.inf
BOUNDS = ((0, 1), (-2, 3), (1, 4), (-3, -1), (2, 2), (-0.5, 2.5))


def vectors(values: Sequence[Any], size: int | None, most: int = 4) -> Iterable[list[Any]]:
    """All sequences of up to 3 records and all multisets of 4 (or those of one length)."""
    for length in range(most + 1) if size is None else (size,):
        of = product(values, repeat=length) if length <= 3 else combinations_with_replacement(values, length)
        yield from map(list, of)


def worst(made: Transformation, values: Sequence[Any], size: int | None) -> dict[Fraction, Any]:
    """The largest distance of outputs at each finite distance of inputs; all lie in their domains."""
    found: dict[Fraction, Any] = {}
    members = []
    for vector in vectors(values, size):
        assert made.input_domain.contains(vector), vector
        output = made(vector)
        assert made.output_domain.contains(output), (vector, output)
        members.append((vector, output))
    for (one, f_one), (other, f_other) in combinations(members, 2):
        d_in = made.input_metric.distance(one, other)
        if d_in != INF:
            found[d_in] = max(found.get(d_in, Fraction(0)), made.output_metric.distance(f_one, f_other))
    return found


def broken(made: Transformation, values: Sequence[Any], size: int | None) -> list[Fraction]:
    return [d for d, moved in worst(made, values, size).items() if moved > made.map(d)]


@dataclass
class Case:
    """A transformation, the records to try, and the distances at which the map is reached."""

    make: Callable[[], Transformation]
    values: Sequence[Any]
    size: int | None = None
    tight: Callable[[Fraction], bool] = lambda d: d <= 4


def between(lower: float, upper: float, kind: Any = float) -> list[Any]:
    low, high = Fraction(lower), Fraction(upper)
    if kind is int:  # bounds move inward
        low, high = Fraction(math.ceil(low)), Fraction(math.floor(high))
        return [int(low), int(high)] if low < high else [int(low)]
    return list(dict.fromkeys(kind(v) for v in (low, (low + high) / 2, high)))


def cases() -> Iterable[tuple[str, Case]]:
    for metric, size in product(METRICS, (None, 1, 3, 4)):
        with_space: Any = {"size": size, "metric": metric}
        at = f"{type(metric).__name__}, size={size}"

        def every(d: Fraction, size: int | None = size) -> bool:
            return size is not None or d <= 4

        def case(make: Any, values: Sequence[Any], *, s: Any = with_space, tight: Any = every) -> Case:
            return Case(lambda: make(**s), values, s["size"], tight)

        # Four records alone cannot show more than four records that come or go.
        yield f"clamp {at}", case(lambda **s: clamp(0, 1, **s), [0.0, 0.5, 1.0])
        yield (
            f"clamp outside {at}",
            case(lambda **s: clamp(0, 1, **s), [-INF, -0.0, 0.5, 7.0], tight=lambda d: d < 4),
        )
        yield f"impute {at}", case(lambda **s: impute(0, **s), [NAN, None, 1.5], tight=lambda d: d < 4)
        yield f"cast {at}", case(lambda **s: cast(int, **s), ["7", "x", "8"])
        yield f"count {at}", case(count, [NAN, None, 1.5])
        for norm in Norm:
            yield (
                f"histogram {norm} {at}",
                case(lambda norm=norm, **s: histogram([0, 1], norm=norm, **s), [-1.0, 0.0, INF]),
            )
            for other in (True, False):
                yield (
                    f"categories {norm} {other} {at}",
                    case(
                        lambda norm=norm, other=other, **s: count_by_categories(
                            ["a", "b"], norm=norm, other=other, **s
                        ),
                        ["a", "b", None, "c"],
                    ),
                )
            yield (
                f"one category {norm} {at}",
                case(lambda norm=norm, **s: count_by_categories([1], norm=norm, other=False, **s), [1, 2]),
            )
        for lower, upper in BOUNDS:
            for kind in (float, int, Fraction):
                values = between(lower, upper, kind)
                yield (
                    f"sum {lower}..{upper} {kind.__name__} {at}",
                    case(lambda b=(lower, upper), k=kind, **s: bounded_sum(*b, kind=k, **s), values),
                )
            if size is None:
                continue
            yield (
                f"mean {lower}..{upper} {at}",
                case(
                    lambda b=(lower, upper), size=size, metric=metric, **_: mean(*b, size, metric=metric),
                    between(lower, upper),
                ),
            )
            if size > 1:
                yield (
                    f"variance {lower}..{upper} {at}",
                    case(
                        lambda b=(lower, upper), size=size, metric=metric, **_: variance(
                            *b, size, metric=metric
                        ),
                        between(lower, upper),
                    ),
                )
    for metric, size in product(METRICS, (2, 3, 4)):
        one_change = 2 if metric == ADD_REMOVE else 1
        corners = [(x, y) for x in (0.0, 1.0) for y in (-2.0, 3.0)]
        yield (
            f"covariance {type(metric).__name__}, size={size}",
            Case(
                lambda size=size, metric=metric: covariance((0, 1), (-2, 3), size, metric=metric),
                [*corners, (0.5, 0.5)],
                size,
                lambda d, size=size, each=one_change: d in (each, each * size),
            ),
        )
        table = TableDomain((("x", AtomDomain(int)), ("y", AtomDomain(str))), size)
        rows = [{"x": 1, "y": "a"}, {"x": 2, "y": "a"}, {"x": 2, "y": "b"}]
        yield (
            f"column {type(metric).__name__}, size={size}",
            Case(lambda t=table, metric=metric: column("x", t, metric=metric), rows, size),
        )
        yield (
            f"columns {type(metric).__name__}, size={size}",
            Case(
                lambda t=table, metric=metric: column(["y", "x"], t, metric=metric),
                rows,
                size,
                lambda d: True,
            ),
        )


CASES = dict(cases())


@pytest.mark.parametrize("name", CASES)
def test_neighbours_move_no_further_than_the_map_and_as_far(name):
    case = CASES[name]
    made = case.make()
    found = worst(made, case.values, case.size)
    assert found or len(case.values) == 1
    moved = Fraction(0)  # by inputs that are at most d_in apart
    for d_in in sorted(found):
        moved = max(moved, found[d_in])
        claimed = made.map(d_in)
        assert moved <= claimed, d_in
        if d_in and case.tight(d_in):
            assert moved >= claimed * (1 - Fraction(1, 2**100)), f"not reached at {d_in}: {moved} < {claimed}"


@pytest.mark.parametrize("kind", [int, float, Fraction])
def test_a_clamped_number_moves_no_further_than_the_number(kind):
    made = clamp(-0.5, 2.5, kind=kind, metric=AbsoluteDistance())
    values = [kind(v) for v in (-3, -1, 0, 1, 2, 3, 9)]
    values += [-INF, INF, -0.5, 2.5, 5e-324, 1e308] if kind is float else []
    moves = []
    for one, other in product(values, repeat=2):
        d_in = made.input_metric.distance(one, other)
        moved = made.output_metric.distance(made(one), made(other))
        assert made.output_domain.contains(made(one)) and moved <= d_in
        moves.append(d_in != 0 and moved == d_in)
    assert any(moves) and made.map("1/3") == Fraction(1, 3)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_no_more_records_can_differ_than_there_are(size):
    for metric, each in ((ADD_REMOVE, 2), (CHANGE_ONE, 1)):
        for make in (
            bounded_sum(-2, 3, size=size, metric=metric),
            mean(-2, 3, size, metric=metric),
            histogram([0], size=size, metric=metric),
        ):
            largest = make.map(each * size)
            assert (
                make.map(each * size - 1)
                < largest
                == make.map(each * size + Fraction(1, 2))
                == make.map(10**9)
            )


@pytest.mark.parametrize("size", range(2, 8))
def test_variance_and_covariance_reach_their_largest_values(size):
    """Errata 12: for odd n the largest sample variance is above (b-a)^2/4."""
    spread, both = variance(-1, 2, size), covariance((-1, 2), (0, 5), size)
    half = size // 2
    ends = [-1.0] * half + [2.0] * (size - half)
    shown = Fraction(size, 4 * (size - 1)) if size % 2 == 0 else Fraction(size + 1, 4 * size)
    assert spread(ends) == spread.output_domain.upper == 9 * shown > Fraction(9, 4)
    for y, sign in ((lambda x: 0.0 if x < 0 else 5.0, 1), (lambda x: 5.0 if x < 0 else 0.0, -1)):
        assert both([(x, y(x)) for x in ends]) == sign * both.output_domain.upper == sign * 15 * shown
    assert both.output_domain.lower == -both.output_domain.upper
    assert spread.map(10**6) == 9 * shown and both.map(10**6) == 30 * shown


def claims(made: Transformation, stability_map: Callable[[Fraction], Fraction]) -> Transformation:
    return replace(made, stability_map=stability_map)


def not_clamped() -> Transformation:
    return replace(clamp(0, 1), function=lambda values: [min(max(v, 0), 1) for v in values] and values)


DEFECTS: dict[str, tuple[Callable[[], Transformation], Sequence[Any], int | None]] = {
    "a sum with |U - L| under add/remove": (
        lambda: claims(bounded_sum(1, 4), Linear(Fraction(3))), [1.0, 4.0], None),
    "a sum with max(|L|, |U|) under change-one": (
        lambda: claims(bounded_sum(-2, 3, metric=CHANGE_ONE), Linear(Fraction(3))), [-2.0, 3.0], None),
    "a sensitivity truncated towards zero": (
        lambda: claims(bounded_sum(0, 2.5), Linear(Fraction(int(2.5)))), [0.0, 2.5], None),
    "a sum of a known size with max(|L|, |U|) for two": (
        lambda: claims(bounded_sum(-2, 3, size=3), Linear(Fraction(3, 2))), [-2.0, 3.0], 3),
    "a sum in float order": (
        lambda: replace(bounded_sum(-1e16, 1e16), function=lambda v: Fraction(sum(v))), [1e16, 1.0, -1e16], None),
    "clamping that is not used": (
        lambda: replace(not_clamped() >> bounded_sum(0, 1), output_domain=AtomDomain(Fraction)), [0.0, 9.0], None),
    "a mean that divides by one more": (
        lambda: claims(mean(0, 1, 3, metric=CHANGE_ONE), Linear(Fraction(1, 4))), [0.0, 1.0], 3),
    "a variance of half the interval": (
        lambda: claims(variance(0, 2, 3, metric=CHANGE_ONE), Linear(Fraction(1, 3))), [0.0, 2.0], 3),
    "the largest variance as printed for odd n": (
        lambda: claims(variance(0, 1, 3), lambda d: min(d / 6, Fraction(1, 4))), [0.0, 1.0], 3),
    "a covariance bounded on one side": (
        lambda: claims(covariance((0, 1), (0, 1), 2), lambda d: min(d / 4, Fraction(1, 2))),
        [(x, y) for x in (0.0, 1.0) for y in (0.0, 1.0)], 2),
    "a replaced record in one count alone": (
        lambda: claims(histogram([0], metric=CHANGE_ONE), Linear(Fraction(1))), [-1.0, 1.0], None),
    "a replaced record in one count alone, L2": (
        lambda: claims(histogram([0], norm=Norm.L2, metric=CHANGE_ONE), Linear(Fraction(1))), [-1.0, 1.0], None),
    "the root of 2 rounded to nearest": (
        lambda: claims(histogram([0], norm=Norm.L2, metric=CHANGE_ONE), Linear(Fraction(1.414))), [-1.0, 1.0], None),
    "records that are never in one category": (
        lambda: claims(count_by_categories(["a"], norm=Norm.L2), lambda d: Fraction(max(math.isqrt(int(d)), min(int(d), 2)))),
        ["a", "b"], None),
    "a count of any size that costs nothing": (lambda: claims(count(), Linear(Fraction(0))), [1.0], None),
}  # fmt: skip


@pytest.mark.parametrize("defect", DEFECTS)
def test_planted_defects_are_found(defect):
    make, values, size = DEFECTS[defect]
    assert broken(make(), values, size)


def test_the_honest_twins_of_planted_defects_hold():
    honest = (
        (bounded_sum(1, 4), [1.0, 4.0], None),
        (bounded_sum(-1e16, 1e16), [1e16, 1.0, -1e16], None),
        (clamp(0, 1) >> bounded_sum(0, 1), [0.0, 9.0], None),
        (covariance((0, 1), (0, 1), 2), [(x, y) for x in (0.0, 1.0) for y in (0.0, 1.0)], 2),
    )
    for made, values, size in honest:
        assert not broken(made, values, size)


def test_pairs_of_a_table_lead_to_a_covariance():
    table = TableDomain((("x", AtomDomain(float, 0, 1)), ("y", AtomDomain(float, 0, 2))), 3)
    chain = column(("x", "y"), table) >> covariance((0, 1), (0, 2), 3)
    assert isinstance(covariance((0, 1), (0, 2), 3).input_domain.element, ProductDomain)
    assert chain([{"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 2.0}, {"x": 0.5, "y": 1.0}]) == Fraction(1, 2)
    assert chain.map(2) == Fraction(2, 3)
