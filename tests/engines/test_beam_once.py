"""A release on Beam is given out once, and in a form that tells nothing of rows."""

from __future__ import annotations

import copy
import pickle
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms import trigger, window

import sfumato as sf
from sfumato.errors import BudgetError, QueryError, RefusalError

pytestmark = pytest.mark.long

SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.int64())])
KEYS = list(range(40))


def question(keys=KEYS):
    table = sf.scan(SCHEMA, privacy_unit="id").group_by("place", keys=keys).bound(groups=1, rows=1)
    return table.agg(n=sf.count())


def pipeline_with(rows=()):
    pipeline = beam.Pipeline(runner="FnApiRunner")
    return pipeline, pipeline | beam.Create(list(rows))


# Windows and triggers

PANES = {
    "each element": {
        "trigger": trigger.Repeatedly(trigger.AfterCount(1)),
        "accumulation_mode": trigger.AccumulationMode.ACCUMULATING,
    },
    "the first element": {
        "trigger": trigger.AfterCount(1),
        "accumulation_mode": trigger.AccumulationMode.DISCARDING,
    },
    "a time": {
        "trigger": trigger.AfterProcessingTime(1),
        "accumulation_mode": trigger.AccumulationMode.DISCARDING,
    },
    "late ones": {"allowed_lateness": 60},
    "accumulating": {"accumulation_mode": trigger.AccumulationMode.ACCUMULATING},
    "early times": {"timestamp_combiner": window.TimestampCombiner.OUTPUT_AT_EARLIEST},
}


@pytest.mark.parametrize("panes", PANES)
def test_a_trigger_is_refused_and_the_release_is_not_used_up(panes):
    _, rows = pipeline_with()
    windowed = rows | "windows" >> beam.WindowInto(window.GlobalWindows(), **PANES[panes])
    release = question().release(epsilon=1)
    with pytest.raises(QueryError, match="a trigger or no end"):
        windowed | release
    plain = windowed | "plain" >> beam.WindowInto(window.GlobalWindows())
    plain | "once" >> release


@pytest.mark.parametrize("panes", PANES)
def test_what_a_flattened_collection_says_of_its_windows_is_not_trusted(panes):
    """Beam says of several collections what the first one is; the sums are of one pane whatever the others are."""
    pipeline, rows = pipeline_with()
    other = pipeline | "other" >> beam.Create([{"id": 1, "place": 2}])
    other |= "windows" >> beam.WindowInto(window.GlobalWindows(), **PANES[panes])
    (rows, other) | beam.Flatten() | question().release(epsilon=1)
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


@pytest.mark.parametrize("first", [0, 1])
def test_a_copy_of_a_release_is_the_release(first):
    release = question().release(epsilon=1)
    both = [release, copy.copy(release)]
    _, rows = pipeline_with()
    rows | "one" >> both[first]
    for place, again in enumerate((*both, copy.copy(both[first]))):
        with pytest.raises(RefusalError, match="a copy of it, was applied before"):
            rows | f"again {place}" >> again


@pytest.mark.parametrize("send", [copy.deepcopy, pickle.dumps], ids=["deepcopy", "pickle"])
def test_what_is_paid_for_is_sent_nowhere(send):
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
        "BudgetError: this Budget cannot be copied, nor used by another process"
    )
    paid = in_a_fork(lambda: question().release(epsilon=1, budget=budget))
    assert paid.startswith("BudgetError: this Budget cannot")
    grandchild = in_child(lambda: in_a_fork(lambda: budget.spend(1)))
    assert grandchild.startswith("BudgetError: this Budget cannot be copied")
    assert in_a_fork(lambda: question().release(epsilon=1)) == "done"
    # Here all is as it was.
    rows | release
    question().release(epsilon=1, budget=budget)
    with pytest.raises(BudgetError):
        budget.spend("0.1")


# The form of what is given out

TABLES = {
    "nobody": [],
    "one person": [(1, 3)],
    "another": [(2, 17)],
    "many": [(i, i % 40) for i in range(400)],
    "many, elsewhere": [(i * 7 + 5, 39 - i % 40) for i in range(400)],
}
THREADS = ["--direct_running_mode=multi_threading", "--direct_num_workers=3"]


def files_of(table: str, *options: str) -> list[list[str]]:
    from apache_beam.options.pipeline_options import PipelineOptions

    rows = [{"id": unit, "place": place} for unit, place in TABLES[table]]
    with tempfile.TemporaryDirectory() as folder:
        with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner", *options])) as pipeline:
            released = pipeline | beam.Create(rows, reshuffle=False) | question().release(epsilon=1)
            released | beam.Map(lambda row: row["place"]) | beam.io.WriteToText(f"{folder}/released")
        return [path.read_text().split() for path in sorted(Path(folder).glob("released*"))]


@pytest.mark.parametrize("table", TABLES)
def test_the_order_of_groups_and_files_tells_nothing_of_rows(table):
    """A shard that a person is in was given out first, on commit eb37468."""
    assert files_of(table) == files_of("nobody")


def test_bundles_of_several_workers_tell_nothing_of_rows():
    """Which worker has a bundle is chance; what is in it is not."""
    first, second = (sorted(files_of(table, *THREADS)) for table in ("many", "one person"))
    assert first == second


class Counted(NamedTuple):
    n: int
    place: int


class Misnamed(NamedTuple):
    place: int
    count: int


def test_named_tuples_are_given_where_they_are_asked_for(run):
    release = question([1, 2]).release(epsilon=10**5)
    found = run(lambda p: p | beam.Create([{"id": 1, "place": 1}]) | release.with_output_types(Counted))
    assert found == [Counted(n=0, place=2), Counted(n=1, place=1)]
    for kind in (dict[str, Any], Any):
        release = question([1]).release(epsilon=10**5).with_output_types(kind)
        assert run(lambda p, release=release: p | beam.Create([]) | release) == [{"place": 1, "n": 0}]


def test_a_named_tuple_with_other_fields_is_refused_and_the_release_is_not_used_up():
    release = question().release(epsilon=1)
    _, rows = pipeline_with()
    with pytest.raises(QueryError, match="fields are place, count, but the released columns are place, n;"):
        rows | release.with_output_types(Misnamed)
    rows | "again" >> release.with_output_types(Counted)
