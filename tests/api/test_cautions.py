"""Risky choices are told, and no others; nothing that is said depends on rows."""

from __future__ import annotations

from fractions import Fraction as F

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.plan.explanation import HIGH_DELTA, HIGH_EPSILON

TABLE = pa.table({"id": [1, 2], "price": [0.1, 0.2], "city": ["a", "b"]})


def noted(key, epsilon, delta):
    table = sf.scan(TABLE, privacy_unit="id")
    question = table.group_by(key).bound(groups=1, rows=1) if key else table.bound(rows=1)
    notes = question.agg(n=sf.count()).plan(epsilon=epsilon, delta=delta).explain().to_dict()["notes"]
    return [
        note.split(":")[0] for note in notes if "protects" in note or "is large" in note or "floats" in note
    ]


@pytest.mark.parametrize(
    ("key", "epsilon", "delta", "said"),
    [
        ("city", 1, "1e-6", []),
        ("city", HIGH_EPSILON, HIGH_DELTA, []),
        ("city", HIGH_EPSILON + F(1, 10**9), "1e-6", ["epsilon 20 hardly protects"]),
        ("city", 1, HIGH_DELTA + F(1, 10**9), ["delta 0.000100001 is large"]),
        ("price", 1, "1e-6", ["price holds floats"]),
        ("price", 30, "0.01", ["epsilon 30 hardly protects", "delta 0.01 is large", "price holds floats"]),
        (None, 30, 0, ["epsilon 30 hardly protects"]),
    ],
)
def test_risky_choices_are_told_and_no_others(key, epsilon, delta, said):
    assert noted(key, epsilon, delta) == said


def test_decimals_and_rounded_floats_are_keys_like_others():
    cents = pa.table({"id": [1], "price": pa.array([1], pa.decimal128(9, 2)), "x": [0.5]})
    table = sf.scan(cents, privacy_unit="id").with_columns(bin="CAST(floor(x) AS BIGINT)")
    for key in ("price", "bin"):
        question = table.group_by(key).bound(groups=1, rows=1).agg(n=sf.count())
        assert not any("floats" in note for note in question.plan(epsilon=1, delta="1e-6").notes)


def test_the_largest_groups_too():
    question = sf.scan(TABLE, privacy_unit="id").top("price", k=1, keys=[0.1, 0.2])
    explained = question.release(epsilon=30).explain()
    assert len(explained.to_dict()["notes"]) == 2 and "hardly protects" in str(explained)
