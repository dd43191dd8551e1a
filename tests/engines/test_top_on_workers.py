"""The largest groups where they are found, on every engine: exactly those of the definition, ties by key."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.duckdb.stages import Stages
from sfumato.engines.worker_noise import TopWork
from sfumato.noise import SeededWords

SIZES = {"a": 900, "b": 700, "c": 500, "d": 2}
COLUMNS = pa.schema([("id", pa.int64()), ("key", pa.string())])


def table(sizes=SIZES):
    rows = [(u, key) for key, n in sizes.items() for u in range(n)] * 2
    ids, keys = zip(*rows, strict=True) if rows else ((), ())
    return pa.table([ids, keys], schema=COLUMNS)


def shards_of(rows, query, shards):
    """The parts of each shard of groups, where each half of the rows went another way."""
    engine = sf.scan(rows.schema.empty_table(), privacy_unit="id")._engine
    stages = replace(Stages.prepare(engine, rows.schema, query, shards), unit_shards=3)
    half = rows.num_rows // 2
    units: dict[int, list[bytes]] = {}
    for part in (rows.slice(0, half), rows.slice(half)):
        for payload in stages.partials(part.to_batches()):
            units.setdefault(payload.shard, []).append(payload.data)
    groups: dict[int, list[bytes]] = {}
    for parts in units.values():
        for payload in stages.totals(parts):
            groups.setdefault(payload.shard, []).append(payload.data)
    return stages, groups


MANY = pa.table(
    [
        [u for k in range(300) for u in range(5 + k % 7)],
        [f"k{k}" for k in range(300) for _ in range(5 + k % 7)],
    ],
    schema=COLUMNS,
)


def test_no_shard_sends_more_groups_than_may_be_shown_and_one():
    question = sf.scan(MANY, privacy_unit="id").top("key", k=2, candidates=10)
    stages, groups = shards_of(MANY, question._exact((question.statistic,)), 3)
    for parts in groups.values():
        sent = sum(pa.ipc.open_stream(data).read_all().num_rows for data in stages.collected(parts))
        assert sent == 11
    (batch,) = stages.merged(None, [d for parts in groups.values() for d in stages.collected(parts)], 1000)
    (here,) = question._engine.statistics(question._exact((question.statistic,)), 1000)
    assert batch.to_pydict() == here.to_pydict()
    # By number from the largest on, then by key; in order of keys.
    order = sorted((-(5 + k % 7), f"k{k}") for k in range(300))[:11]
    assert [(key, int(n)) for key, n in zip(*batch.to_pydict().values(), strict=True)] == sorted(
        (key, -n) for n, key in order
    )


@pytest.mark.parametrize(
    ("keys", "by"), [(None, None), (["a", "b", "c", "never"], "id")], ids=["private", "public"]
)
def test_workers_draw_what_one_machine_draws(keys, by):
    """With the same words the same groups and numbers, as exact numbers come in the same order."""
    rows = table()
    question = (
        sf.scan(rows, privacy_unit="id")
        .with_columns(x="id % 7")
        .top("key", k=3, keys=keys, by=None if by is None else sf.sum("x", lower=0, upper=5))
    )
    plan = question.plan(epsilon=3, delta=1e-9)
    stages, groups = shards_of(rows, question._exact((question.statistic,)), 3)
    work = TopWork.prepare(plan, stages)
    sent = [(shard, work.gathered(shard, parts)) for shard, parts in groups.items()]
    (drawn,) = work.drawn_jointly(sent[::-1])
    (again,) = work.drawn_jointly(sent)
    assert drawn.equals(again)
    here = pa.Table.from_batches(question._engine.statistics(question._exact((question.statistic,)), 1000))
    (batch,) = stages.merged(None, [data for _, data in sent], 1000)
    assert batch.to_pydict() == here.to_pydict()
    assert drawn.to_pydict() == plan.measurement.draw(here, work._words(batch)).to_pydict()
    assert drawn.schema.names == plan.measurement.names
    # Another release, or other rows: other words.
    words = work._words(batch).take(4).tolist()
    assert replace(work, secret=bytes(32))._words(batch).take(4).tolist() != words
    assert work._words(batch.slice(1)).take(4).tolist() != words


@pytest.mark.long
@pytest.mark.flakiness(k=50, because="noise of scale below 0.1 against 200 between groups")
def test_on_spark_the_largest_are_those_of_one_machine(frame_of):
    """With the same words, asked in Python and in SQL."""
    rows, found = table(), []
    for source in (frame_of(rows), rows):
        keys = ["a", "b", "c", "never"]
        drawn = sf.scan(source, privacy_unit="id").top("key", k=3, keys=keys).release(
            epsilon=3, unsafe_words=SeededWords(11)
        )  # fmt: skip
        found.append(drawn.to_arrow().to_pydict())
        assert drawn.to_arrow() is drawn.to_arrow() and drawn.errors().num_rows == 3
        text = (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000, delta = 1e-9, privacy_unit_column = id) "
            "APPROX_TOP_COUNT(key, 1) AS key FROM visits"
        )
        top = sf.sql(text, tables={"visits": source})
        assert top.spent == (1000.0, 1e-9) and top.to_arrow()["key"].to_pylist() == ["a"]
    assert found[0] == found[1]


@pytest.mark.long
@pytest.mark.flakiness(k=50, because="noise of scale 0.2 against 30 people, and 200 between groups")
def test_one_pipeline_of_beam_shows_the_largest(run):
    """Of private and brought keys, of joined tables, and asked in SQL."""
    import apache_beam as beam

    from sfumato.beam import named

    kinds = sf.public(pa.table({"key": [*SIZES], "kind": ["x", "y", "y", "z"]}))
    people = sf.scan(named("people", COLUMNS), privacy_unit="id")
    known = named("known", pa.schema({"key": pa.string()}))
    options = {"epsilon": 30, "delta": 1e-9}
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 30, delta = 1e-9, privacy_unit_column = id) "
        "APPROX_TOP_COUNT(key, 2) AS key FROM visits"
    )
    releases = {
        "private": people.top("key", k=3).release(**options),
        "brought": people.top("key", k=3, keys=known).release(epsilon=30),
        "joined": people.join(kinds, on="key").top("kind", k=2).release(**options),
        "sql": sf.sql(text, tables={"visits": COLUMNS}),
    }

    def build(pipeline):
        rows = pipeline | beam.Create([table()])
        keys = pipeline | "Keys" >> beam.Create(["a", "c"])
        found = []
        for name, release in releases.items():
            given = {"brought": {"people": rows, "known": keys}, "joined": {"people": rows}}
            shown = given.get(name, rows) | name >> release
            found.append(shown | f"tell {name}" >> beam.Map(lambda row, name=name: (name, row)))
        return tuple(found) | beam.Flatten()

    found = run(build)
    rows = {
        name: sorted((r for of, r in found if of == name), key=lambda row: row["rank"]) for name in releases
    }
    shown = {name: [row.get("key", row.get("kind")) for row in of] for name, of in rows.items()}
    largest = ["a", "b", "c"]
    assert shown == {"private": largest, "brought": ["a", "c"], "joined": ["x", "y"], "sql": largest[:2]}
    assert [row["rank"] for row in rows["private"]] == [1, 2, 3]
    assert all(abs(row["units"] - SIZES[row["key"]]) < 30 for row in rows["private"])
    # 700 of whom are in both groups that are y.
    assert all(abs(row["units"] - n) < 30 for row, n in zip(rows["joined"], (900, 700), strict=True))
