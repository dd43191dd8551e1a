"""What a test sees of releases that Spark's and Beam's workers draw."""

from __future__ import annotations

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sfumato as sf
from sfumato.beam import Release
from sfumato.engines.worker_noise import Work
from sfumato.errors import ParameterError
from sfumato.testing import assert_approx_equal, noise_free, recording

from .test_k_norm import CASES, ROWS, SCHEMA, budget, question

pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("fixed_salt"),
    pytest.mark.flakiness(k=20, because="each meets one assertion, of k = 20, or draws no noise"),
]


def asked(case: str) -> dict:
    return {"epsilon": 20} | budget(case)


def truth_of(case: str) -> list[str]:
    """Return the truth that a recorder has of the same release on one machine."""
    with recording() as recorder:
        return alike(recorder[question(case, ROWS).release(**asked(case))].truth)


def alike(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


def on_beam(transform) -> None:
    """Run a pipeline of a release, and print what it gives."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        pipeline | beam.Create(ROWS.to_pylist()) | transform | beam.Map(print)


@pytest.mark.parametrize("case", CASES)
def test_a_record_of_a_data_frame_is_that_of_one_machine(frame_of, case):
    with recording() as recorder:
        frame = question(case, frame_of(ROWS).repartition(3)).release(**asked(case))
        recorded = recorder[frame]
    assert recorder[0] is recorded
    assert alike(recorded.truth) == truth_of(case)
    seen = frame.toArrow()
    assert alike(recorded.release.to_arrow()) == alike(seen)
    assert recorded.kept.num_rows == seen.num_rows
    assert_approx_equal(recorded.release, recorded.truth, k=20)


@pytest.mark.parametrize("case", ["a count", "private groups", "quantiles of all groups", "the whole table"])
def test_a_record_of_a_transform_is_that_of_one_machine(case, capfd):
    with recording() as recorder:
        transform = Release(question(case, SCHEMA), **asked(case), shards=2)
        with pytest.raises(ParameterError, match="while recording"):
            recorder[transform]  # no pipeline has run
        on_beam(transform)
        recorded = recorder[transform]
    assert alike(recorded.truth) == truth_of(case)
    seen = [line for line in capfd.readouterr().out.splitlines() if line]
    assert alike(recorded.release.to_arrow()) == sorted(seen)
    assert_approx_equal(recorded.release, recorded.truth, k=20)


@pytest.mark.parametrize("case", ["a count", "private groups", "some groups", "gaussian"])
def test_workers_draw_no_noise_where_a_test_asks_for_none(frame_of, case, capfd):
    budget_of = asked(case) | {"epsilon": 2}
    with noise_free(), recording() as recorder:
        frame = question(case, frame_of(ROWS)).release(**budget_of)
        transform = Release(question(case, SCHEMA), **budget_of, shards=2)
        on_beam(transform)
    plain = alike(recorder[frame].kept)
    assert plain == alike(frame.toArrow()) == sorted(filter(None, capfd.readouterr().out.splitlines()))
    assert bool(plain) and plain == alike(recorder[transform].kept)


def test_what_workers_drew_before_is_not_known_and_nothing_stays_changed(frame_of):
    made = Work.__dict__["of"]
    frame = question("a count", frame_of(ROWS)).release(**asked("a count"))
    with recording() as recorder, pytest.raises(ParameterError, match="while recording"):
        recorder[frame]
    assert Work.__dict__["of"] is made
    again = question("a count", frame_of(ROWS))
    assert type(again.table._engine.work(again.plan(**asked("a count")))) is Work


def test_an_assertion_sees_numbers_of_workers_that_are_off(frame_of):
    """A planted defect: all numbers moved by more than noise moves them."""
    with recording() as recorder:
        recorded = recorder[question("private groups", frame_of(ROWS)).release(**asked("private groups"))]
    for batch in recorded.release._batches:
        for name in batch.numbers.values:
            batch.numbers.values[name][:] += 1000
    with pytest.raises(AssertionError):
        assert_approx_equal(recorded.release, recorded.truth, k=20)


def question_of_values(rows) -> sf.Question:
    """Ask for numbers of different values, in both ways: of x, and of what units are in."""
    methods = {"matching": "m", "shares": "s"}
    asked = {name: sf.count_distinct("x", values=2, method=method) for method, name in methods.items()}
    return sf.scan(rows, privacy_unit="id").group_by("g", keys=range(9)).bound(groups=3).agg(**asked)


def test_numbers_of_different_values_of_workers_are_those_of_one_machine(frame_of, capfd):
    budget = {"epsilon": 20, "noise": "laplace"}
    with recording() as recorder:
        local = recorder[question_of_values(ROWS).release(**budget)]
        frame = recorder[question_of_values(frame_of(ROWS).repartition(3)).release(**budget)]
        transform = Release(question_of_values(SCHEMA), **budget, shards=2)
        on_beam(transform)
        on_workers = recorder[transform]
    assert alike(local.truth) == alike(frame.truth) == alike(on_workers.truth)
    assert len(set(alike(local.truth))) > 3
    seen = [line for line in capfd.readouterr().out.splitlines() if line]
    assert alike(on_workers.release.to_arrow()) == sorted(seen)
    for recorded in (local, frame, on_workers):
        assert_approx_equal(recorded.release, recorded.truth, k=21)
    with pytest.raises(AssertionError):
        assert_approx_equal(frame.release, doubled(frame.truth), k=21)


def doubled(truth: pa.Table) -> pa.Table:
    """A planted defect: each value counts twice."""
    return truth.set_column(1, "m", pc.multiply(truth["m"], 2))
