"""Transformations of records: maps against brute force over small tables, what they compute, and what they refuse."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise, product
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sfumato import transformations as t
from sfumato.errors import ParameterError, QueryError
from sfumato.framework import (
    AbsoluteDistance,
    AtomDomain,
    CategoryDomain,
    ChangeOneDistance,
    DiscreteDistance,
    SymmetricDistance,
    TableDomain,
    Transformation,
    VectorDomain,
)
from sfumato.framework.record_keys import record_key
from sfumato.measurements import laplace

ADD_REMOVE, CHANGE_ONE = SymmetricDistance(), ChangeOneDistance()

METRICS = (ADD_REMOVE, CHANGE_ONE)

NAN, INF = math.nan, math.inf

BOUNDS = ((-2, 3), (-3, -1), (-0.5, 2.5))


def vectors(values: Sequence[Any], size: int | None, most: int = 3) -> Iterable[list[Any]]:
    """All sequences of up to 3 records, or those of one length."""
    for length in range(most + 1) if size is None else (size,):
        yield from map(list, product(values, repeat=length))


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


@dataclass
class Case:
    """A transformation, the records to try, and the distances at which the map is reached."""

    made: Transformation
    values: Sequence[Any]
    size: int | None = None
    tight: Callable[[Fraction], bool] = lambda d: d <= 3


def ends(lower: float, upper: float, kind: Any = float) -> list[Any]:
    """Numbers of a kind at both bounds, which move inward, and between them."""
    if kind is int:
        return list(
            range(math.ceil(lower), math.floor(upper) + 1, max(1, math.floor(upper) - math.ceil(lower)))
        )
    return [kind(lower), kind((lower + upper) / 2), kind(upper)]


def cases() -> Iterable[tuple[str, Case]]:
    for metric, size in product(METRICS, (None, 3)):
        of: dict[str, Any] = {"size": size, "metric": metric}
        made: dict[str, tuple[Transformation, Sequence[Any]]] = {
            "clamp": (t.clamp(0, 1, **of), [0.0, 0.5, 1.0]),
            "cast": (t.cast(int, **of), ["7", "x", "8"]),
            "count": (t.count(**of), [NAN, None, 1.5]),
        }
        # Three records alone cannot show more than three records that come or go.
        inside = {
            "clamp outside": (t.clamp(0, 1, **of), [-INF, -0.0, 0.5, 7.0]),
            "impute": (t.impute(0, **of), [NAN, None, 1.5]),
        }
        for norm, other in product(t.Norm, (True, False)):
            by_name = t.count_by_categories(["a", "b"], norm=norm, other=other, **of)
            made[f"categories {norm} {other}"] = by_name, ["a", "b", None, "c"]
            made[f"histogram {norm}"] = t.histogram([0, 1], norm=norm, **of), [-1.0, 0.0, INF]
        for (lower, upper), kind in product(BOUNDS, (float, int)):
            total = t.bounded_sum(lower, upper, kind=kind, **of)
            made[f"sum {lower}..{upper} {kind.__name__}"] = total, ends(lower, upper, kind)
            if size is not None:
                values = ends(lower, upper)
                made[f"mean {lower}..{upper}"] = t.mean(lower, upper, size, metric=metric), values
                made[f"variance {lower}..{upper}"] = t.variance(lower, upper, size, metric=metric), values
        for name, (one, values) in made.items():
            yield (
                f"{name} {metric} {size}",
                Case(one, values, size, lambda d, s=size: s is not None or d <= 3),
            )
        for name, (one, values) in inside.items():
            yield f"{name} {metric} {size}", Case(one, values, size, lambda d: d < 3)
    for metric, each in ((ADD_REMOVE, 2), (CHANGE_ONE, 1)):
        corners = [(x, y) for x in (0.0, 1.0) for y in (-2.0, 3.0)]
        both = t.covariance((0, 1), (-2, 3), 3, metric=metric)
        yield f"covariance {metric}", Case(both, [*corners, (0.5, 0.5)], 3, lambda d, e=each: d in (e, 3 * e))
        table = TableDomain((("x", AtomDomain(int)), ("y", AtomDomain(str))), 3)
        rows = [{"x": 1, "y": "a"}, {"x": 2, "y": "a"}, {"x": 2, "y": "b"}]
        yield f"column {metric}", Case(t.column("x", table, metric=metric), rows, 3)
        yield f"columns {metric}", Case(t.column(["y", "x"], table, metric=metric), rows, 3)


CASES = dict(cases())


@pytest.mark.parametrize("name", CASES)
def test_neighbours_move_no_further_than_the_map_and_as_far(name):
    case = CASES[name]
    made = case.made
    found = worst(made, case.values, case.size)
    assert found or len(case.values) == 1
    moved = Fraction(0)  # by inputs that are at most d_in apart
    for d_in in sorted(found):
        moved = max(moved, found[d_in])
        claimed = made.map(d_in)
        assert moved <= claimed, d_in
        if d_in and case.tight(d_in):
            assert moved >= claimed * (1 - Fraction(1, 2**100)), f"not reached at {d_in}: {moved} < {claimed}"


@pytest.mark.parametrize("size", [2, 5])
def test_variance_and_covariance_reach_their_largest_values(size):
    """Errata 12: for odd n the largest sample variance is above (b-a)^2/4."""
    spread, both = t.variance(-1, 2, size), t.covariance((-1, 2), (0, 5), size)
    half = size // 2
    ends = [-1.0] * half + [2.0] * (size - half)
    shown = Fraction(size, 4 * (size - 1)) if size % 2 == 0 else Fraction(size + 1, 4 * size)
    assert spread(ends) == spread.output_domain.upper == 9 * shown > Fraction(9, 4)
    for y, sign in ((lambda x: 0.0 if x < 0 else 5.0, 1), (lambda x: 5.0 if x < 0 else 0.0, -1)):
        assert both([(x, y(x)) for x in ends]) == sign * both.output_domain.upper == sign * 15 * shown
    assert both.output_domain.lower == -both.output_domain.upper
    assert spread.map(10**6) == 9 * shown and both.map(10**6) == 30 * shown


# What they compute.

steady = settings(derandomize=True, database=None, deadline=None, max_examples=50)

NAN, INF = math.nan, math.inf

KINDS = {
    bool: st.booleans(),
    int: st.one_of(st.integers(), st.integers(-(10**700), 10**700), st.integers(2**53 - 2, 2**53 + 2)),
    float: st.floats(),
    Fraction: st.one_of(st.fractions(), st.builds(Fraction, st.integers(), st.just(10**700 + 1))),
    str: st.one_of(
        st.text(),
        st.from_regex(r"\A\s?[+-]?\d{0,3}\.?\d{0,3}([eE][+-]?\d{1,5})?\s?\Z"),
        st.floats().map(repr),
        st.integers().map(str),
    ),
}

BIG = "9" * 641


HARD = {
    (str, float): {
        " 7 ": 7.0, "\t-1.5e3\n": -1500.0, ".5": 0.5, "5.": 5.0, "1e400": None, "-1e400": None, "1e-400": 0.0,
        "٣": None, "７": None, "nan": None, "NaN": None, "inf": INF, "-Infinity": -INF, "+inf": INF, "infinit": None,
        "": None, " ": None, "1_000": None, "1,5": None, "0x10": None, "1e": None, "e5": None, ".": None,
        "1 2": None, "--1": None, "1/3": None, "\u00a07": None, "9" * 309: None, "9" * 308: 1e308, BIG: None,
        "1" + "0" * 10**6 + "x": None, "1e99999": None, "0.1": 0.1, "true": None, "1.7976931348623158e308": 1.7976931348623157e308,
        "1.7976931348623159e308": None,
    },
    (str, int): {
        "7": 7, "+7": 7, "-0": 0, "7.0": 7, "1e3": 1000, "1.5": None, "1e400": 10**400, "1e9999": 10**9999, "1e10000": None,
        "9" * 640: 10**640 - 1, BIG: None, "٣": None, "inf": None, "true": None,
    },
    (str, Fraction): {"0.1": Fraction(1, 10), "1e-3": Fraction(1, 1000), "1/3": None, "inf": None, "1e-9999": Fraction(1, 10**9999)},
    (str, bool): {"true": True, " FALSE ": False, "1": True, "0.0": False, "2": None, "yes": None, "ｔrue": None},
    (float, int): {1.5: None, -2.0: -2, 1e300: int(1e300), INF: None, -0.0: 0, 5e-324: None},
    (int, float): {2**70: 2.0**70, 2**53 + 1: 2.0**53, 2**1024: None, -(2**1024): None, 2**1024 - 2**970: None, 2**1024 - 2**970 - 1: 1.7976931348623157e308},
    (float, bool): {0.0: False, 1.0: True, 0.5: None, INF: None},
    (Fraction, float): {Fraction(1, 3): 1 / 3, Fraction(1, 10**400): 0.0, Fraction(10**400): None, 3: 3.0},
    (float, Fraction): {0.1: Fraction(0.1), INF: None},
    (bool, int): {True: 1, False: 0}, (bool, str): {True: "true", False: "false"}, (bool, float): {True: 1.0},
    (int, str): {7: "7", 10**640: None, -(10**640) + 1: "-" + "9" * 640},
    (float, str): {0.1: "0.1", -INF: "-inf"}, (Fraction, str): {Fraction(1, 3): "1/3", Fraction(1, 10**640): None},
    (Fraction, int): {Fraction(4, 2): 2, Fraction(1, 2): None},
}  # fmt: skip


@pytest.mark.parametrize("given_kind, kind", HARD)
def test_the_table_of_conversions(given_kind, kind):
    table = HARD[given_kind, kind]
    found = t.cast(kind, given=given_kind)([*table, None])
    assert [record_key(v) for v in found] == [record_key(v) for v in [*table.values(), None]]
    if given_kind is float:
        assert t.cast(kind, given=float)([NAN]) == [None]


@pytest.mark.parametrize(
    "kind, lower, upper", [(int, "-1/3", "7/3"), (float, "-1/3", 2**1100), (Fraction, -3, "7/3")]
)
def test_clamp_ends_within_its_bounds_at_the_nearest_member(kind, lower, upper):
    made = t.clamp(lower, upper, kind=kind)
    low, high = Fraction(lower), Fraction(upper)

    @steady
    @given(record=KINDS[kind].filter(lambda v: v == v))
    @example(record={int: 10**400, float: INF, Fraction: Fraction(10**400)}[kind])
    @example(record={int: -(10**400), float: -INF, Fraction: Fraction(-(10**400))}[kind])
    def check(record):
        assert made.input_domain.contains([record])
        (output,) = made([record])
        assert made.output_domain.contains([output]) and low <= output <= high
        if low <= record <= high:
            assert output == record

    check()
    assert AtomDomain(kind, lower, upper).includes(made.output_domain.element)


@steady
@given(
    numbers=st.lists(st.floats(-1e6, 1e6), min_size=5, max_size=5),
    others=st.lists(st.integers(-9, 9), min_size=5, max_size=5),
)
def test_numbers_are_exact(numbers, others):
    exact = [Fraction(v) for v in numbers]
    assert t.bounded_sum(-1e6, 1e6)(numbers) == sum(exact)
    assert t.mean(-1e6, 1e6, 5)(numbers) == sum(exact) / 5
    centre = sum(exact) / 5
    assert t.variance(-1e6, 1e6, 5)(numbers) == sum((x - centre) ** 2 for x in exact) / 4
    assert t.variance(-9, 9, 5, kind=int)(others) == statistics.variance(map(Fraction, others))
    middle = Fraction(sum(others), 5)
    expected = sum((x - centre) * (y - middle) for x, y in zip(exact, others, strict=True)) / 4
    assert (
        t.covariance((-1e6, 1e6), (-9, 9), 5, kind=Fraction)(list(zip(exact, others, strict=True)))
        == expected
    )


@steady
@given(numbers=st.lists(st.floats(allow_nan=False), max_size=20))
def test_every_number_is_in_one_interval(numbers):
    made = t.histogram(["-1/3", 0, 0.1, "0.1000000000000000056", 10**400])
    edges = [Fraction(-1, 3), 0, Fraction(0.1), Fraction("0.1000000000000000056"), 10**400]
    edges = [-INF, *edges, INF]
    expected = [sum(a <= v < b or (v == INF == b) for v in numbers) for a, b in pairwise(edges)]
    assert made(numbers) == expected and sum(expected) == len(numbers)


def test_categories_are_compared_by_value():
    assert t.count_by_categories([0.0, 1.5])([-0.0, NAN, None, 1.5, INF]) == [1, 1, 3]
    assert t.count_by_categories([1, 2], other=False)([1, 1, 5, None]) == [2, 0]
    assert t.count_by_categories([True, False])([True, None]) == [1, 0, 1]
    yes_no = VectorDomain(CategoryDomain(("yes", "no")))
    counted = t.count_by_categories(["yes", "no"])
    assert counted.input_domain.includes(yes_no) and not t.count().input_domain.includes(yes_no)


REFUSED = [
    lambda: t.clamp(2, 1), lambda: t.clamp("1/3", 0.5, kind=int), lambda: t.clamp(NAN, 1), lambda: t.clamp(0, INF),
    lambda: t.clamp(0, 1, kind=bool), lambda: t.clamp(0, 1, size=0), lambda: t.clamp(0, 1, metric=DiscreteDistance()),
    lambda: t.clamp(0, 1, size=3, metric=AbsoluteDistance()), lambda: t.impute(NAN), lambda: t.impute(True, kind=int),
    lambda: t.cast(int, "0"), lambda: t.cast(int, given=bytes), lambda: t.column("x", AtomDomain(int)), lambda: t.count(size=-1),
    lambda: t.count_by_categories("abc"), lambda: t.count_by_categories([1, True]), lambda: t.count_by_categories([NAN]),
    lambda: t.histogram([]), lambda: t.histogram([1, 1.0]), lambda: t.histogram([0, NAN]), lambda: t.histogram([0], norm=None),
    lambda: t.mean(0, 1, None), lambda: t.variance(0, 1, 1), lambda: t.covariance((0, 1), (2, 1), 3),
]  # fmt: skip


def test_what_is_refused():
    for make in REFUSED:
        with pytest.raises(ParameterError):
            make()


MISMATCHED = {
    "put `impute` between": lambda: t.cast(float) >> t.clamp(0, 1),
    "put `clamp` between them, with the bounds of the second": lambda: t.impute(0) >> t.bounded_sum(0, 1),
    "put `clamp` between": lambda: t.clamp(0, 2) >> t.bounded_sum(0, 1),
    "put `cast` between": lambda: t.impute("", kind=str) >> t.clamp(0, 1),
    "give the first size=5 too": lambda: t.clamp(0, 1) >> t.mean(0, 1, 5),
    "make the second for AtomDomain": lambda: t.bounded_sum(0, 1) >> laplace(1),
    "metric ChangeOneDistance.* the second takes SymmetricDistance": lambda: (
        t.clamp(0, 1, metric=ChangeOneDistance()) >> t.bounded_sum(0, 1)
    ),
}


@pytest.mark.parametrize("text", MISMATCHED)
def test_a_chain_that_does_not_fit_says_what_to_put_between(text):
    with pytest.raises(QueryError, match=f"cannot chain .* after .*{text}"):
        MISMATCHED[text]()
