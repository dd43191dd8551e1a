"""Public keys that a collection brings: any number of groups, of which each is shown once, and no other."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api.table import Table
from sfumato.beam import named
from sfumato.engines.beam import beam_release as release_module
from sfumato.engines.beam.beam_engine import BeamEngine
from sfumato.engines.beam.beam_release import exact_parts, public_keys
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.stages import Stages
from sfumato.errors import ParameterError, QueryError
from sfumato.query.engine_protocol import BroughtKeys
from sfumato.query.query import Query

from .tiers import some

SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.string()), ("far", pa.float64()), ("x", pa.int32())])
PLACES = pa.schema([("place", pa.string())])
BIG = {"epsilon": 10**6}
near = pytest.mark.flakiness(k=100, because="noise of scale below 0.01 rounds to less than 1")


def visits(seed: int = 0, rows: int = 300) -> pa.Table:
    """Rows of units in many places, some of which nobody brings."""
    chance = random.Random(seed)
    far = [0.0, -0.0, 1.5, float("nan"), None]
    made = [
        (chance.randrange(25), chance.choice(["a", "b", "c", "d", "é", "", None]), chance.choice(far), chance.randint(0, 9))
        for _ in range(rows)
    ]  # fmt: skip
    columns = zip(*made, strict=True)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def asked(keys: Any, *columns: str, groups: int = 2, beyond: Any = None, of: Any = None) -> sf.Question:
    table = sf.scan(named("visits", SCHEMA), privacy_unit="id") if of is None else of
    grouped = table.group_by(*(columns or ("place",)), keys=keys).bound(groups=groups, rows=2, beyond=beyond)
    return grouped.agg(n=sf.count(), u=sf.count_units(), x=sf.sum("x", lower=0, upper=9))


# Plans.
@pytest.mark.parametrize("noise", ["auto", "laplace", "gaussian", "k_norm"])
@pytest.mark.parametrize("beyond", ["scale", "sample"])
def test_a_plan_holds_for_any_number_of_groups(noise, beyond):
    delta = 0 if noise in ("laplace", "k_norm") else 1e-6
    question = asked(named("places", PLACES), groups=3, beyond=beyond)
    plan = question.plan(epsilon=1, delta=delta, noise=noise)
    assert isinstance(plan.query.public_keys, BroughtKeys) and not plan.measurement.at_once
    assert plan.selection is None and plan.loss.delta(1) <= plan.delta
    # With fewer than the limit it is as if others were not shown.
    for count in (1, 2, 3, 4, 50) if plan.metric is None else (4, 50):
        lost = replace(plan.measurement, shown=count).map(1)
        assert lost.delta(1) <= plan.loss.delta(1)
        if count >= 3:
            assert lost == plan.loss


def test_noise_is_that_of_a_list_where_each_group_has_its_own():
    many = [f"p{i}" for i in range(100_000)]
    for noise in ("laplace", "k_norm"):
        brought = asked(named("places", PLACES)).plan(epsilon=1, noise=noise)
        listed = asked(many).plan(epsilon=1, noise=noise)
        assert brought.scales == listed.scales and brought.multiplier == listed.multiplier
    # With a limit above the number of groups noise is larger than it had to be.
    few = [
        asked(keys, groups=9).plan(epsilon=1, noise="laplace") for keys in (["a", "b"], named("p", PLACES))
    ]
    assert few[0].multiplier < few[1].multiplier


def test_one_draw_for_all_groups_would_be_found(monkeypatch):
    monkeypatch.setattr(Query, "brought_groups", False)
    monkeypatch.setattr(Query, "public_groups", tuple((f"p{i}",) for i in range(2)))
    plan = asked(named("places", PLACES), groups=2).plan(epsilon=1, noise="k_norm")
    assert plan.measurement.at_once


def test_the_explanation_says_what_noise_it_is():
    told = str(asked(named("places", PLACES)).plan(epsilon=1).explain())
    assert "Group by place (public groups of the collection 'places', however many they are)" in told
    assert "each number of each group has noise of its own, which hides a unit in 2 groups" in told
    assert "The number of groups" not in str(asked(["a"]).plan(epsilon=1).explain())


def test_private_options_of_groups_are_refused_as_with_a_list():
    with pytest.raises(ParameterError, match="the groups are public"):
        asked(named("places", PLACES)).plan(epsilon=1, delta=1e-6, group_selection="laplace")


def nameless() -> Any:
    return sf.scan(SCHEMA, privacy_unit="id")


def joined() -> Any:
    one, other = (sf.scan(named(n, SCHEMA), privacy_unit="id") for n in ("visits", "others"))
    return one.union(other)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no name": (lambda: asked(PLACES), "both need names"),
    "rows without one": (lambda: asked(named("places", PLACES), of=nameless()), "both need names"),
    "private rows": (lambda: asked(named("visits", PLACES)), "names 'visits', whose rows are private"),
    "other private rows": (lambda: asked(named("others", PLACES), of=joined()), "names 'others', whose rows"),
    "another column": (
        lambda: asked(named("places", pa.schema({"town": pa.string()}))),
        r"has the columns \['town'\], but needs \['place'\]",
    ),
    "one column more": (lambda: asked(named("places", SCHEMA)), "has the columns"),
    "another type": (
        lambda: asked(named("places", pa.schema({"place": pa.int64()}))),
        "has place as BIGINT, but the column is VARCHAR",
    ),
    "whole numbers for floats": (
        lambda: asked(named("places", pa.schema({"far": pa.int64()})), "far"),
        "has far as BIGINT, but the column is DOUBLE",
    ),
    "a collection": (
        lambda: asked(beam.Pipeline(runner="FnApiRunner") | beam.Create(["a"])),
        "keys= is a collection; say its columns here, keys=sfumato.beam.named",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_collection_of_public_keys_is_refused(what):
    made, says = REFUSED[what]
    with pytest.raises(QueryError, match=says):
        made()


def test_other_engines_know_no_collections():
    rows = sf.scan(visits(), privacy_unit="id")
    with pytest.raises(QueryError, match="must be a list"):
        rows.group_by("place", keys=named("places", PLACES))


def test_private_rows_under_another_name_are_refused():
    rows = beam.Pipeline(runner="FnApiRunner") | beam.Create([])
    with pytest.raises(QueryError, match="brought by the collection of private rows"):
        {"visits": rows, "places": rows} | asked(named("places", PLACES)).release(epsilon=1)
    with pytest.raises(
        QueryError, match=r"\{'visits': \.\.\., 'places': \.\.\.\} | release, not to a PCollection"
    ):
        rows | "again" >> asked(named("places", PLACES)).release(epsilon=1)


# Exact statistics, in stages and in a pipeline, are those of one machine that is given a list.
def schema_of(columns: tuple[str, ...]) -> pa.Schema:
    return named("places", pa.schema([SCHEMA.field(name) for name in columns]))


def on_one_machine(plan: Any, keys: pa.Table) -> list[dict[str, Any]]:
    engine = DuckDBEngine.open(visits(), "UTC")
    table = engine.public_keys(plan.query.keys, keys, ())
    exact = replace(plan.exact, public_keys=table)
    return [row for batch in engine.statistics(exact, 1000) for row in batch.to_pylist()]


def in_a_pipeline(question: sf.Question, plan: Any, brought: list[Any], run: Any) -> list[dict[str, Any]]:
    engine: Any = question.table._engine
    stages = engine.stages(plan.exact, 3)
    rows = visits()
    names = {0: "visits", -1: "places"}
    cuts = [rows.slice(start, 100) for start in (0, 100, 200)]

    def build(pipeline: Any) -> Any:
        tables = {
            0: pipeline | "Rows" >> beam.Create(cuts, reshuffle=False),
            -1: pipeline | "Keys" >> beam.Create(brought),
        }
        keys = public_keys(tables, stages, names)
        parts = exact_parts(tables, stages, names, keys)

        def merged(shard: int, data: list[bytes], streams: Any = ()) -> list[pa.RecordBatch]:
            known = release_module._with(stages, streams)
            return [*known.merged(shard, data, 1000)]

        return parts | beam.FlatMapTuple(merged, *keys)

    found = [row for batch in run(build) for row in batch.to_pylist()]
    return sorted(found, key=repr)


LISTS: dict[str, tuple[tuple[str, ...], list[Any]]] = {
    "places": (("place",), ["a", "b", None, "z", "", "é"]),
    "far": (("far",), [0.0, float("nan"), 1.5, 7.0]),
    "both": (("place", "far"), [("a", 0.0), ("a", None), ("q", 1.5), ("b", float("nan"))]),
    "none of theirs": (("place",), ["y", "z"]),
}  # fmt: skip
LIMITS = [(2, "scale"), (2, "sample"), (50, "scale"), (1, "sample")]


@pytest.mark.long
@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(("groups", "beyond"), LIMITS)
def test_statistics_are_those_of_a_list(name, groups, beyond, run, fixed_salt):
    columns, keys = LISTS[name]
    question = asked(schema_of(columns), *columns, groups=groups, beyond=beyond)
    plan = question.plan(epsilon=1)
    again = [-0.0 if key == 0.0 else key for key in keys]  # the same keys once more
    found = in_a_pipeline(question, plan, [*keys, *again], run)
    rows = [key if isinstance(key, tuple) else (key,) for key in keys]
    listed = pa.table(
        [pa.array(c, SCHEMA.field(n).type) for n, c in zip(columns, zip(*rows, strict=True), strict=True)],
        names=columns,
    )
    expected = on_one_machine(plan, listed)
    assert sorted(map(repr, found)) == sorted(map(repr, expected)) and len(found) == len(keys)


def statistics_of(brought: list[Any], run: Any, groups: int = 1) -> list[dict[str, Any]]:
    question = asked(named("places", PLACES), groups=groups, beyond="sample")
    return in_a_pipeline(question, question.plan(epsilon=1), brought, run)


@pytest.mark.long
def test_keys_that_count_twice_would_be_found(run, monkeypatch, fixed_salt):
    once = statistics_of(["a", "b"], run)
    assert statistics_of(["a", "b", "a"], run) == once
    brought = Stages._brought
    monkeypatch.setattr(Stages, "_brought", lambda *given: brought(*given).replace("DISTINCT", ""))
    assert statistics_of(["a", "b", "a"], run) != once


@pytest.mark.long
def test_rows_of_other_groups_that_take_their_place_would_be_found(run, monkeypatch, fixed_salt):
    expected = statistics_of(["a", "b"], run)
    pairs = Stages._sql_of

    def of_all_groups(self: Stages, rows: int | None) -> Any:
        written = pairs(self, rows)
        written.query = replace(written.query, public_keys=None)
        return written

    # As if only the last stage knew the keys.
    partials = Stages._partials

    def planted(self: Stages, *given: Any) -> Any:
        monkeypatch.setattr(Stages, "_sql_of", of_all_groups)
        try:
            yield from partials(self, *given)
        finally:
            monkeypatch.setattr(Stages, "_sql_of", pairs)

    monkeypatch.setattr(Stages, "_partials", planted)
    assert statistics_of(["a", "b"], run) != expected


# Releases.
class Place(NamedTuple):
    place: str


def as_elements(keys: list[Any]) -> list[Any]:
    """Return keys in all forms."""
    return [
        *keys,
        *({"place": key, "more": 7} for key in keys),
        *((key,) for key in keys),
        *map(Place, keys),
        *(beam.Row(place=key) for key in keys),
        pa.table({"place": keys}),
        pa.record_batch({"place": pa.array(keys, pa.large_string())}),
    ]


@near
def test_groups_are_those_that_were_brought(run):
    keys = ["a", "é", "nowhere", None]
    release = asked(named("places", PLACES), groups=7).release(**BIG)
    rows = visits()

    def build(pipeline: Any) -> Any:
        brought = {
            "visits": pipeline | "Rows" >> beam.Create([rows]),
            "places": pipeline | "Keys" >> beam.Create(as_elements(keys)),
        }
        return brought | release

    found = {row["place"]: row for row in run(build)}
    assert set(found) == set(keys)
    assert found["nowhere"]["n"] == found["nowhere"]["u"] == 0
    for key in ("a", None):
        units = {
            i for i, p in zip(rows["id"].to_pylist(), rows["place"].to_pylist(), strict=True) if p == key
        }
        assert found[key]["u"] == len(units)


@pytest.mark.long
@pytest.mark.flakiness(k=25, because="forty numbers with noise of scale 2 or more are not all 0")
def test_groups_without_rows_have_noise(run):
    release = asked(named("places", PLACES), groups=2).release(epsilon=1)

    def build(pipeline: Any) -> Any:
        keys = pipeline | "Keys" >> beam.Create([f"p{i}" for i in range(40)])
        return {"visits": pipeline | "Rows" >> beam.Create([visits()]), "places": keys} | release

    found = run(build)
    assert len(found) == 40 and any(row["n"] for row in found)


@pytest.mark.long
@near
def test_no_keys_are_no_groups(run):
    release = asked(named("places", PLACES)).release(**BIG)

    def build(pipeline: Any) -> Any:
        keys = pipeline | "Keys" >> beam.Create([])
        return {"visits": pipeline | "Rows" >> beam.Create([visits()]), "places": keys} | release

    assert run(build) == []


@pytest.mark.long
@near
@pytest.mark.parametrize("table", ["joined", "per unit"])
def test_tables_that_are_made_of_others_have_them_too(run, table):
    """Where public tables come as collections as well, and where rows meet by unit first."""
    regions = sf.public(named("regions", pa.schema({"place": pa.string(), "region": pa.string()})))
    rows = sf.scan(named("visits", SCHEMA), privacy_unit="id").join(regions, on="place")
    made = rows if table == "joined" else rows.per_unit("region", n="count(*)")
    keys = named("wanted", pa.schema({"region": pa.string()}))
    question = (
        made.group_by("region", keys=keys).bound(groups=3, rows=1000).agg(u=sf.count_units(), n=sf.count())
    )
    release = question.release(**BIG)
    known = [{"place": place, "region": region} for place, region in ("aN", "bN", "cS", "dW")]

    def build(pipeline: Any) -> Any:
        brought = {"visits": [visits()], "regions": known, "wanted": ["N", "E", "S", "N"]}
        return {n: pipeline | n >> beam.Create(v) for n, v in brought.items()} | release

    found = {row["region"]: row["u"] for row in run(build)}
    pairs = list(zip(visits()["id"].to_pylist(), visits()["place"].to_pylist(), strict=True))
    units = {r: len({i for i, p in pairs if p in places}) for r, places in (("N", ["a", "b"]), ("S", ["c"]))}
    assert found == {"N": units["N"], "S": units["S"], "E": 0}


UNFIT: dict[str, tuple[Any, str]] = {
    "a number": (5, "hold 5, which does not fit place"),
    "text that is none": (b"\xff", "hold a bytes, which does not fit place"),
    "two values": (("a", "b"), "each must give one value for each of"),
    "another column": ({"town": "a"}, "each must give one value for each of"),
    "a batch without it": (pa.table({"town": ["a"]}), r"have no column 'place', but \['town'\]"),
    "a batch of numbers": (pa.table({"place": [None, 7]}), "hold 7, which does not fit place"),
}  # fmt: skip


@pytest.mark.parametrize("what", some(UNFIT, 10))
def test_keys_that_do_not_fit_are_named(what, run):
    element, says = UNFIT[what]
    keys = BroughtKeys("places", PLACES)
    from sfumato.engines.beam.beam_elements import ReadKeys

    with pytest.raises(Exception, match=says):
        run(lambda pipeline: pipeline | beam.Create(["a", element]) | beam.ParDo(ReadKeys(keys)))


@pytest.mark.long
@near
def test_whole_numbers_that_the_column_cannot_hold_are_keys_of_no_group(run):
    keys = named("numbers", pa.schema({"x": pa.int64()}))
    table = sf.scan(named("visits", SCHEMA), privacy_unit="id").group_by("x", keys=keys)
    release = table.bound(groups=9).agg(u=sf.count_units()).release(**BIG)

    def build(pipeline: Any) -> Any:
        brought = pipeline | "Keys" >> beam.Create([3, 2**40, 99])
        return {"visits": pipeline | "Rows" >> beam.Create([visits()]), "numbers": brought} | release

    assert sorted(row["x"] for row in run(build)) == [3, 99]


def test_too_many_for_every_worker_are_refused(monkeypatch):
    monkeypatch.setattr("sfumato.engines.duckdb.stages.KEYS_BYTES", 10)
    question = asked(named("places", PLACES))
    stages = question.table._engine.stages(question.plan(epsilon=1).exact, 2)  # type: ignore[attr-defined]
    with pytest.raises(QueryError, match="public keys of 'places' are larger than 0 MB"):
        stages.with_keys([b"0123456789a"])


def test_plans_of_keys_that_are_brought_are_not_those_of_a_list():
    engine = BeamEngine(named("visits", SCHEMA))
    table = Table(engine, "id").group_by("place", keys=named("places", PLACES)).bound(groups=3)
    listed = Table(engine, "id").group_by("place", keys=["a"]).bound(groups=3)
    found = [
        one.agg(u=sf.count_units()).plan(epsilon=1, noise="laplace").multiplier
        for one in (table, listed, table)
    ]
    assert found == [Fraction(3), Fraction(1), Fraction(3)]
