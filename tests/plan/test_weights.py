"""Weights of outputs: who matters more has smaller errors, for each noise, and a release costs what it did."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import product

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.budget import gaussian_mu
from sfumato.dialect import parse
from sfumato.errors import ParameterError, QueryError, SqlError
from sfumato.framework import Norm
from sfumato.measurements.independent_noise import NOISES
from sfumato.noise.centred_noise import CentredGaussian
from sfumato.plan.noise_error import factors, split
from sfumato.plan.plan import Plan
from sfumato.plan.required_statistics import requirements
from tests.support.changed_plans import with_scales

COLUMNS = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("year", pa.int64(), nullable=False),
    pa.field("x", pa.int64(), nullable=False),
    pa.field("z", pa.int64()),
]
TABLE = pa.table([[1, 1, 2], [1994, 1995, 1994], [2, 0, 7], [None, 3, 4]], pa.schema(COLUMNS))
YEARS = list(range(1994, 1999))
COUNT_AND_SUMS = {
    "n": sf.count(),
    "a": sf.sum("x", lower=0, upper=30),
    "b": sf.sum("z", lower=-5, upper=5, per="row"),
}
MOMENTS = {
    "n": sf.count(),
    "m": sf.mean("x", lower=0, upper=30),
    "v": sf.variance("z", lower=0, upper=10),
    "q": sf.quantiles("x", [0.25, 0.5], lower=0, upper=30),
}


def question(keys=YEARS, groups=1, rows=1, **asked):
    grouped = sf.scan(TABLE, privacy_unit="id").group_by("year", keys=keys)
    return grouped.bound(groups=groups, rows=rows).agg(**(asked or COUNT_AND_SUMS))


def errors_of(plan: Plan) -> dict[str, float]:
    """Errors by the exact laws of the noise."""
    return {name: error for name, error in plan.expected.items() if name is not None}


@pytest.mark.parametrize(
    "asked", [pytest.param(COUNT_AND_SUMS, marks=pytest.mark.long), MOMENTS], ids=["sums", "moments"]
)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_more_weight_is_less_error_at_the_same_cost(noise, asked):
    budget = {"epsilon": "3/2", "delta": F(1, 10**6) if noise == "gaussian" else 0, "noise": noise}
    base = question(groups=2, **asked)
    equal = base.plan(**budget)
    for name in asked:
        outputs = [e for e in errors_of(equal) if e.split("_")[0] == name]
        before = equal
        for weight in ("6/5", 4, 1000):
            plan = base.weigh(**{name: weight}).plan(**budget)
            own = errors_of(plan)
            assert all(own[output] < errors_of(before)[output] for output in outputs), (name, weight)
            assert max(own[other] / errors_of(equal)[other] for other in own if other not in outputs) > 1
            if noise == "laplace":
                # Two groups, in each of which the parts of a contribution add up.
                size = sum(p.size(Norm.L1, [plan.scales[n] for n in p.names]) for p in parts(plan))
                assert 2 * size == F(3, 2) and plan.measurement.map(1).epsilon(0) == 1.5
            else:
                size = sum(p.size(Norm.L2, [plan.scales[n] for n in p.names]) for p in parts(plan))
                mu = gaussian_mu(F(3, 2), F(1, 10**6))
                assert mu**2 * (1 - F(1, 10**9)) <= 2 * size <= mu**2
            before = plan


def test_more_weight_is_less_error_where_groups_are_counted_from_a_part_of_all():
    asked = {"n": sf.count(), "m": sf.mean("x", lower=0, upper=30), "c": sf.sum("x", lower=0, upper=9)}
    base, before = question(keys=range(40), groups=40, **asked), {}
    for name, weight in product(asked, (1, 4, 100)):
        plan = base.weigh(**{name: weight}).plan(epsilon=1, delta=1e-6, noise="gaussian")
        assert isinstance(plan.measurement.noise, CentredGaussian)
        assert plan.measurement.map(1).epsilon(F(1, 10**6)) <= 1 + F(1, 10**6)
        own = errors_of(plan)[name]
        assert weight == 1 or own < before[name]
        before[name] = own


def parts(plan):
    return [statistic.body for statistic in plan.requirements.statistics]


def test_equal_weights_are_the_same_as_none():
    for noise, delta in (("laplace", 0), ("gaussian", 1e-6), ("auto", 1e-6)):
        plain = question(**MOMENTS).plan(epsilon=1, delta=delta, noise=noise)
        equal = question(**MOMENTS).weigh(n=2, m=2, v=2, q=2).plan(epsilon=1, delta=delta, noise=noise)
        assert plain.scales == equal.scales and plain.noise == equal.noise and plain.others == equal.others
    # Only how weights compare counts.
    some, same = ({"n": 3}, {"n": 1, "m": "1/3", "v": "1/3", "q": "1/3"})
    plans = [question(**MOMENTS).weigh(**w).plan(epsilon=1, noise="laplace") for w in (some, same)]
    assert plans[0].scales == plans[1].scales


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_split_is_where_no_other_is_better(noise):
    """The problem is convex in the logs of scales: it is enough that all derivatives are 0."""
    asked = MOMENTS | {"v": sf.variance("x", lower=0, upper=10)}
    query = question(**asked).weigh(n=3, v=8).query
    norm = NOISES[noise].norm
    needed = requirements(query, norm, F(1), units=False)
    steps = {c.name: float(c.step) for c in needed.coordinates}
    equal, found = (
        {n: float(s) for n, s in zip(needed.body.names, scales, strict=True)}
        for scales in (needed.body.split(norm), split(needed, norm))
    )

    def off(scales: dict[str, float]) -> float:
        """How far each number's part of the budget is from what asks for it."""
        budget, asked = {}, {}
        for s in needed.statistics:
            size = s.body.size(norm, [F(equal[n]) for n in s.names])
            for n in s.names:
                asked[n] = float(size / len(s.names))
                budget[n] = asked[n] * (equal[n] / scales[n]) ** (1 if norm is Norm.L1 else 2)
        for e in needed.estimates:
            squares = {n: (factor * scales[n] * steps[n]) ** 2 for n, factor in factors(e).items()}
            for n, square in squares.items():
                weight = {"n": 3, "v": 8}.get(e.name, 1) - 1
                asked[n] += weight * square / sum(squares.values())
        return max(abs(budget[n] / sum(budget.values()) - asked[n] / sum(asked.values())) for n in asked)

    assert len(found) == 5 and off(found) < 1e-5
    for name in found:
        assert off(found | {name: 1.05 * found[name]}) > 1e-3  # a split that is off is seen


def test_noise_that_is_less_for_one_and_no_more_for_others_costs_more():
    weighed, equal = (question().weigh(b=w).plan(epsilon=1, noise="laplace") for w in (4, 1))
    both = {n: min(weighed.scales[n], equal.scales[n]) for n in weighed.scales}
    assert with_scales(weighed, both).loss.epsilon(0) > 1.1


def test_places_near_quantiles_have_their_part_by_weight():
    for bars, expected in ((True, [F(2, 5)] * 4), (False, [F(2, 5), F(4, 7), F(1, 4), F(2, 5)])):
        asked = {"n": sf.count(), "q": sf.quantiles("x", [0.5], lower=0, upper=30, error_bars=bars)}
        shares = []
        for weights in ({}, {"q": 2}, {"n": 2}, {"n": 3, "q": 3}):
            plan = question(**asked).weigh(**weights).plan(epsilon=1, noise="k_norm")
            assert plan.noise.name == "k_norm" and plan.measurement.map(1).epsilon(0) == 1
            shares.append(plan.measurement.choice_epsilon)
        assert shares == expected


SHAPES = {
    "count and sums": (YEARS, 1, COUNT_AND_SUMS),
    "some of the groups": (YEARS, 3, COUNT_AND_SUMS),
    "all groups": (YEARS, 5, COUNT_AND_SUMS),
    "private groups": (None, 2, COUNT_AND_SUMS),
}


@pytest.mark.parametrize("shape", ["count and sums", "all groups", "private groups"])
def test_weights_do_not_change_k_norm_noise_and_the_plan_says_so(shape):
    keys, groups, asked = SHAPES[shape]
    plans = [
        question(keys, groups, **asked).weigh(**weights).plan(epsilon=1, delta=1e-6, noise="k_norm")
        for weights in ({}, {"n": 100})
    ]
    assert plans[0].scales == plans[1].scales and plans[0].expected == plans[1].expected
    said = ["Weights decide only which noise is drawn" in str(plan.explain()) for plan in plans]
    assert said == [False, True]


@pytest.mark.parametrize("noise", ["auto", "laplace"])
@pytest.mark.parametrize("shape", SHAPES)
def test_more_weight_is_no_larger_error(shape, noise):
    keys, groups, asked = SHAPES[shape]
    for name in asked:
        errors = [
            question(keys, groups, **asked)
            .weigh(**{name: weight})
            .plan(epsilon=1, delta=1e-6, noise=noise)
            .expected[name]
            for weight in (1, 2, 8, 32, 1000)
        ]
        assert errors == sorted(errors, reverse=True), (name, errors)
        assert errors[-1] < 0.8 * errors[0] or noise == "auto"  # whose noise may be near the least at once


@pytest.mark.parametrize("missing", [False, True])
def test_more_weight_is_no_larger_error_beside_squares_and_missing_values(missing):
    """The number of missing values has part in a mean's error, and costs nothing, whatever noise squares have."""
    rows = pa.table([[1], [1], [1.0]], pa.schema([
        pa.field("id", pa.int64(), nullable=False), pa.field("g", pa.int64(), nullable=False),
        pa.field("x", pa.float64(), nullable=missing)]))  # fmt: skip
    bounds = {"lower": 0, "upper": 4}
    asked = (
        sf.scan(rows, privacy_unit="id").group_by("g", keys=[0, 1]).bound(groups=2, rows=1)
        .agg(units=sf.count_units(), m=sf.mean("x", **bounds), v=sf.variance("x", **bounds))
    )  # fmt: skip
    errors = [
        asked.weigh(units=5, v=20, m=m).plan(epsilon=1, noise="laplace").expected["m"]
        for m in (5, 10, 20, 40, 80, 160, 320, 1000)
    ]
    assert errors == sorted(errors, reverse=True)


def test_equal_weights_are_no_weights_where_groups_are_private():
    """To be shown at all is one output more, which matters as much as the least."""
    one = question(keys=None, groups=1, rows=3, n=sf.count("z"))
    for noise in ("gaussian", "auto"):
        plans = [one.weigh(n=n).plan(epsilon="0.01", delta=1e-6, noise=noise) for n in (1, 7)]
        assert plans[0].expected == plans[1].expected and plans[0].scales == plans[1].scales


@pytest.mark.long
def test_the_choice_of_noise_follows_weights():
    # Of 24 groups a count has a smaller error with Gaussian noise, and a sum with K-norm noise.
    asked = question(keys=range(24), groups=24, n=sf.count(), a=sf.sum("x", lower=0, upper=30))
    chosen = [asked.weigh(n=n).plan(epsilon=1, delta=1e-6).noise.name for n in (1, 100)]
    assert chosen == ["k_norm", "gaussian"]


def test_weights_are_in_the_explanation_and_in_the_plans_key():
    plan = question().weigh(a=4).weigh(b="1/2").plan(epsilon=1)
    told = plan.explain()
    assert told.to_dict()["weights"] == {"n": "1", "a": "4", "b": "1/2"}
    assert "epsilon 1 and delta 0; weights: n 1, a 4, b 0.5:" in str(told)
    assert "weight" not in str(question().plan(epsilon=1).explain())
    assert question().weigh(a=4).weigh(a=1).plan(epsilon=1).scales == question().plan(epsilon=1).scales


def test_any_name_can_be_weighed():
    asked = question(
        weights=sf.count(), self=sf.sum("x", lower=0, upper=30), name=sf.mean("x", lower=0, upper=9)
    )
    plan = asked.weigh(weights=4, self=2).plan(epsilon=1, noise="laplace")
    assert plan.query.weight("weights") == 4 and plan.query.weight("name") == 1


@pytest.mark.parametrize(
    "weights, error, message",
    [
        ({"nn": 2}, QueryError, "nothing is asked by the name 'nn'; did you mean 'n'"),
        ({"year": 2}, QueryError, "The names are: n, a, b"),
        ({"n": 0}, ParameterError, "from 1/1000 to 1000"),
        ({"n": -1}, ParameterError, "from 1/1000 to 1000"),
        ({"n": float("inf")}, ParameterError, "finite"),
        ({"n": float("nan")}, ParameterError, "finite"),
        ({"n": "much"}, ParameterError, "weight of n"),
        ({"n": 1001}, ParameterError, "leave out what matters less"),
    ],
)
def test_bad_weights_are_refused(weights, error, message):
    with pytest.raises(error, match=message):
        question().weigh(**weights)


SQL = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id, weights = {}) "
    'COUNT(*), SUM(x, contribution_bounds_per_row => (0, 30)) AS "the sum" FROM t'
)


def test_weights_in_sql():
    query = parse(SQL.format("""'count 1e1, "the sum" 0.5'"""))
    assert query.weights == (("count", F(10)), ("the sum", F(1, 2)))
    asked = query.question(lambda source, unit: sf.scan(TABLE, privacy_unit=unit))
    direct = sf.scan(TABLE, privacy_unit="id").bound(rows=1)
    direct = direct.agg(**{"count": sf.count(), "the sum": sf.sum("x", lower=0, upper=30, per="row")})
    budget = {"epsilon": 1, "noise": "laplace"}
    weighed = direct.weigh(**{"count": 10, "the sum": 0.5}).plan(**budget)
    assert asked.plan(**budget).scales == weighed.scales != direct.plan(**budget).scales
    for written, message in (
        ("'n 4'", "nothing is asked by the name 'n'"),
        ("'count 0'", "from 1/1000 to 1000"),
        ("4", "weights is written weights ="),
        ("'count 4, count 5'", "each output once"),
    ):
        with pytest.raises(SqlError, match=message) as raised:
            parse(SQL.format(written))
        assert "^" in str(raised.value)


@pytest.mark.long
@pytest.mark.noise_cannot_matter("numbers of rows follow from the keys")
@pytest.mark.parametrize("noise", ["laplace", "k_norm"])
def test_a_weighed_question_is_released(noise):
    release = question(**MOMENTS).weigh(v=100).release(epsilon=1, noise=noise)
    assert release.to_arrow().num_rows == 5 and release.errors(0.95).num_rows == 5


@pytest.mark.parametrize("size", ["1e-100", "1e100"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_weights_take_bounds_of_any_size(noise, size):
    """Squared errors of a variance with such bounds are beyond floats."""
    asked = {"n": sf.count(), "v": sf.variance("z", lower=0, upper=size)}
    options = {"epsilon": 1, "delta": F(1, 10**6) if noise == "gaussian" else 0, "noise": noise}
    plan = question(**asked).weigh(n=10).plan(**options)
    assert plan.expected["n"] < question(**asked).plan(**options).expected["n"]
