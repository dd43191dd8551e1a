"""One model of expected error: of assumed, of exact and of noisily seen rows it forecasts the same."""

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.guidance.contribution_distribution import LIMITS, Distribution
from sfumato.guidance.expected_error import EstimatedUnits, per_width, with_bounds

UNITS, GROUPS = 400, 5
WITHIN_95 = 1.96  # deviations of a normal law; of Laplace noise 2.1
ASKED = {
    "people": sf.count_units(),
    "n": sf.count(),
    "s": sf.sum("x", lower=0, upper=10, per="row"),
    "m": sf.mean("x", lower=0, upper=10),
}


def question():
    """Groups that are all alike: the values of each are spread evenly between the bounds."""
    x = np.tile(np.linspace(0, 10, UNITS), GROUPS)
    table = pa.table({"id": np.arange(UNITS * GROUPS), "town": np.repeat(np.arange(GROUPS), UNITS), "x": x})
    towns = sf.scan(table, privacy_unit="id").group_by("town", keys=list(range(GROUPS)))
    return towns.bound(groups=1, rows=1).agg(**ASKED)


def seen(plan):
    ones = Distribution(UNITS * GROUPS, (float(UNITS * GROUPS), *[0.0] * (len(LIMITS) - 1)), 1.0)
    found = EstimatedUnits(ones, ones, GROUPS, UNITS * GROUPS)
    return found.errors(plan, 1, 1)


@pytest.mark.parametrize("noise", ["laplace", "k_norm"])
def test_what_is_assumed_seen_and_exact_have_one_error(noise):
    asked, options = question(), {"epsilon": 1, "noise": noise}
    exact = asked.analyze(**options)
    (point,) = exact.points
    assumed = asked.preview(units=UNITS, **options).to_arrow().to_pylist()[0]
    found = seen(asked.plan(**options))
    assert list(found) == list(ASKED)
    for name, one in found.items():
        known = point.totals(name)
        assert known.bias == pytest.approx(0, abs=1e-6)
        assert one.total == one.noise  # nothing is cut
        # For values half-way to an end of the bounds, where exact ones are spread around the middle.
        assert known.noise == pytest.approx(one.noise, rel=0.2), name
        assert assumed[name] == pytest.approx(WITHIN_95 * known.noise, rel=0.2), name


def test_what_limits_cut_is_in_every_forecast():
    table = pa.table({"id": np.repeat(np.arange(500), 4)})
    asked = sf.scan(table, privacy_unit="id").bound(rows=2).agg(n=sf.count())
    (point,) = asked.analyze(epsilon=1).points
    place = LIMITS.index(4)
    rows = Distribution(500, tuple(500.0 if i == place else 0.0 for i in range(len(LIMITS))), 0.1)
    found = EstimatedUnits(None, rows, 1, 500).errors(asked.plan(epsilon=1), 1, 2)["n"]
    assert point.totals("n").bias == 1_000
    assert found.total == pytest.approx(1_000, rel=0.01)
    assert found.noise == pytest.approx(point.totals("n").noise)


@pytest.mark.parametrize(
    ("aggregate", "power"), [(sf.sum, 1), (sf.mean, 1), (sf.variance, 2), (sf.stddev, 2)]
)
def test_noise_grows_with_the_width_of_bounds(aggregate, power):
    table = sf.scan(pa.table({"id": [1], "x": [1.0]}), privacy_unit="id").bound(rows=1)
    plans = [table.agg(x=aggregate("x", lower=0, upper=upper)).plan(epsilon=1) for upper in (8, 16)]
    assert per_width(plans[0], "x") == pytest.approx(per_width(plans[1], "x"), rel=0.01)
    assert with_bounds(plans[0], "x", 2)["x"] == plans[0].expected["x"] * 2**power
    assert plans[1].expected["x"] == pytest.approx(plans[0].expected["x"] * 2**power, rel=0.01)
