"""Previews: errors and bars are those of releases, budgets are the smallest, and nothing is read."""

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError, ParameterError
from sfumato.guidance.simulated_groups import SimulatedGroups, bars
from sfumato.measurements import GaussianThreshold, LaplaceThreshold, TruncatedGeometric
from sfumato.noise import Gaussian, Laplace, SeededWords
from sfumato.testing import release_mechanism

pytestmark = pytest.mark.noise_cannot_matter("the words are seeded")
SIZE = 400
ROWS = pa.table(
    {
        "id": np.arange(SIZE),
        "g": ["A"] * SIZE,
        "x": (np.arange(SIZE) + 0.5) * 10 / SIZE,
        "k": np.arange(SIZE) % 6,
        "w": 1 + np.arange(SIZE) % 3,
        "flag": np.arange(SIZE) % 2 == 0,
        "v": pa.array([[0.0, 0.0, 0.0]] * SIZE, pa.list_(pa.float64(), 3)),
        "t": [f"v{i % 7}" for i in range(SIZE)],
    }
)
NUMBERS = {
    "n": sf.count(),
    "m": sf.mean("x", lower=0, upper=10),
    "s": sf.sum("k", lower=0, upper=5),
    "var": sf.variance("x", lower=0, upper=10),
}
MEDIAN = {"q": sf.median("x", lower=0, upper=10), "n": sf.count()}
CASES = {
    "laplace": ({"n": NUMBERS["n"]}, {"epsilon": 0.5}, None),
    "k-norm": (NUMBERS, {"epsilon": 1, "noise": "k_norm"}, None),
    "gaussian": (NUMBERS, {"epsilon": 1, "delta": 1e-6, "noise": "gaussian"}, None),
    "private groups": (NUMBERS, {"epsilon": 2, "delta": 1e-6}, "private"),
    "public groups": (NUMBERS, {"epsilon": 1}, list("ABCDE")),
    "a median": (MEDIAN, {"epsilon": 2}, None),
}


def question(asked, keys=None, groups=2, rows=1, table=ROWS):
    found = sf.scan(table, privacy_unit="id")
    if keys is not None:
        found = found.group_by("g", keys=keys).bound(groups=groups)
    return found.bound(rows=rows).agg(**asked)


def of_many(one, options, times):
    """Return outputs of so many releases, drawn at once: of the first group, where it is shown."""
    drawn = release_mechanism(lambda _: one.release(**options))(None, times)
    first = "'A'" if one.query.keys else ""
    if isinstance(drawn, list):
        shown = [release[first] for release in drawn if first in release]
        return {name: np.array([numbers[name] for numbers in shown]) for name in shown[0]}
    return {
        name.removeprefix(f"{first}."): numbers for name, numbers in drawn.items() if name.startswith(first)
    }


@pytest.mark.parametrize(
    "case", ["laplace", *(pytest.param(case, marks=pytest.mark.long) for case in list(CASES)[1:])]
)
def test_errors_and_bars_are_those_of_many_releases(case):
    """The errors that are promised hold as often as they say, and are at most 15 percent wider than needed.

    Of 1000 releases, 0.95 has a deviation of 0.0069; whole numbers are off by a step where they say 0.95 and hold
    more often.
    """
    asked, options, keys = CASES[case]
    one = question(asked, keys)
    plan, words = one.plan(**options), SeededWords(case)
    row = one.preview(units=SIZE, **options).to_arrow().to_pylist()[0]
    exact = one.table._engine.statistics(plan.exact, 1 << 16)
    (batch,) = pa.Table.from_batches(list(exact)).combine_chunks().to_batches()
    batches = [plan.measurement.draw(batch, words) for _ in range(100)]
    widths = [b.half_widths(0.95) for b in batches if b.keys.num_rows or keys is None]
    outputs = of_many(one, options | {"unsafe_words": words}, 1000)
    truth = {"n": SIZE, "m": 5.0, "s": float(sum(i % 6 for i in range(SIZE))), "q": 5.0}
    truth["var"] = float(np.var(ROWS["x"].to_numpy()))
    for name in asked:
        off = np.abs(outputs[name] - truth[name])
        held, needed = np.mean(off <= row[name]), np.quantile(off, 0.95)
        assert held > 0.95 - 5 * 0.0069 - 0.012, (name, held)
        if name != "q":  # of which the next test tells: here it is 5, the roundest number that there is
            assert row[name] < 1.15 * needed + (name in ("n", "s")), (name, row[name], needed)
        of_name = [w.column(name)[0].as_py() for w in widths]
        assert row[f"{name}_error"] == pytest.approx(np.median(of_name), rel=0.25), name


@pytest.mark.long
def test_every_aggregate_has_a_preview():
    asked = {
        **NUMBERS,
        "people": sf.count_units(),
        "sd": sf.stddev("x", lower=0, upper=10),
        "share": sf.proportion("flag"),
        "of_k": sf.count("k"),
        "weighted": sf.mean("x", lower=0, upper=10, weight="w", max_weight=3),
        "h": sf.histogram("x", [0, 5, 10]),
        "values": sf.value_counts("t", ["v1", "v2"]),
        "d": sf.count_distinct("t", values=1),
        "vector": sf.vector_sum("v", length=3, bound=1),
        "cov": sf.covariance("x", "k", bounds={"x": (0, 10), "k": (0, 5)}),
        "fit": sf.linear_regression("x", ["k"], bounds={"x": (0, 10), "k": (0, 5)}),
        "ratio": sf.ratio("s", "n"),
    }
    for name, aggregate in asked.items():
        beside = {"s": NUMBERS["s"], "n": NUMBERS["n"]} if name == "ratio" else {}
        one = question({**beside, name: aggregate})
        found = SimulatedGroups.draw(one.plan(epsilon=10), one.table._engine, 2000, 1, 20)
        errors, widths = found.errors(0.95), found.bars(0.95)
        assert tuple(errors) == tuple(widths) == one.output_names
        for output in one.output_names:
            assert 0 <= errors[output] < np.inf and 0 <= widths[output] < np.inf, (name, errors, widths)


@pytest.mark.parametrize(
    "rule",
    [
        TruncatedGeometric("0.5", "1e-6", 3),
        LaplaceThreshold(Laplace(4), "1e-5", 2),
        GaussianThreshold(Gaussian(3), "1e-5"),
    ],
)
def test_the_chance_to_be_shown_is_that_of_the_rule(rule):
    """4,000 groups of each size: within 6 deviations."""
    for units in (0, 1, 2, rule.expected_threshold - 2, rule.expected_threshold, rule.expected_threshold + 9):
        kept = rule.select([units] * 4000, SeededWords(units)).keep.mean()
        chance = rule.chance(units)
        assert abs(kept - chance) <= 6 * (chance * (1 - chance) / 4000) ** 0.5 + 1e-4


@pytest.mark.long
def test_the_smallest_budget_reaches_the_goal_and_less_does_not():
    one = question({"n": sf.count(), "m": sf.mean("x", lower=0, upper=10)})
    for name, goal in (("n", 20), ("m", 0.05)):
        epsilon = one.epsilon_for(units=1000, **{name: goal})
        enough, less = (
            bars(one.plan(epsilon=e), one.table._engine, 1000, 1, 0.95)[name]
            for e in (epsilon, 0.95 * epsilon)
        )
        assert enough <= goal < less
    both = one.epsilon_for(units=1000, n=20, m=0.05)
    assert both == max(one.epsilon_for(units=1000, n=20), one.epsilon_for(units=1000, m=0.05))


def test_the_smallest_budget_that_shows_a_group():
    one = question({"n": sf.count()}, "private")
    epsilon = one.epsilon_for(units=50, shown=0.9, options={"delta": "1e-6"})
    found = (
        one.preview(epsilon=[epsilon, epsilon * 0.9], units=50, delta="1e-6").to_arrow()["shown"].to_pylist()
    )
    assert found[0] >= 0.9 > found[1]


@pytest.mark.long
def test_it_is_the_same_each_time_and_reads_nothing(monkeypatch):
    one = question(NUMBERS, "private")
    monkeypatch.setattr(one.table._engine, "statistics", lambda *_: pytest.fail("rows were read"))
    first, second = (one.preview(epsilon=[1, 2], delta=1e-6, units=[100]).to_arrow() for _ in range(2))
    assert first.equals(second)


@pytest.mark.parametrize(
    "given, error",
    [
        ({"epsilon": 0, "units": 10}, BudgetError),
        ({"epsilon": 1, "units": 0}, ParameterError),
        ({"epsilon": 1, "units": 10**7}, ParameterError),
        ({"epsilon": 1, "units": 10, "rows": 0}, ParameterError),
        ({"epsilon": 1, "units": 10, "confidence": 1}, ParameterError),
        ({"epsilon": 1, "units": 10, "noise": "loud"}, ParameterError),
    ],
)
def test_what_is_refused(given, error):
    with pytest.raises(error):
        question(NUMBERS).preview(**given)
