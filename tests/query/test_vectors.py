"""Sums and means of vectors from a question to lists with error bars, and what is refused beforehand."""

import math

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.testing import noise_free
from tests.support.plan_chains import same_loss

LENGTH = 3
VECTORS = [
    [3.0, 4.0, 0.0],
    [0.0, 0.0, -1.0],
    None,
    [1.0, float("nan"), 0.0],
    [0.3, 0.4, 0.0],
    [30.0, 40.0, 0.0],
]


def people(vectors=VECTORS, kind=None, **columns):
    kind = kind or pa.list_(pa.float64())
    rows = {"id": list(range(len(vectors))), "v": pa.array(vectors, kind), **columns}
    return sf.scan(pa.table(rows), privacy_unit="id")


def asked(**options):
    return sf.vector_sum("v", **{"length": LENGTH, "bound": 1, **options})


def only(table):
    (row,) = table.to_pylist()
    return row["s"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.6 + 0.3 + 0.6, 0.8 + 0.4 + 0.8, -1.0]),
        ({"norm": "l1"}, [3 / 7 + 0.3 + 3 / 7, 4 / 7 + 0.4 + 4 / 7, -1.0]),
        ({"norm": "linf", "bound": 2}, [2 + 0.3 + 2, 2 + 0.4 + 2, -1.0]),
        ({"bound": 10, "per": "row"}, [3 + 0.3 + 6, 4 + 0.4 + 8, -1.0]),
    ],
)
def test_without_noise_it_is_the_sum_of_shortened_vectors(options, expected):
    kind = pa.list_(pa.float64(), LENGTH) if options else pa.list_(pa.float32())
    with noise_free():
        release = people(kind=kind).bound(rows=1).agg(s=asked(**options)).release(epsilon=1, delta=1e-6)
        found = release.to_arrow()
    assert found.schema.field("s").type == pa.list_(pa.float64(), LENGTH)
    assert only(found) == pytest.approx(expected, abs=1e-6)


def test_whole_numbers_stay_whole_where_entries_are_clamped():
    table = people([[1, 0, 5], [1, -7, 0]], pa.list_(pa.int32()))
    with noise_free():
        release = table.agg(s=asked(norm="linf", bound=2)).release(epsilon=1)
        assert release.to_arrow().schema.field("s").type == pa.list_(pa.int64(), LENGTH)
        assert only(release.to_arrow()) == [2, -2, 2]
        shortened = table.agg(s=asked(norm="l2", bound=2)).release(epsilon=1).to_arrow()
    assert shortened.schema.field("s").type == pa.list_(pa.float64(), LENGTH)


def test_whole_numbers_of_units_with_too_many_rows_are_not_cut_to_nothing():
    table = pa.table({"id": [i // 2 for i in range(8)], "v": [[1, 0], [0, 1]] * 4})
    asked_of = sf.scan(table, privacy_unit="id").bound(rows=1)
    flags = {"length": 2, "bound": 1, "norm": "linf"}
    with noise_free():
        found = asked_of.agg(s=sf.vector_sum("v", **flags, per="row"), m=sf.vector_mean("v", **flags))
        release = found.release(epsilon=1).to_arrow()
    assert release.schema.field("s").type == pa.list_(pa.int64(), 2)
    assert release["s"][0].as_py() == [2, 2]  # half of each row of four units
    assert release["m"][0].as_py() == pytest.approx([0.5, 0.5], abs=1e-6)


def test_noise_is_chosen_by_its_size_and_is_of_the_size_that_is_claimed():
    few, many = (sf.vector_sum("v", length=n, bound=1) for n in (3, 300))
    assert people().agg(s=few).release(epsilon=1).plan.noise.name == "laplace"
    plan = people().agg(s=many).release(epsilon=1, delta=1e-6).plan
    assert plan.noise.name == "gaussian"
    # The deviation of Gaussian noise at (1, 1e-6) and L2 sensitivity 1, whatever the length.
    (deviation,) = plan.deviations.values()
    assert 4.2 < deviation < 4.3
    (laplace,) = people().agg(s=few).release(epsilon=1).plan.deviations.values()
    assert laplace == pytest.approx(math.sqrt(2 * 3), rel=1e-6)
    (ball,) = people().agg(s=asked(norm="l1")).release(epsilon=1).plan.deviations.values()
    assert ball == pytest.approx(math.sqrt(2), rel=1e-6)
    by_row = people().bound(rows=4).agg(s=asked(per="row", norm="linf")).release(epsilon=1)
    assert next(iter(by_row.plan.deviations.values())) == pytest.approx(4 * 3 * math.sqrt(2), rel=1e-6)


@pytest.mark.noise_cannot_matter("half-widths follow from the law alone")
def test_half_widths_are_of_each_entry_or_of_all_at_once():
    length = 400
    table = people([[0.0] * length] * 3)
    release = table.agg(s=sf.vector_sum("v", length=length, bound=1)).release(epsilon=1, delta=1e-6)
    errors = release.errors(0.95)
    assert errors.schema.field("s").type == pa.list_(pa.float64(), length)
    single, joint = only(errors), only(release.errors(0.95, simultaneous=True))
    assert len(set(single)) == len(set(joint)) == 1
    (law,) = release.plan.laws.values()
    step = float(next(iter(release.plan.steps.values())))
    assert single[0] == pytest.approx(step * law.tolerance(-math.log10(0.05)), rel=1e-6)
    assert joint[0] == pytest.approx(step * law.tolerance(-math.log10(0.05 / length)), rel=1e-6)


# Means.

RNG = np.random.default_rng(3)
RANDOM_VECTORS = [list(v) for v in RNG.normal(0.2, 0.4, (400, LENGTH))]
# Rows without a vector count for nothing: they are no zeros.
LISTS = [*RANDOM_VECTORS, None, [1.0], [1.0, None, 2.0], [0.0, float("nan"), 0.0], []]
TABLE = pa.table(
    {
        "id": range(len(LISTS)),
        "half": [i % 2 for i in range(len(LISTS))],
        "v": pa.array(LISTS, pa.list_(pa.float64())),
    }
)
PEOPLE = sf.scan(TABLE, privacy_unit="id").bound(rows=1)
MEAN = sf.vector_mean("v", length=LENGTH, bound=1)
SHORT = np.array(RANDOM_VECTORS) / np.maximum(1, np.linalg.norm(RANDOM_VECTORS, axis=1))[:, None]
TRUTH = SHORT.mean(axis=0)


@pytest.mark.flakiness(k=100, because="noise of scale 1e-3 or less over 400 rows, against 1e-3 of a mean")
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_it_is_the_mean_of_shortened_vectors_over_rows_that_have_one(noise):
    release = PEOPLE.agg(m=MEAN).release(epsilon=10**4, delta=1e-6, noise=noise).to_arrow()
    assert release.schema.field("m").type == pa.list_(pa.float64(), LENGTH)
    assert release["m"][0].as_py() == pytest.approx(TRUTH.tolist(), abs=1e-3)


def test_one_unit_moves_sum_and_count_by_as_many_rows_as_the_limit():
    plan = PEOPLE.bound(rows=3).agg(m=MEAN).plan(epsilon=1, delta=1e-6, noise="gaussian")
    sizes = dict(zip(plan.requirements.body.names, plan.requirements.body.linf_sensitivities, strict=True))
    steps = {c.name: c.step for c in plan.requirements.coordinates}
    assert {name: size * steps[name] for name, size in sizes.items()} == dict.fromkeys(sizes, 3)
    assert same_loss(plan)


@pytest.mark.noise_cannot_matter("means are clamped to the bound, and nothing is compared but that")
def test_groups_without_rows_have_entries_within_the_bound_and_bars_that_say_nothing():
    by_half = sf.scan(TABLE, privacy_unit="id").group_by("half", keys=[0, 1, 9]).bound(groups=1, rows=1)
    release = by_half.agg(m=MEAN).release(epsilon=1e-3)
    values = np.array(release.to_arrow()["m"].to_pylist())
    bars = np.array(release.errors(simultaneous=True)["m"].to_pylist())
    assert values.shape == (3, LENGTH) and (np.abs(values) <= 1).all()
    assert np.isfinite(bars).all() and (bars[2] >= 1 - 1e-9).all()
