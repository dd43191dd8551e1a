"""Public keys that a collection brings: any number of groups, of which each is shown once, and no other."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.beam import Release, named
from sfumato.engines.beam import beam_release as release_module
from sfumato.engines.beam.beam_elements import ReadKeys
from sfumato.engines.beam.beam_release import exact_parts, public_keys
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import QueryError
from sfumato.query.engine_protocol import BroughtKeys

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
@pytest.mark.parametrize(
    ("noise", "beyond"), [("laplace", "scale"), ("gaussian", "sample"), ("k_norm", "scale")]
)
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


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no name": (lambda: asked(PLACES), "both collections need names"),
    "private rows": (lambda: asked(named("visits", PLACES)), "names 'visits', whose rows are private"),
    "another column": (
        lambda: asked(named("places", pa.schema({"town": pa.string()}))),
        r"has the columns \['town'\], but needs \['place'\]",
    ),
    "another type": (
        lambda: asked(named("places", pa.schema({"place": pa.int64()}))),
        "has place as BIGINT, but the column is VARCHAR",
    ),
    "a collection": (
        lambda: asked(beam.Pipeline(runner="FnApiRunner") | beam.Create(["a"])),
        "keys= is a collection, but must give its columns here: keys=sfumato.beam.named",
    ),
}  # fmt: skip


def test_what_is_no_collection_of_public_keys_is_refused():
    for made, says in REFUSED.values():
        with pytest.raises(QueryError, match=says):
            made()


def test_private_rows_under_another_name_are_refused():
    rows = beam.Pipeline(runner="FnApiRunner") | beam.Create([])
    with pytest.raises(QueryError, match="come from the collection of private rows"):
        {"visits": rows, "places": rows} | asked(named("places", PLACES)).release(epsilon=1)
    with pytest.raises(QueryError, match=r"\{'visits': \.\.\., 'places': \.\.\.\} | release"):
        rows | "again" >> asked(named("places", PLACES)).release(epsilon=1)


# Exact statistics, in stages and in a pipeline, are those of one machine that is given a list.
def schema_of(columns: tuple[str, ...]) -> pa.Schema:
    return named("places", pa.schema([SCHEMA.field(name) for name in columns]))


def on_one_machine(plan: Any, keys: pa.Table) -> list[dict[str, Any]]:
    engine = DuckDBEngine.open(visits(), "UTC")
    table = engine.public_keys(plan.query.keys, keys, ())
    exact = replace(plan.exact, public_keys=table)
    return [row for batch in engine.statistics(exact, 1000) for row in batch.to_pylist()]


LISTS: dict[str, tuple[tuple[str, ...], list[Any]]] = {
    "places": (("place",), ["a", "b", None, "z", "", "é"]),
    "far": (("far",), [0.0, float("nan"), 1.5, 7.0]),
    "both": (("place", "far"), [("a", 0.0), ("a", None), ("q", 1.5), ("b", float("nan"))]),
}  # fmt: skip
LIMITS = [(2, "scale"), (2, "sample"), (50, "scale")]


def test_statistics_are_those_of_a_list(run, fixed_salt):
    """Where each key comes twice, as -0.0 for 0.0 too, in one pipeline of all lists and limits."""
    rows, expected, cases = visits(), [], {}
    for (name, (columns, keys)), (groups, beyond) in [
        *zip(LISTS.items(), LIMITS, strict=True),
        (("places", LISTS["places"]), LIMITS[1]),
    ]:
        question = asked(schema_of(columns), *columns, groups=groups, beyond=beyond)
        plan = question.plan(epsilon=1)
        given = [key if isinstance(key, tuple) else (key,) for key in keys]
        listed = pa.table(
            [
                pa.array(c, SCHEMA.field(n).type)
                for n, c in zip(columns, zip(*given, strict=True), strict=True)
            ],
            names=columns,
        )
        case = f"{name} {groups} {beyond}"
        cases[case] = (
            question.table._engine.stages(plan.exact, 3),
            [*keys, *(-0.0 if key == 0.0 else key for key in keys)],
        )
        expected += [(case, repr(row)) for row in on_one_machine(plan, listed)]

    def build(pipeline: Any) -> Any:
        given = pipeline | "Rows" >> beam.Create(
            [rows.slice(start, 100) for start in (0, 100, 200)], reshuffle=False
        )
        found = []
        for case, (stages, keys) in cases.items():
            names = {0: "visits", -1: f"keys of {case}"}

            class Part(beam.PTransform):
                """A name of its own for each case's steps."""

                def expand(self, rows, stages=stages, keys=keys, names=names, case=case):
                    tables = {0: rows, -1: rows.pipeline | f"Keys of {case}" >> beam.Create(keys)}
                    brought = public_keys(tables, stages, names)

                    def merged(shard: int, data: list[bytes], streams: Any = ()) -> list[tuple[str, str]]:
                        known = release_module._with(stages, streams)
                        batches = known.merged(shard, data, 1000)
                        return [(case, repr(row)) for batch in batches for row in batch.to_pylist()]

                    return exact_parts(tables, stages, names, brought) | beam.FlatMapTuple(merged, *brought)

            found.append(given | case >> Part())
        return tuple(found) | beam.Flatten()

    assert sorted(run(build)) == sorted(expected)


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
    """In every form; also where there are none, where tables are joined or are one row of a unit, and none that no row fits."""
    keys = ["a", "é", "nowhere", None]
    regions = sf.public(named("regions", pa.schema({"place": pa.string(), "region": pa.string()})))
    joined = sf.scan(named("visits", SCHEMA), privacy_unit="id").join(regions, on="place")
    wanted = named("wanted", pa.schema({"region": pa.string()}))
    whole = sf.scan(named("visits", SCHEMA), privacy_unit="id").group_by(
        "x", keys=named("numbers", pa.schema({"x": pa.int64()}))
    )
    releases = {
        "places": Release(asked(named("places", PLACES), groups=7), **BIG, shards=2),
        "nothing": Release(asked(named("nothing", PLACES)), **BIG, shards=2),
        "numbers": Release(whole.bound(groups=9).agg(u=sf.count_units()), **BIG, shards=2),
    }
    for name, made in (("joined", joined), ("per unit", joined.per_unit("region", n="count(*)"))):
        question = made.group_by("region", keys=wanted).bound(groups=3, rows=1000).agg(u=sf.count_units())
        releases[name] = Release(question, **BIG, shards=2)
    given = {
        "visits": [visits()], "places": as_elements(keys), "nothing": [], "numbers": [3, 2**40, 99],
        "regions": [{"place": p, "region": r} for p, r in ("aN", "bN", "cS", "dW")], "wanted": ["N", "E", "S", "N"],
    }  # fmt: skip

    def build(pipeline: Any) -> Any:
        brought = {n: pipeline | f"make {n}" >> beam.Create(v) for n, v in given.items()}
        found = []
        for name, release in releases.items():
            rows = {of: brought[of] for of in release._names_of.values()} | name >> release
            found.append(rows | f"tell {name}" >> beam.Map(lambda row, name=name: (name, row)))
        return tuple(found) | beam.Flatten()

    found: dict[str, list[dict[str, Any]]] = {name: [] for name in releases}
    for name, row in run(build):
        found[name].append(row)
    pairs = list(zip(visits()["id"].to_pylist(), visits()["place"].to_pylist(), strict=True))

    def units(*places: Any) -> int:
        return len({i for i, p in pairs if p in places})

    assert {row["place"]: row["u"] for row in found["places"]} == {key: units(key) for key in keys}
    assert found["nothing"] == [] and sorted(row["x"] for row in found["numbers"]) == [3, 99]
    for name in ("joined", "per unit"):
        assert {row["region"]: row["u"] for row in found[name]} == {
            "N": units("a", "b"),
            "S": units("c"),
            "E": 0,
        }


UNFIT: dict[str, tuple[Any, str]] = {
    "a number": (5, "include 5, which does not fit place"),
    "text that is none": (b"\xff", "include a bytes, which does not fit place"),
    "two values": (("a", "b"), "each must give one value for each of"),
    "a batch of numbers": (pa.table({"place": [None, 7]}), "include 7, which does not fit place"),
}  # fmt: skip


def test_keys_that_do_not_fit_are_named():
    for element, says in UNFIT.values():
        fn = ReadKeys(BroughtKeys("places", PLACES))
        fn.start_bundle()
        with pytest.raises(QueryError, match=says):
            [*fn.process("a"), *fn.process(element), *fn.finish_bundle()]
