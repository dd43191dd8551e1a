"""Units in more public groups than the limit count in part in each: what a question says, plans and releases."""

from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from tests.support.plan_chains import same_loss

# Person i is in groups 0 to i % 4, once in each, with 3 visits.
PAIRS = [(i, k, 3) for i in range(400) for k in range(1 + i % 4)]
TABLE = pa.table(
    [pa.array(column, pa.int64()) for column in zip(*PAIRS, strict=True)],
    schema=pa.schema([pa.field(n, pa.int64(), nullable=False) for n in ("id", "group", "visits")]),
)
ASKED: dict[str, Any] = {
    "people": sf.count_units(),
    "rows": sf.count(),
    "visits": sf.sum("visits", lower=0, upper=10),
    "mean": sf.mean("visits", lower=0, upper=10),
}
# In j groups with a limit of 2: 1, 1, 2/3 and 1/2.
PARTS = [
    100 * (1 + 1) + 100 * Fraction(2, 3) + 50,
    100 + 100 * Fraction(2, 3) + 50,
    100 * Fraction(2, 3) + 50,
    50,
]


def question(groups=2, beyond=None, keys=(0, 1, 2, 3, 9), **asked: Any):
    grouped = sf.scan(TABLE, privacy_unit="id").group_by("group", keys=keys and list(keys))
    return grouped.bound(groups=groups, rows=1, beyond=beyond).agg(**(asked or ASKED))


def test_scaling_is_what_public_groups_beyond_the_limit_have_unless_asked_otherwise():
    assert question().query.scaled and question(beyond="scale").query.scaled
    for other in (question(beyond="sample"), question(groups=5), question(groups=5, beyond="scale")):
        assert not other.query.scaled
        plan = other.plan(epsilon=1)
        assert {c.name: c.step for c in plan.requirements.coordinates}["units"] == 1
    assert not question(keys=None).query.scaled
    median = {"n": sf.count(), "m": sf.quantiles("visits", 0.5, lower=0, upper=9)}
    assert question(beyond="scale", **median).query.scaled and not question(**median).query.scaled


@pytest.mark.noise_cannot_matter("its scale is a millionth")
@pytest.mark.parametrize(
    "noise", ["k_norm", *(pytest.param(n, marks=pytest.mark.long) for n in ("laplace", "gaussian"))]
)
def test_a_release_counts_parts_and_rounds_them_last(noise):
    release = question().release(epsilon=1_000_000, delta=1e-6, noise=noise)
    expected = [round(n) for n in PARTS] + [0]
    found = release.to_arrow()
    assert found["people"].to_pylist() == found["rows"].to_pylist() == expected
    assert found["visits"].to_pylist() == [round(3 * n) for n in PARTS] + [0]
    assert found["mean"].to_pylist()[:4] == pytest.approx([3] * 4, abs=1e-3)
    assert [str(found.schema.field(name).type) for name in ASKED] == ["int64", "int64", "int64", "double"]


@pytest.mark.noise_cannot_matter("its scale is a millionth")
def test_a_random_choice_differs_between_releases_and_parts_do_not():

    def people(beyond: str) -> list[int]:
        release = question(beyond=beyond).release(epsilon=1_000_000)
        return release.to_arrow()["people"].to_pylist()

    assert people("scale") == people("scale")
    assert len({tuple(people("sample")) for _ in range(8)}) > 1  # all alike with a chance below 2^-20


@pytest.mark.parametrize("noise", ["laplace", pytest.param("k_norm", marks=pytest.mark.long)])
def test_quantiles_of_parts_are_charged_as_their_chain_says(noise):
    plan = question(beyond="scale", m=sf.quantiles("visits", 0.5, lower=0, upper=9)).plan(
        epsilon=1, noise=noise
    )
    assert plan.query.scaled and same_loss(plan) and plan.loss.epsilon(0) == 1
