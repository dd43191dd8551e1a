"""A release on Beam is given out once, and in a form that tells nothing of rows."""

from __future__ import annotations

import copy
import pickle
import tempfile
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms import trigger, window

import sfumato as sf
from sfumato.beam import Release
from sfumato.errors import BudgetError, QueryError, RefusalError

SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.int64())])
KEYS = list(range(12))


def question(keys=KEYS):
    table = sf.scan(SCHEMA, privacy_unit="id").group_by("place", keys=keys).bound(groups=1, rows=1)
    return table.agg(n=sf.count())


def pipeline_with(rows=()):
    pipeline = beam.Pipeline(runner="FnApiRunner")
    return pipeline, pipeline | beam.Create(list(rows))


# Windows and triggers

MODE = trigger.AccumulationMode
PANES = {
    "each element": dict(
        trigger=trigger.Repeatedly(trigger.AfterCount(1)), accumulation_mode=MODE.ACCUMULATING
    ),
    "the first element": dict(trigger=trigger.AfterCount(1), accumulation_mode=MODE.DISCARDING),
    "a time": dict(trigger=trigger.AfterProcessingTime(1), accumulation_mode=MODE.DISCARDING),
    "late ones": {"allowed_lateness": 60},
    "early times": {"timestamp_combiner": window.TimestampCombiner.OUTPUT_AT_EARLIEST},
}


def test_windows_and_triggers_are_refused_and_the_release_is_not_used_up():
    pipeline, rows = pipeline_with()
    release = question().release(epsilon=1)
    kinds = {name: (window.GlobalWindows(), panes) for name, panes in PANES.items()}
    for name, (windows, panes) in {**kinds, "hours": (window.FixedWindows(3600), {})}.items():
        windowed = rows | name >> beam.WindowInto(windows, **panes)
        with pytest.raises(QueryError, match="windows, a trigger or no end.*GlobalWindows"):
            windowed | f"release {name}" >> release
    endless = pipeline | "other" >> beam.Create([])
    endless.is_bounded = False
    for other, says in ((endless, "no end"), (pipeline, "one collection")):
        with pytest.raises(QueryError, match=says):
            other | says >> release
    windowed | "plain" >> beam.WindowInto(window.GlobalWindows()) | "once" >> release


def test_what_a_flattened_collection_says_of_its_windows_is_not_trusted():
    """Beam says of several collections what the first one is; the sums are of one pane whatever the others are."""
    pipeline, rows = pipeline_with()
    others = [
        pipeline | f"make {name}" >> beam.Create([{"id": 1, "place": 2}]) | name >> beam.WindowInto(window.GlobalWindows(), **panes)
        for name, panes in PANES.items()
    ]  # fmt: skip
    (rows, *others) | beam.Flatten() | question().release(epsilon=1)
    described = pipeline.to_runner_api().components
    kinds = {
        described.windowing_strategies[described.pcollections[name].windowing_strategy_id].SerializeToString()
        for transform in described.transforms.values()
        if "/Join " in transform.unique_name or "/Release" in transform.unique_name
        for name in (*transform.inputs.values(), *transform.outputs.values())
    }
    default, _ = pipeline_with()
    plain = default.to_runner_api().components.windowing_strategies.values()
    assert len(kinds) == 1
    assert kinds <= {strategy.SerializeToString() for strategy in plain}


# One object, one process


def test_a_copy_of_a_release_is_the_release_and_is_sent_nowhere():
    for first in (0, 1):
        release = question().release(epsilon=1)
        both = [release, copy.copy(release)]
        _, rows = pipeline_with()
        rows | "one" >> both[first]
        for place, again in enumerate((*both, copy.copy(both[first]))):
            with pytest.raises(RefusalError, match="a copy of it, was applied before"):
                rows | f"again {place}" >> again
    for send in (copy.deepcopy, pickle.dumps):
        with pytest.raises(RefusalError, match="cannot be pickled"):
            send(question().release(epsilon=1))


def test_a_fork_applies_no_release_and_spends_no_budget(in_child):
    def in_a_fork(attempt) -> str:
        told = in_child(lambda: attempt() and None)
        return "done" if told is None else f"{told[0].__name__}: {told[1]}"

    release, budget = question().release(epsilon=1), sf.Budget(1)
    _, rows = pipeline_with()
    assert in_a_fork(lambda: rows | release).startswith(
        "RefusalError: Release: this release belongs to the process"
    )
    assert in_a_fork(lambda: budget.spend("0.5")).startswith(
        "BudgetError: this Budget belongs to the process that made it"
    )
    # Here all is as it was.
    rows | release
    question().release(epsilon=1, budget=budget)
    with pytest.raises(BudgetError):
        budget.spend("0.1")


# The form of what is given out

TABLES = {
    "nobody": [],
    "one person": [(1, 3)],
    "many": [(i, i % 12) for i in range(400)],
}


def files_of(table: str, *options: str) -> list[list[str]]:
    from apache_beam.options.pipeline_options import PipelineOptions

    rows = [{"id": unit, "place": place} for unit, place in TABLES[table]]
    with tempfile.TemporaryDirectory() as folder:
        with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner", *options])) as pipeline:
            released = (
                pipeline | beam.Create(rows, reshuffle=False) | Release(question(), epsilon=1, shards=4)
            )
            released | beam.Map(lambda row: row["place"]) | beam.io.WriteToText(f"{folder}/released")
        return [path.read_text().split() for path in sorted(Path(folder).glob("released*"))]


@pytest.mark.long
def test_the_order_of_groups_and_files_tells_nothing_of_rows():
    """A shard that a person is in was given out first, on commit eb37468."""
    assert files_of("one person") == files_of("many") == files_of("nobody")
