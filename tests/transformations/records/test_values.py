"""What transformations of records compute, for every record there is, and what they refuse."""

from __future__ import annotations

import inspect
import math
import statistics
from fractions import Fraction
from itertools import pairwise, product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sfumato import transformations as t
from sfumato.errors import ColumnError, ParameterError, QueryError
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
from sfumato.framework.core import Linear
from sfumato.framework.record_keys import record_key
from sfumato.measurements import gaussian, laplace

steady = settings(derandomize=True, database=None, deadline=None, max_examples=150)
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


def values(kind):
    return st.one_of(st.none(), KINDS[kind])


@pytest.mark.long
@pytest.mark.parametrize("given_kind, kind", list(product(KINDS, KINDS)))
def test_cast_takes_everything_and_never_leaves_its_domain(given_kind, kind):
    default = {bool: True, int: -1, float: -1.0, Fraction: Fraction(1, 3), str: ""}[kind]

    @steady
    @given(record=values(given_kind))
    def check(record):
        for made in (t.cast(kind, given=given_kind), t.cast(kind, default, given=given_kind)):
            assert made.input_domain.contains([record])
            assert made.output_domain.contains(made([record]))
        plain, filled = (
            t.cast(kind, given=given_kind)([record]),
            t.cast(kind, default, given=given_kind)([record]),
        )
        assert record_key(filled) == record_key([default if plain[0] is None else plain[0]])
        if given_kind is kind and record is not None and record == record:
            assert record_key(plain) == record_key([record])

    check()


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


@steady
@given(number=st.floats(allow_nan=False))
def test_a_float_is_read_back_from_its_text(number):
    there, back = t.cast(str, given=float), t.cast(float)
    assert (there >> back)([number])[0] == number


@pytest.mark.long
@steady
@given(text=KINDS[str])
def test_text_is_read_as_python_reads_it_or_not_at_all(text):
    (found,) = t.cast(float)([text])
    assert found is None or found == float(text)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_impute_leaves_nothing_missing_and_all_else_alone(kind):
    filling = {bool: False, int: 7, float: 0.5, Fraction: 2, str: "?"}[kind]
    made = t.impute(filling, kind=kind)

    @steady
    @given(record=values(kind))
    def check(record):
        assert made.input_domain.contains([record])
        (output,) = made([record])
        assert made.output_domain.contains([output])
        missing = record is None or record != record
        assert record_key(output) == record_key(filling if missing else record)

    check()


@pytest.mark.long
@pytest.mark.parametrize(
    "kind, lower, upper", list(product((int, float, Fraction), (-3, "-1/3", 0), (2, "7/3", 2**1100)))
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


def test_sums_keep_their_kind():
    assert type(t.bounded_sum(0, 2**70, kind=int)([2**70, 1])) is int
    assert t.bounded_sum(0, 1)([0.1] * 10) == 10 * Fraction(0.1) != 1
    assert t.bounded_sum(0, 1)([]) == 0 and t.bounded_sum(0, 9, kind=int)([]) == 0
    assert t.bounded_sum(-1, 1)([5e-324, 1.0, -1.0]) == Fraction(5e-324)
    assert t.bounded_sum(-1, 2, size=3).output_domain == AtomDomain(Fraction, -3, 6)


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


CHAIN = {
    "impute, clamp, sum": (lambda: t.impute(0.0) >> t.clamp(0, 1) >> t.bounded_sum(0, 1), [NAN, None, 0.5, 7.0], Fraction(3, 2), 1),
    "text to ints": (lambda: t.cast(int, 0) >> t.clamp(0, 9, kind=int) >> t.bounded_sum(0, 9, kind=int), ["8", "x", "12"], 17, 9),
    "mean": (lambda: t.impute(0, size=2) >> t.clamp(0, 1, size=2) >> t.mean(0, 1, 2), [None, 1.0], Fraction(1, 2), 0),
    "count": (lambda: t.cast(float) >> t.count(), ["8", "x"], 2, 1),
}  # fmt: skip


@pytest.mark.flakiness(k=100, because="noise of scale 1e-9 is beyond 1e-6 below e^-900")
@pytest.mark.parametrize("name", CHAIN)
def test_chains_end_in_noise(name):
    make, data, expected, reach = CHAIN[name]
    chain = make()
    assert chain(data) == expected and chain.map(1) == reach
    domain = AtomDomain(chain.output_domain.kind)
    for noise in (laplace, gaussian):
        noisy = chain >> noise("1/1000000000", domain)
        assert abs(noisy(data) - expected) < Fraction(1, 10**6)
    assert (chain >> laplace(2, domain)).map(1) == Fraction(reach, 2)


SIZED = {
    "clamp": t.clamp(0, 1, size=2), "impute": t.impute(0, size=2), "cast": t.cast(float, size=2), "count": t.count(size=2),
    "count_by_categories": t.count_by_categories(["a"], size=2), "histogram": t.histogram([0], size=2),
    "bounded_sum": t.bounded_sum(0, 1, size=2), "mean": t.mean(0, 1, 2), "variance": t.variance(0, 1, 2),
    "covariance": t.covariance((0, 1), (0, 1), 2), "column": t.column("x", TableDomain((("x", AtomDomain(int)),), 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZED)
@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_known_size_is_checked_at_every_call(name, length):
    with pytest.raises(QueryError, match=f"^{name}: length of the input is {length}, but must be 2$"):
        SIZED[name]([0.5] * length)


def test_what_all_constructors_take():
    for name in SIZED:
        taken = set(inspect.signature(getattr(t, name)).parameters)
        assert "metric" in taken
        assert ("size" in taken) is (name != "column")
        assert ("kind" in taken) is (name not in ("column", "count_by_categories"))


REFUSED = {
    "clamp: lower is 2,.* at most upper, 1": lambda: t.clamp(2, 1),
    "clamp: lower is '1/3',.* a number of kind int between": lambda: t.clamp("1/3", 0.5, kind=int),
    "clamp: lower is nan,.* a finite number": lambda: t.clamp(NAN, 1),
    "clamp: upper is inf,.* a finite number": lambda: t.clamp(0, INF),
    "clamp: lower is None,.* a finite number": lambda: t.clamp(None, 1),
    "clamp: kind is <class 'bool'>,.* int, float or Fraction": lambda: t.clamp(0, 1, kind=bool),
    "clamp: kind is 'float',": lambda: t.clamp(0, 1, kind="float"),
    "clamp: size is 0,.* at least 1": lambda: t.clamp(0, 1, size=0),
    "clamp: size is 3,.* None under AbsoluteDistance": lambda: t.clamp(0, 1, size=3, metric=AbsoluteDistance()),
    r"clamp: metric is .*Discrete.* SymmetricDistance\(\) or ChangeOneDistance\(\)": lambda: t.clamp(0, 1, metric=DiscreteDistance()),
    "impute: value is nan,.* neither NaN nor NULL": lambda: t.impute(NAN),
    "impute: value is None": lambda: t.impute(None),
    "impute: value is '1/3',.* kind float": lambda: t.impute("1/3"),
    "impute: value is True,.* kind int": lambda: t.impute(True, kind=int),
    "impute: value is 1.5,.* kind int": lambda: t.impute(1.5, kind=int),
    "impute: kind is <class 'list'>,.* bool, int, float, Fraction or str": lambda: t.impute(0, kind=list),
    "impute: metric": lambda: t.impute(0, metric=AbsoluteDistance()),
    "cast: kind": lambda: t.cast("int"),
    "cast: given": lambda: t.cast(int, given=bytes),
    "cast: default is '0',.* kind int": lambda: t.cast(int, "0"),
    "cast: metric": lambda: t.cast(int, metric=SymmetricDistance),
    "cast: size is 1.5": lambda: t.cast(int, size=1.5),
    "column: domain": lambda: t.column("x", AtomDomain(int)),
    "column: name is 5": lambda: t.column(5, TableDomain((("x", AtomDomain(int)),))),
    r"column: name is \(\)": lambda: t.column((), TableDomain((("x", AtomDomain(int)),))),
    "column: metric": lambda: t.column("x", TableDomain((("x", AtomDomain(int)),)), metric=None),
    "count: kind": lambda: t.count(kind=complex),
    "count: size": lambda: t.count(size=-1),
    "count: metric": lambda: t.count(metric=AbsoluteDistance()),
    "count_by_categories: categories is 'abc'": lambda: t.count_by_categories("abc"),
    r"count_by_categories: categories is \(\)": lambda: t.count_by_categories([]),
    r"count_by_categories: categories is \(1, True\)": lambda: t.count_by_categories([1, True]),
    r"count_by_categories: categories is \(1, 1\)": lambda: t.count_by_categories([1, 1]),
    r"count_by_categories: categories is \(nan,\)": lambda: t.count_by_categories([NAN]),
    r"count_by_categories: categories is a tuple": lambda: t.count_by_categories([[1]]),
    "count_by_categories: other is 1": lambda: t.count_by_categories(["a"], other=1),
    "count_by_categories: norm is 'l1',.* Norm.L1 or Norm.L2": lambda: t.count_by_categories(["a"], norm="l1"),
    r"histogram: edges is \(\)|histogram: edges is \[\]": lambda: t.histogram([]),
    r"histogram: edges is \[1, 1.0\],.* increasing": lambda: t.histogram([1, 1.0]),
    r"histogram: edges is \(0, nan\),.* finite numbers": lambda: t.histogram([0, NAN]),
    "histogram: edges is 5": lambda: t.histogram(5),
    "histogram: kind": lambda: t.histogram([0], kind=str),
    "histogram: norm": lambda: t.histogram([0], norm=None),
    "bounded_sum: upper": lambda: t.bounded_sum(0, "x"),
    "bounded_sum: lower is 1": lambda: t.bounded_sum(1, 0),
    "bounded_sum: kind": lambda: t.bounded_sum(0, 1, kind=str),
    "mean: size is None,.* at least 1": lambda: t.mean(0, 1, None),
    "mean: size is 0": lambda: t.mean(0, 1, 0),
    "mean: size is True": lambda: t.mean(0, 1, True),
    "mean: metric": lambda: t.mean(0, 1, 3, metric=AbsoluteDistance()),
    "variance: size is 1,.* at least 2": lambda: t.variance(0, 1, 1),
    "variance: lower": lambda: t.variance(INF, 1, 3),
    "covariance: size is 1,.* at least 2": lambda: t.covariance((0, 1), (0, 1), 1),
    r"covariance: first is \(0,\),.* a pair \(lower, upper\)": lambda: t.covariance((0,), (0, 1), 3),
    "covariance: second is 5": lambda: t.covariance((0, 1), 5, 3),
    "covariance: second: lower is 2,.* at most upper": lambda: t.covariance((0, 1), (2, 1), 3),
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_name_the_constructor_the_parameter_and_what_is_admissible(text):
    with pytest.raises(ParameterError, match=f"^({text})"):
        REFUSED[text]()


def test_an_unknown_column_is_named_with_its_nearest():
    with pytest.raises(ColumnError, match="column: there is no column 'agee'; did you mean 'age'"):
        t.column(["agee"], TableDomain((("age", AtomDomain(int)),)))


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


def test_domains_without_records_between_them_have_no_remedy():
    of_tuples = t.covariance((0, 1), (0, 1), 2)
    odd = Transformation(
        "odd",
        of_tuples.input_domain,
        AtomDomain(str),
        SymmetricDistance(),
        DiscreteDistance(),
        str,
        Linear(Fraction(1)),
    )
    with pytest.raises(QueryError, match=r"the second takes VectorDomain.*\)$"):
        odd >> t.clamp(0, 1)
