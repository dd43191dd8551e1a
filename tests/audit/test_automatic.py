"""Releases that find bounds, audited from outside: noisy looks, bounds and answers together."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import inf, nan

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import audit
from sfumato.guidance import inferred_bounds, preliminary_queries
from sfumato.guidance.inferred_bounds import Histogram, ValueHistograms
from tests.support.changed_plans import without_certificate

from .once import once

pytestmark = pytest.mark.long

SCHEMA = pa.schema([("unit", pa.string()), ("g", pa.int64()), ("x", pa.float64())])
LOOKED = inferred_bounds.ValueHistograms.draw


def table(more=(), each=6):
    """Some units with values on both sides, and perhaps one more with such values."""
    rows = [(f"u{i}", 0, [1.5, -1.5, 3.0][i % 3]) for i in range(3 * each)]
    rows += [("more", g, x) for g, x in more]
    units, groups, values = zip(*rows, strict=True)
    return pa.table([units, groups, values], schema=SCHEMA)


def mechanism(ask, **options):
    """Return a mechanism whose outputs are what is released, with all that was looked at on the way."""
    known = {}

    def draw(rows, size):
        if id(rows) not in known:
            scanned = sf.scan(rows, privacy_unit="unit")
            once(scanned._engine)
            known[id(rows)] = rows, ask(scanned)
        return [released(known[id(rows)][1], options) for _ in range(size)]

    return draw


def released(question, options):
    seen = []

    def remembered(one, edges, epsilon):
        found = look(one, edges, epsilon)
        seen.append(found.counts)
        return found

    look = ValueHistograms.draw
    ValueHistograms.draw = remembered
    try:
        release = question.release(**options)
    finally:
        ValueHistograms.draw = look
    numbers = {f"look {i} bin {j}": float(n) for i, counts in enumerate(seen) for j, n in enumerate(counts)}
    found = {f"{f.what} {end}": v for f in release.found for end, v in zip("lu", f.value, strict=True)}
    return numbers | found | {k: float(v) for k, v in release.to_arrow().to_pylist()[0].items()}


ROWS: list[pa.Table] = []  # of the draw that is made
KNOWN = {"lower": "auto", "upper": "auto", "magnitudes": (1, 4)}


def means(rows):
    return rows.bound(rows=1).agg(n=sf.count(), m=sf.mean("x", **KNOWN))


def totals(rows):
    return rows.group_by("g", keys=[0]).bound(groups=1).agg(s=sf.sum("x", **KNOWN))


STRANGERS = {
    "one value": [(0, 1.5)],
    "one far out": [(0, 1e308)],
    "one below": [(0, -inf)],
    "none": [(0, nan)],
    "many": [(0, 3.0)] * 50,
    "in all bins": [(g, x) for g in range(4) for x in (-1e9, -3.0, -1.5, 0.0, 1.5, 3.0, 1e9)],
}


@pytest.mark.flakiness(k=13, because="alpha of the audits")
@pytest.mark.parametrize(
    ("ask", "name"),
    [
        (means, "one far out"),
        (means, "many"),
        (means, "none"),
        (totals, "in all bins"),
        (totals, "one below"),
    ],
)
def test_releases_keep_their_claim(ask, name):
    report = audit(
        mechanism(ask, epsilon=1, auto_share="1/2"),
        epsilon=1,
        pairs=[(table(STRANGERS[name]), table())],
        max_samples=30,
        alpha=1e-15,
    )
    assert not report.violated, report


def cheap_looks(patch):
    patch.setattr(ValueHistograms, "draw", lambda one, edges, epsilon: LOOKED(one, edges, 16 * epsilon))


def looks_without_noise(patch):
    def rounded(one, edges, epsilon):
        found = LOOKED(one, edges, 10**6 * epsilon)
        return Histogram(edges, np.round(found.counts), 1.0)

    patch.setattr(ValueHistograms, "draw", rounded)


def rows_in_place_of_units(patch):
    """Each row has a vote of its own, as if it were a unit."""
    known = {}

    def split(one, edges, epsilon):
        query, rows = replace(one.query, unit="row"), ROWS[0]
        if id(rows) not in known:
            numbered = rows.append_column("row", pa.array(range(rows.num_rows)))
            known[id(rows)] = rows, once(sf.scan(numbered, privacy_unit="row")._engine)
        return LOOKED(replace(one, engine=known[id(rows)][1], query=query), edges, epsilon)

    patch.setattr(ValueHistograms, "draw", split)


def the_rest_is_more(patch):
    right = preliminary_queries.make_plan
    patch.setattr(
        preliminary_queries, "make_plan", lambda query, epsilon, **o: right(query, epsilon=16 * epsilon, **o)
    )


def bounds_of_the_rows(patch):
    """What users do by hand: the smallest and the largest value."""

    def read(look, edges, noise, fixed):
        look(edges, Fraction(1, 4))
        x = [v for v in ROWS[0]["x"].to_pylist() if abs(v) < 1e6]
        return min(x), max(x)

    patch.setattr(preliminary_queries, "find_bounds", read)


DEFECTS = {
    "looks at sixteen times their price": (cheap_looks, "one value"),
    "looks without noise": (looks_without_noise, "one value"),
    "each row looked at as a unit": (rows_in_place_of_units, "many"),
    "the rest at sixteen times what is left": (the_rest_is_more, "one value"),
    "bounds read from the rows": (bounds_of_the_rows, "one above"),
}
STRANGERS_FOUND = STRANGERS | {"one above": [(0, 3.9)]}


@pytest.mark.flakiness(
    k=13,
    because="the bet's wealth grows steadily, and is at its goal after some hundred of the draws that it has",
)
@pytest.mark.parametrize("name", DEFECTS)
def test_planted_defects_are_found(name, monkeypatch):
    plant, stranger = DEFECTS[name]
    plant(monkeypatch)
    drawing = mechanism(means, epsilon=1, auto_share="1/2")

    def draw(rows, size):
        ROWS[:] = [rows]
        return drawing(rows, size)

    pair = table(STRANGERS_FOUND[stranger]), table()
    with without_certificate():  # which refuses some of them
        assert audit(draw, epsilon=1, pairs=[pair], max_samples=4_000, seconds=600).violated
