"""K-norm noise in Beam pipelines: the numbers that one machine finds, however a runner divides and repeats the work."""

from __future__ import annotations

import apache_beam as beam
import pytest

import sfumato as sf
from sfumato.beam import Release
from sfumato.errors import QueryError

from .test_k_norm import GAUSSIAN, ROWS, SCHEMA, budget, numbers, question

pytestmark = pytest.mark.flakiness(
    k=30, because="numbers of two releases are not alike, and noise of 0.001 rounds to 0"
)
THREADS = ("--runner=FnApiRunner", "--direct_running_mode=multi_threading", "--direct_num_workers=3")
# By name, transforms whose answers are put together in one pipeline.
ASKED = (
    "a count",
    "some groups",
    "quantiles of all groups",
    "quantiles of private groups",
    "the whole table",
    "gaussian",
    "steps of time",
    "totals",
)


def transforms() -> dict[str, Release]:
    def one(case: str) -> Release:
        options = {"epsilon": 20, "confidence": 0.9 if case == "a count" else None} | budget(case)
        if case == "some groups":
            options["noise"] = "auto"
        made = Release(question(case, SCHEMA), **options, shards=2)
        assert made.plan.noise.name == ("gaussian" if case in GAUSSIAN else "k_norm")
        return made

    return {case: one(case) for case in ASKED}


def flat(case: str, rows: list[dict]) -> list[str]:
    return [repr((case, row)) for row in rows]


@pytest.mark.long
def test_numbers_are_those_of_the_same_work_on_one_machine_each_time_it_is_done(run):
    """A pipeline that runs again, in threads, on rows in another order and other bundles, draws no second noise."""
    made = transforms()
    expected = sorted(text for case, t in made.items() for text in flat(case, numbers(t._work)))
    orders = {"turned": ROWS.to_pylist()[::-1], "batches": ROWS.to_batches(max_chunksize=50)}
    for name, options in (("turned", THREADS), ("batches", ("--runner=FnApiRunner",))):

        def build(pipeline, name=name):
            rows = pipeline | beam.Create(orders[name])
            again = {
                case: type(t)(t.plan, t._work, t._form) for case, t in made.items()
            }  # as of a pipeline run twice
            found = [
                rows | case >> t | f"told {case}" >> beam.Map(lambda row, case=case: repr((case, row)))
                for case, t in again.items()
            ]
            return tuple(found) | beam.Flatten()

        assert run(build, options) == sorted(expected, key=repr), name
    other = flat("some groups", numbers(transforms()["some groups"]._work))
    assert not set(other) <= set(expected), "another release has other noise"


def test_windows_and_triggers_are_refused_with_this_noise_too():
    rows = beam.Pipeline(runner="FnApiRunner") | beam.Create(ROWS.to_pylist())
    windowed = rows | beam.WindowInto(beam.window.FixedWindows(60))
    with pytest.raises(QueryError, match="windows, a trigger or no end"):
        windowed | question("all groups", SCHEMA).release(epsilon=1, noise="k_norm")


def test_a_question_says_what_it_will_do_before_a_pipeline():
    asked = sf.scan(SCHEMA, privacy_unit="id").group_by("g", keys=[1, 2]).bound(groups=2, rows=1)
    transform = asked.agg(n=sf.count()).release(epsilon=1, noise="k_norm")
    assert transform.spent == (1.0, 0.0) and "K-norm noise" in str(transform.explain())
