"""Frames of RANGE with a distance: no value raises, and each row has those that are near."""

import math
import random
from collections import Counter
from fractions import Fraction
from math import inf, nan, nextafter

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.query.tables.shaped_tables import LARGEST

from .made_rows import rows_of
from .tiers import some

SPAN = "INTERVAL '120000 months 3660000 days'"
HOURS = "INTERVAL 87840000 HOURS"
TIMES = [
    "infinity", "-infinity", "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775806", "0001-01-01 00:00:00",
    "9999-12-31 23:59:59.999999", "10000-01-01 00:00:00", "2024-02-29 00:00:00", "2024-03-31 02:30:00", None,
]  # fmt: skip
VALUES = {
    "BIGINT": (["-9223372036854775808", "9223372036854775807", "0", None], "1", str(LARGEST)),
    "UBIGINT": (["0", "18446744073709551615", None], "1", "0.5"),
    "FLOAT": (["nan", "inf", "-inf", "-0.0", "0.0", "3.4028235e38", "-3.4028235e38", None], "0.1", str(LARGEST)),
    "DOUBLE": (["nan", "inf", "-inf", "-0.0", "0.0", "1.7976931348623157e308", "5e-324", None], "1e-40", "1e18"),
    "DECIMAL(18,18)": (["0.999999999999999999", "-0.999999999999999999", None], "1e-30", str(LARGEST)),
    "DECIMAL(37,0)": (["9" * 37, "-" + "9" * 37, "0", None], "0.5", str(LARGEST)),
    "DATE": (["infinity", "-infinity", "5881580-07-10", "5877642-06-25 (BC)", "0001-01-01", "9999-12-31", "10000-01-01", "2024-02-29", None], "INTERVAL 1 DAY", SPAN),
    "TIMESTAMP": (TIMES, "INTERVAL 1 MICROSECOND", SPAN),
    "TIMESTAMPTZ": (TIMES, "INTERVAL 1 HOUR", HOURS),
}  # fmt: skip
ASKED = (
    "SELECT id, k, count(*) OVER (PARTITION BY id ORDER BY x RANGE BETWEEN {0} PRECEDING AND {1} FOLLOWING) AS a, "
    "sum(k * 0.1::DOUBLE) OVER (PARTITION BY id ORDER BY x DESC NULLS FIRST RANGE BETWEEN {1} PRECEDING AND {1} FOLLOWING) AS b, "
    "last_value(k) OVER (PARTITION BY id ORDER BY x RANGE BETWEEN {1} FOLLOWING AND UNBOUNDED FOLLOWING) AS c "
    "FROM (SELECT id, k, TRY_CAST(t AS {2}) AS x FROM self)"
)


def rows(values: list[str | None], units: list[int]) -> pa.Table:
    """Return a table in which each unit has all values."""
    made = [(unit, k, value) for unit in units for k, value in enumerate(values)]
    columns = list(zip(*made, strict=True)) or [(), (), ()]
    types = [("id", pa.int64()), ("k", pa.int64()), ("t", pa.string())]
    return pa.table([pa.array(c, t) for c, (_, t) in zip(columns, types, strict=True)], [n for n, _ in types])


@pytest.mark.long
@pytest.mark.parametrize("kind", some(VALUES, 5))
def test_no_value_raises_and_units_do_not_see_each_other(kind, monkeypatch):
    monkeypatch.setenv("TZ", "Pacific/Apia")
    values, near, far = VALUES[kind]
    found = []
    for units in ([1, 2], [1], [2]):
        asked = sf.scan(rows(values, units), privacy_unit="id").sql(ASKED.format(near, far, kind))
        found.append(rows_of(asked))
    assert sum(found[0].values()) == 2 * len(values)
    assert found[0] == found[1] + found[2]


def test_times_beyond_the_years_of_all_else_are_near_null():
    asked = sf.scan(rows(["10000-01-01", None, "9999-12-31", "infinity"], [1]), privacy_unit="id")
    text = (
        "SELECT id, k, count(*) OVER (PARTITION BY id ORDER BY x RANGE BETWEEN INTERVAL 5 DAYS PRECEDING AND "
        "CURRENT ROW) AS a FROM (SELECT id, k, TRY_CAST(t AS DATE) AS x FROM self)"
    )
    assert sorted(rows_of(asked.sql(text))) == [(1, 0, 2), (1, 1, 2), (1, 2, 1), (1, 3, 1)]


ENDS = ["UNBOUNDED PRECEDING", "{} PRECEDING", "CURRENT ROW", "{} FOLLOWING", "UNBOUNDED FOLLOWING"]
FRAMES = [(a, b) for i, a in enumerate(ENDS) for b in ENDS[i:] if a != ENDS[4] and b != ENDS[0] and a + b != ENDS[2] * 2]  # fmt: skip
TIES = ["0", "2", "0", "-3", "2.5", None, "0", "1", "1", "7", None]
NEAR = ["0", "0.01", "0.5", "1", "2", "2.5"]


def reached(end: str, distance: Fraction) -> Fraction | None:
    """Return where a frame ends, from a row, in the direction of the order; None of one without an end."""
    sign = -1 if "PRECEDING" in end else 1
    return None if "UNBOUNDED" in end else Fraction(0) if "CURRENT" in end else sign * distance


def expected_counts(values, frame, far, down):
    found = Counter()
    for k, one in enumerate(values):
        low, high = (reached(end, Fraction(d)) for end, d in zip(frame, far, strict=True))
        counted = 0
        for other in values:
            if one is None or other is None:  # NULLs are peers, and last
                beside = (other is None) - (one is None)
                counted += beside == 0 or (beside < 0 and low is None) or (beside > 0 and high is None)
                continue
            gap = (Fraction(other) - Fraction(one)) * (-1 if down else 1)
            counted += (low is None or low <= gap) and (high is None or gap <= high)
        found[k, counted] += 1
    return found


@pytest.mark.long
@pytest.mark.parametrize("kind", ["BIGINT", "DECIMAL(9,2)"])
@pytest.mark.parametrize("frame", some(FRAMES, 4), ids=" AND ".join)
def test_frames_have_the_rows_that_are_meant_also_where_many_are_equal(kind, frame):
    values = TIES if kind != "BIGINT" else [value and str(int(float(value))) for value in TIES]
    chance = random.Random(f"{kind}{frame}")
    for _ in range(4):
        far = [chance.choice(NEAR), chance.choice(NEAR)]
        down = chance.random() < 0.5
        ends = " AND ".join(end.format(d) for end, d in zip(frame, far, strict=True))
        text = (
            f"SELECT id, k, count(*) OVER (PARTITION BY id ORDER BY x {'DESC' if down else 'ASC'} NULLS LAST RANGE "
            f"BETWEEN {ends}) AS a FROM (SELECT id, k, TRY_CAST(t AS {kind}) AS x FROM self)"
        )
        units = chance.sample(range(9), 3)
        found = rows_of(sf.scan(rows(values, units), privacy_unit="id").sql(text))
        counts = expected_counts(values, frame, far, down)
        assert found == Counter({(unit, *row): n for unit in units for row, n in counts.items()}), (
            ends,
            down,
        )


# Keys that swallow a distance, their neighbours, and those that no distance leads to or from.
WILD = [0.0, -0.0, 1.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 5e-324, 1e16, 1e16 + 2, 1e300, -1e300]
WILD += [nextafter(1e300, inf), 1.7976931348623157e308, inf, -inf, nan]
WIDTHS = ["0", "1", "2", "0.1", "1e-60", "3e16", "1e18"]


def ahead(here: float, there: float) -> Fraction | float:
    """Return how far a value is behind another one in an ascending order; NaN is the largest."""
    if here == there or (here != here and there != there):
        return Fraction(0)
    if math.isfinite(here) and math.isfinite(there):
        return Fraction(there) - Fraction(here)
    return inf if (there != there, there) > (here != here, here) else -inf


@pytest.mark.long
@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("frame", some(FRAMES, 5), ids=" AND ".join)
def test_distances_of_floats_are_exact_and_leave_equal_keys_together(kind, frame):
    real, chance = np.float64 if kind == "DOUBLE" else np.float32, random.Random(f"{kind}{frame}")
    with np.errstate(over="ignore"):
        pool = [real(value).item() for value in WILD]
    for down in (False, True):
        values, far = chance.choices(pool, k=60), [chance.choice(WIDTHS), chance.choice(WIDTHS)]
        ends = " AND ".join(end.format(d) for end, d in zip(frame, far, strict=True))
        text = (
            f"SELECT id, k, count(*) OVER (PARTITION BY id ORDER BY x {'DESC' if down else 'ASC'} RANGE "
            f"BETWEEN {ends}) AS a FROM self"
        )
        given = pa.table(
            {"id": [7] * 60, "k": list(range(60)), "x": pa.array(values, pa.from_numpy_dtype(real))}
        )
        widths = [Fraction(real(float(d)).item() or float(d)) for d in far]
        low, high = (reached(end, d) for end, d in zip(frame, widths, strict=True))
        expected = Counter()
        for k, here in enumerate(values):
            gaps = [ahead(here, there) * (-1 if down else 1) for there in values]
            counted = sum((low is None or low <= gap) and (high is None or gap <= high) for gap in gaps)
            expected[7, k, counted] += 1
        assert rows_of(sf.scan(given, privacy_unit="id").sql(text)) == expected, (ends, down)
