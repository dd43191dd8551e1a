"""Elements of any class become rows on Beam, and none of them fails a pipeline or its neighbours."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.beam import ToRows, named
from sfumato.engines.beam.beam_elements import ReadElements
from sfumato.engines.beam.beam_rows import Columns
from sfumato.errors import QueryError
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


THREADS = ["--runner=FnApiRunner"]


@pytest.mark.long
@flakiness
def test_elements_of_a_class_are_the_rows_that_the_function_says(run):
    """A row or several or none, of two collections. Beam encodes some elements to estimate sizes: an error would quote them."""

    def chosen(rating):
        row = row_of(rating)
        if rating.stars == 1:
            return None
        if rating.stars == 2:
            return [row] * 2
        if rating.stars == 3:
            return (row for _ in range(3))
        return [{**row, "user": "\ud800"}, {**row, "stars": Leaves()}, Leaves(), row, 5, ("a",)]

    release = by_movie(n=sf.count(), rated=sf.count("stars"), people=sf.count_units()).release(epsilon=10**5)

    def build(pipeline):
        may = (
            pipeline | "may" >> beam.Create(RATINGS[:600], reshuffle=False) | "rows" >> ToRows(SCHEMA, chosen)
        )
        june = pipeline | "june" >> beam.Create([r[0] for r in RATINGS[20:60]])
        june |= ToRows(SCHEMA, lambda user: {"user": user, "movie": "m0"})
        return (may, june) | beam.Flatten() | beam.Reshuffle() | release

    found = {row["movie"]: (row["n"], row["rated"], row["people"]) for row in run(build, [*THREADS])}
    # Of 150 ratings of a movie 30 have each number of stars; of those with four or five, each a row without stars too.
    counts = (30 * (0 + 2 + 3) + 60 * 2, 30 * (0 + 2 + 3) + 60, 12)
    assert found == {"m0": (counts[0] + 40, counts[1], 12 + 40 - 8), **dict.fromkeys(KEYS[1:], counts)}


class Leaves:
    """Of which nothing can be asked."""

    def __getattr__(self, name):
        raise SystemExit(3)

    __float__ = __int__ = __index__ = __len__ = __iter__ = __getitem__ = __reduce__ = __getattr__


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


# What is refused


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
    with pytest.raises(QueryError, match="come from the collection of private rows"):
        {"ratings": both, "places": keys} | release
    known = pipeline | "Keys" >> beam.Create(KEYS)
    {"ratings": both, "places": known} | "again" >> release  # was not used up
