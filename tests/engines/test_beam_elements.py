"""Elements of any class become rows on Beam, and none of them fails a pipeline or its neighbours."""

from __future__ import annotations

import asyncio
import pickle
from typing import NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms import window

import sfumato as sf
from sfumato.beam import ToRows, named
from sfumato.engines.beam.beam_elements import ReadElements
from sfumato.engines.beam.beam_rows import Columns
from sfumato.errors import EngineError, ParameterError, QueryError
from sfumato.query import sizes

# Epsilon of 10^5: noise that rounds away.
flakiness = pytest.mark.flakiness(k=100, because="noise of scale 0.002 or less rounds away")

SCHEMA = pa.schema([("user", pa.string()), ("movie", pa.string()), ("stars", pa.float64())])
KEYS = [f"m{i}" for i in range(4)]


class Rating(NamedTuple):
    by: object
    of: tuple[str, int]
    stars: float


RATINGS = [Rating(f"u{i % 60}", ("m", i % 4), i % 5 + 1.0) for i in range(1200)]


def row_of(rating: Rating) -> dict[str, object]:
    return {"user": rating.by, "movie": "".join(map(str, rating.of)), "stars": rating.stars}


def by_movie(schema=SCHEMA, **aggregates):
    table = sf.scan(schema, privacy_unit="user").group_by("movie", keys=KEYS).bound(groups=4, rows=60)
    return table.agg(**(aggregates or {"n": sf.count()}))


@pytest.fixture
def counted(run):
    """Elements, function of one -> the number of rows of each movie."""

    def found(elements, function) -> dict[str, int]:
        release = by_movie().release(epsilon=10**5)
        rows = run(lambda p: p | beam.Create(elements, reshuffle=False) | ToRows(SCHEMA, function) | release)
        return {row["movie"]: row["n"] for row in rows}

    return found


@flakiness
def test_elements_of_a_class_are_the_rows_that_the_function_says(run):
    asked = {
        "n": sf.count(),
        "people": sf.count_units(),
        "mean": sf.mean("stars", lower=0, upper=10),
        "different": sf.count_distinct("stars", values=5),
    }
    release = by_movie(**asked).release(epsilon=10**5)
    found = run(lambda p: p | beam.Create(RATINGS, reshuffle=False) | ToRows(SCHEMA, row_of) | release)
    rows = pa.Table.from_pylist([*map(row_of, RATINGS)], SCHEMA)
    expected = by_movie(rows, **asked).release(epsilon=10**5).to_arrow().to_pylist()
    for here, there in zip(sorted(found, key=lambda row: row["movie"]), expected, strict=True):
        assert here == {**there, "mean": pytest.approx(there["mean"], abs=0.01)}


@pytest.mark.long
@flakiness
def test_a_function_gives_a_row_or_several_or_none(counted):
    def chosen(rating):
        if rating.stars == 1:
            return None
        if rating.stars == 2:
            return [row_of(rating)] * 2
        if rating.stars == 3:
            return (row_of(rating) for _ in range(3))
        return [] if rating.stars == 4 else row_of(rating)

    # Of 300 ratings of a movie 60 have each number of stars.
    assert counted(RATINGS, chosen) == dict.fromkeys(KEYS, 60 * (0 + 2 + 3 + 0 + 1))


@pytest.mark.parametrize(
    "error", [ZeroDivisionError, SystemExit, asyncio.CancelledError, GeneratorExit, BaseException]
)
def test_an_element_on_which_the_function_leaves_has_no_rows(error):
    """argparse leaves by SystemExit, a panic of Rust is a BaseException of its own."""

    def leaves(rating):
        if rating.stars == 3:
            raise error(rating)
        yield row_of(rating)
        if rating.stars == 4:
            raise error(rating)

    assert stars(leaves) == {1: 240, 2: 240, 5: 240}


def stars(function) -> dict[float, int]:
    """Return how many rows of a bundle have each number of stars."""
    fn = ReadElements(Columns(SCHEMA), function)
    fn.start_bundle()
    given = [value for rating in RATINGS for value in fn.process(rating)]
    assert len(given) >= len(RATINGS) // (4 * sizes.READ_ROWS), "they come while the bundle does"
    found = [s for v in [*given, *fn.finish_bundle()] for s in v.value.column("stars").to_pylist()]
    return {one: found.count(one) for one in sorted(set(found))}


class Leaves:
    """Of which nothing can be asked."""

    def __getattr__(self, name):
        raise SystemExit(3)

    __float__ = __int__ = __index__ = __len__ = __iter__ = __getitem__ = __reduce__ = __getattr__


@flakiness
@pytest.mark.parametrize("options", [(), ("--runtime_type_check",)], ids=["", "types"])
def test_values_that_will_not_be_encoded_are_null_and_fail_nothing(run, options):
    """Beam encodes some elements to estimate sizes: an error would quote them."""

    def awkward(rating):
        row = row_of(rating)
        return [{**row, "user": "\ud800"}, {**row, "stars": Leaves()}, Leaves(), row, 5, ("a",)]

    release = by_movie(rows=sf.count(), people=sf.count_units(), rated=sf.count("stars")).release(
        epsilon=10**5
    )
    found = run(
        lambda p: (
            p
            | beam.Create(RATINGS[:40], reshuffle=False)
            | ToRows(SCHEMA, awkward)
            | beam.Reshuffle()
            | release
        ),
        [*options],
    )
    # Ten units in each of four movies; the row without a unit is dropped, that without stars is not.
    assert {tuple(row.values())[1:] for row in found} == {(20, 10, 10)} and len(found) == 4


@flakiness
def test_elements_of_two_collections_are_put_together(run):
    release = by_movie(people=sf.count_units()).release(epsilon=10**5)

    def build(pipeline):
        may = pipeline | "may" >> beam.Create(RATINGS[:40]) | "rows" >> ToRows(SCHEMA, row_of)
        june = pipeline | "june" >> beam.Create([r[0] for r in RATINGS[20:60]])
        june |= ToRows(SCHEMA, lambda user: {"user": user, "movie": "m0"})
        return (may, june) | beam.Flatten() | release

    assert {row["movie"]: row["people"] for row in run(build)} == {"m0": 45, "m1": 10, "m2": 10, "m3": 10}


# What is refused


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ToRows({"user": "string"}, len), ParameterError, "columns is 'dict', .* an Arrow schema"),
        (lambda: ToRows(SCHEMA, "user"), ParameterError, "function is 'user', .* a function"),
        (lambda: ToRows(pa.schema([("a", pa.opaque(pa.int8(), "a", "b"))]), len), EngineError, "declare it"),
        (lambda: beam.Pipeline() | ToRows(SCHEMA, len), QueryError, "one collection"),
    ],
)
def test_what_is_none_is_refused_when_it_is_made(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_windows_are_refused():
    rows = beam.Pipeline(runner="FnApiRunner") | beam.Create([1])
    windows = rows | beam.WindowInto(window.FixedWindows(60))
    endless = rows | "again" >> beam.Map(lambda row: row)
    endless.is_bounded = False
    for place, collection in enumerate((windows, endless)):
        with pytest.raises(QueryError, match="GlobalWindows"):
            collection | f"rows {place}" >> ToRows(SCHEMA, len)


@pytest.mark.parametrize("by", ["elements", "rows", "elements of a union"])
def test_public_keys_are_not_those_of_private_elements(by):
    places = named("places", pa.schema([("movie", pa.string())]))
    asked = sf.scan(named("ratings", SCHEMA), privacy_unit="user").group_by("movie", keys=places)
    pipeline = beam.Pipeline()
    elements = pipeline | beam.Create(RATINGS)
    others = pipeline | "Others" >> beam.Create(RATINGS)
    rows = elements | ToRows(SCHEMA, row_of)
    both = (rows, others | "Other rows" >> ToRows(SCHEMA, row_of)) | beam.Flatten()
    keys = {"elements": elements, "rows": rows, "elements of a union": others}[by]
    release = asked.bound(groups=1, rows=1).agg(n=sf.count()).release(epsilon=1)
    with pytest.raises(QueryError, match="brought by the collection of private rows"):
        {"ratings": both, "places": keys} | release
    known = pipeline | "Keys" >> beam.Create(KEYS)
    {"ratings": both, "places": known} | "again" >> release  # was not used up


def test_a_transform_may_be_applied_again_and_sent():
    """Nothing is paid for it."""
    rows = ToRows(SCHEMA, len)
    elements = beam.Pipeline() | beam.Create(["a"])
    for place, one in enumerate((rows, rows, pickle.loads(pickle.dumps(rows)))):
        elements | str(place) >> one
