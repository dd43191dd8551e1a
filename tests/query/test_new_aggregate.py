"""A new aggregate is a class of its own: planning, noise, totals, explanation and receipt need no other place."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.dataclass import dataclass
from sfumato.noise.noise_sums import Interval
from sfumato.query.aggregates.aggregate import BoundedAggregate
from sfumato.query.aggregates.sum_mean_variance import VarianceEstimate, _spread
from sfumato.testing import noise_free

pytestmark = pytest.mark.noise_cannot_matter("without noise, or only shapes are looked at")


@dataclass(frozen=True)
class RootMeanSquareEstimate(VarianceEstimate):
    """The estimate of a root mean square."""

    kind = "root mean square"

    def value(self, numbers):
        """Return the noisy root mean square."""
        squares = sum(numbers.values[name] * weight for name, weight in self.sum_of_squares.items())
        return np.sqrt(np.clip(squares / np.maximum(self.counted(numbers), 1.0), 0.0, self.upper))

    def interval(self, numbers, failure):
        """Return all that it can be."""
        none = np.zeros_like(numbers.values[self.total])
        return Interval(none, none + math.sqrt(self.upper))


@dataclass(frozen=True, repr=False)
class RootMeanSquare(BoundedAggregate):
    """A root mean square."""

    kind = "root mean square"
    needs_moments = needs_squares = in_totals = True

    def estimates(self, design, name):
        """Return the estimate of a root mean square."""
        largest = float(max(abs(self.lower), abs(self.upper)))
        return (RootMeanSquareEstimate(name, upper=largest**2, **_spread(design, self)),)


X = [3.0, None, 9.0, -1.0, 12.0, 4.0]
ROWS = pa.table({"id": range(6), "g": list("aabbbb"), "x": X})
TABLE = sf.scan(ROWS, privacy_unit="id").group_by("g", keys=["a", "b"]).bound(groups=1, rows=1)
ASKED = {
    "n": sf.count(),
    "r": RootMeanSquare("x", Fraction(0), Fraction(10)),
    "m": sf.mean("x", lower=0, upper=10),
}


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "k_norm"])
def test_it_is_released_with_noise_of_any_kind(noise):
    with noise_free():
        release = TABLE.agg(**ASKED).release(epsilon=1, delta="1e-6", noise=noise)
        found = {row["g"]: row["r"] for row in release}
    assert found == pytest.approx({"a": 3.0, "b": math.sqrt((81 + 0 + 100 + 16) / 4)}, rel=1e-4)
    assert release.receipt().to_dict()["plan"]["outputs"][1][1]["kind"] == "RootMeanSquare"
    assert "sum of squares of x" in str(release.explain())


def test_it_has_totals_error_bars_and_a_preview():
    question = TABLE.agg(**ASKED)
    assert len(TABLE.totals().agg(**ASKED).release(epsilon=1, delta="1e-6")) == 3
    assert all(5 <= bar <= 10 for bar in question.release(epsilon=1).errors()["r"].to_pylist())
    assert question.preview(epsilon=1, units=1000).outputs == ["n", "r", "m"]
