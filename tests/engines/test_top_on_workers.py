"""The largest groups where they are found, on every engine: exactly those of the definition, ties by key."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines.duckdb.stages import Stages
from sfumato.engines.worker_noise import TopWork
from sfumato.errors import ParameterError, QueryError
from sfumato.noise import SeededWords
from sfumato.testing import noise_free
from sfumato.transformations import CountUnits
from tests.support.cases import cases, definition, evaluated, generated, same, sort_key, unit_sum

SIZES = {"a": 900, "b": 700, "c": 500, "d": 2}
COLUMNS = pa.schema([("id", pa.int64()), ("key", pa.string())])


def table(sizes=SIZES):
    rows = [(u, key) for key, n in sizes.items() for u in range(n)] * 2
    ids, keys = zip(*rows, strict=True) if rows else ((), ())
    return pa.table([ids, keys], schema=COLUMNS)


def largest_of(found, names, count):
    """The definition: the first of all groups, by number from the largest on, and then by key."""
    (name,) = names
    order = sorted(found, key=lambda key: (-found[key].get(name, 0), sort_key(key)))
    return {key: found[key] for key in order[:count]}


@st.composite
def asked(draw, engine):
    case = draw(cases(engine, binding=False).filter(lambda c: c.keys))
    whole = case.columns["x"][0] not in ("DOUBLE", "FLOAT", "DECIMAL(12,3)")
    return replace(case, statistics=(draw(st.one_of(st.just(CountUnits()), unit_sum("s", "x", whole))),))


@generated(40, case=asked, count=lambda engine: st.integers(1, 5))
def test_the_largest_groups_are_those_of_the_definition(engine, case, count):
    found = evaluated(engine(case.columns), replace(case.query(), largest=count))
    assert same(found, largest_of(definition(case), case.statistics[0].names, count))


def shards_of(rows, query, shards):
    """The parts of each shard of groups, where each half of the rows went another way."""
    engine = sf.scan(rows.schema.empty_table(), privacy_unit="id")._engine
    stages = replace(Stages.of(engine, rows.schema, query, shards), unit_shards=3)
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
    assert batch.to_pydict() == here.to_pydict() and batch.num_rows == 11


@pytest.mark.parametrize("keys", [None, ["a", "b", "c", "never"]])
@pytest.mark.parametrize("by", [None, "id"])
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
    work = TopWork.of(plan, stages)
    sent = [(shard, work.gathered(shard, parts)) for shard, parts in groups.items()]
    (drawn,) = work.together(sent[::-1])
    (again,) = work.together(sent)
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


def test_of_no_groups_nothing_is_drawn():
    question = sf.scan(table({}), privacy_unit="id").top("key", k=3)
    stages, _ = shards_of(table({}), question._exact((question.statistic,)), 2)
    work = TopWork.of(question.plan(epsilon=1, delta=1e-6), stages)
    (drawn,) = work.together([(shard, work.gathered(shard, ())) for shard in range(2)])
    assert drawn.num_rows == 0 and drawn.schema.names == ["rank", "key", "units"]


def test_a_shard_is_cut_down_when_all_its_parts_are_there():
    question = sf.scan(MANY, privacy_unit="id").top("key", k=1, candidates=9)
    stages, groups = shards_of(MANY, question._exact((question.statistic,)), 1)
    (parts,) = groups.values()
    (right,) = question._engine.statistics(question._exact((question.statistic,)), 1000)

    def merged(sent):
        (batch,) = stages.merged(None, sent, 1000)
        return batch.to_pydict()

    assert merged(stages.collected(parts)) == right.to_pydict()
    # Planted: each part by itself; a group is missing where it is small in one of them.
    assert merged([d for part in parts for d in stages.collected([part])]) != right.to_pydict()


def words():
    return SeededWords(11)


@pytest.mark.long
@pytest.mark.parametrize("keys", [None, ["a", "b", "c", "never"]])
def test_on_spark(frame_of, keys):
    spark = sf.scan(frame_of(table()), privacy_unit="id").top("key", k=3, keys=keys)
    here = sf.scan(table(), privacy_unit="id").top("key", k=3, keys=keys)
    options = {"epsilon": 3, "delta": 1e-9}
    drawn = spark.release(**options, unsafe_words=words())
    assert (
        drawn.to_arrow().to_pydict() == here.release(**options, unsafe_words=words()).to_arrow().to_pydict()
    )
    assert drawn.to_arrow() is drawn.to_arrow() and drawn.spent == (3.0, 1e-9)
    assert drawn.errors().num_rows == 3


@pytest.mark.long
@pytest.mark.flakiness(k=50, because="noise of scale 0.2 against 30 people, and 200 between groups")
@pytest.mark.parametrize("keys", [None, "given", "brought"])
def test_on_beam(run, keys):
    import apache_beam as beam

    from sfumato.beam import Release, named

    rows = sf.scan(COLUMNS if keys != "brought" else named("rows", COLUMNS), privacy_unit="id")
    known = {"given": ["a", "b", "c", "never"], "brought": named("known", pa.schema({"key": pa.string()}))}
    question = rows.top("key", k=3, keys=known.get(keys))
    options = {"epsilon": 30, "delta": 1e-9}
    transform = Release(question, **options, shards=3) if keys == "given" else question.release(**options)

    def build(pipeline):
        given = pipeline | beam.Create([table()])
        if keys != "brought":
            return given | transform
        return {"rows": given, "known": pipeline | "Keys" >> beam.Create(["a", "c"])} | transform

    found = sorted(run(build), key=lambda row: row["rank"])
    # Of two keys that a pipeline brings, both are shown.
    shown = ["a", "c"] if keys == "brought" else ["a", "b", "c"]
    assert [row["key"] for row in found] == shown and [row["rank"] for row in found] == [
        *range(1, len(shown) + 1)
    ]
    assert all(abs(row["units"] - SIZES[row["key"]]) < 30 for row in found)
    assert transform.spent == (30.0, 1e-9) and "any number of groups" in str(transform.explain())
    assert transform.half_width(0.9) < transform.half_width(0.9, simultaneous=True)
    with pytest.raises(QueryError, match="half_width"):
        Release(question, confidence=0.95, **options)
    with pytest.raises(ParameterError):
        question.release(**options, unsafe_words=words())


def test_without_noise_workers_show_the_largest_in_order():
    question = sf.scan(table(), privacy_unit="id").top("key", k=4)
    stages, groups = shards_of(table(), question._exact((question.statistic,)), 2)
    with noise_free():
        work = TopWork.of(question.plan(epsilon=1, delta=1e-6), stages)
    sent = [(shard, work.gathered(shard, parts)) for shard, parts in groups.items()]
    (drawn,) = work.together(sent)
    # Two people are more likely hidden by the end.
    assert dict(zip(drawn["key"].to_pylist(), drawn["units"].to_pylist(), strict=True)) == {
        key: n for key, n in SIZES.items() if n > 2
    }


@pytest.mark.long
@pytest.mark.flakiness(k=50, because="noise of scale 0.2 against 30 people, and 200 between groups")
def test_of_tables_that_are_joined_and_of_no_rows(run):
    import apache_beam as beam

    from sfumato.beam import named

    kinds = sf.public(pa.table({"key": [*SIZES], "kind": ["x", "y", "y", "z"]}))
    people = sf.scan(named("people", COLUMNS), privacy_unit="id")
    known = named("known", pa.schema({"key": pa.string()}))
    joined = people.join(kinds, on="key").top("kind", k=2).release(epsilon=30, delta=1e-9)
    nobody = people.top("key", k=2).release(epsilon=30, delta=1e-9)
    no_keys = people.top("key", k=2, keys=known).release(epsilon=30)

    def build(pipeline):
        rows = pipeline | beam.Create([table()])
        none, never = (
            pipeline
            | f"none {i}" >> beam.Create([table({})] if i else ["a"])
            | f"keep {i}" >> beam.Filter(bool_of(i))
            for i in (1, 0)
        )
        return [
            {"people": rows} | "joined" >> joined,
            none | "nobody" >> nobody,
            {"people": rows, "known": never} | "no keys" >> no_keys,
        ] | beam.Flatten()

    found = sorted(run(build), key=lambda row: row["rank"])
    assert [row["kind"] for row in found] == ["x", "y"]  # of whom 700 are in both groups that are y
    assert all(abs(row["units"] - n) < 30 for row, n in zip(found, (900, 700), strict=True))


def bool_of(kept):
    return (lambda element: True) if kept else (lambda element: False)
