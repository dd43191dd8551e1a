"""What an explanation says of a unit's part, and numbers that are many of a kind in one line."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from rich.console import Console

import sfumato as sf
from sfumato.cli.table_printer import print_explanation

TABLE = pa.table(
    {
        "id": [1, 1, 2],
        "town": ["a", "b", "a"],
        "x": [1.0, 2.0, None],
        "w": [1.0, 2.0, 3.0],
        "v": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float64())),
    }
)
SCAN = sf.scan(TABLE, privacy_unit="id")
ROWS = SCAN.bound(rows=3)
WEIGHTS = {"weight": "w", "max_weight": 5}


def told(table, **asked):
    return table.agg(**asked).plan(epsilon=1).explain()


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"n": sf.count_units()}, "Let each id count once."),
        ({"n": sf.count_distinct("town", values=2)}, "Let each id count with at most 2 values of town."),
        (
            {"n": sf.count_units(), "s": sf.sum("x", lower=0, upper=9)},
            "Let each id count once, and with its sum of x within bounds.",
        ),
        (
            {"n": sf.vector_sum("v", length=2, bound=1)},
            "Let each id count with its sum of vectors of v within the bound.",
        ),
        (
            {"n": sf.histogram("x", [0, 1, 2], per="unit")},
            "Let each id count divided over its rows by bins of x.",
        ),
        (
            {"n": sf.histogram("x", [0, 1, 2], per="unit", **WEIGHTS)},
            "Let each id count with the mean of its weights w, divided over its rows by bins of x.",
        ),
    ],
)
def test_a_limit_of_rows_is_told_only_where_rows_are_limited(asked, sentence):
    explained = told(SCAN, **asked)
    assert sentence in str(explained) and "clamp" not in str(explained)
    assert not explained.to_dict()["limits"]["by_rows"]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"n": sf.count()}, "Let each id count as at most 3 rows in all."),
        ({"n": sf.count(), "u": sf.count_units()}, "Let each id count as at most 3 rows in all."),
        ({"n": sf.mean("x", lower=0, upper=9)}, "as at most 3 rows in all; clamp values to their bounds."),
        ({"n": sf.histogram("x", [0, 1, 2])}, "Let each id count as at most 3 rows in all."),
        ({"n": sf.count(**WEIGHTS)}, "as at most 3 rows in all; clamp values to their bounds."),
        ({"n": sf.median("x", lower=0, upper=9)}, "Let each id count as at most 3 rows in all"),
    ],
)
def test_values_are_clamped_where_they_have_bounds(asked, sentence):
    assert sentence in str(told(ROWS, **asked))


def test_groups_stand_in_the_sentence():
    towns = SCAN.group_by("town", keys=["a", "b"])
    by_town = told(towns.bound(groups=2), n=sf.count_units())
    assert "Let each id count in each of them once." in str(by_town)
    in_all = told(towns.bound(total_rows=4), n=sf.count())
    assert "what is beyond that is left out." in str(in_all) and "lamp" not in str(in_all)


@pytest.mark.long
def test_a_thousand_bins_are_one_line():
    explained = told(
        ROWS,
        n=sf.histogram("x", range(1001)),
        s=sf.histogram("x", range(51), shares=True),
        t=sf.histogram("x", range(51)),
        one=sf.value_counts("town", ["a"]),
        w=sf.value_counts("town", ["a", "b"], **WEIGHTS),
        m=sf.mean("x", lower=0, upper=9),
    )
    found = {used: (what, share) for what, _, _, share, used in explained.numbers}
    assert found["n"][0] == "rows in each of 1,000 bins of x"
    assert found["s, t"][0] == "rows in each of 50 bins of x"
    assert found["one_a"][0] == "rows in bin 1 of town"
    assert found["w"][0] == "sum of the weights w, trimmed, of rows in each of 2 bins of town"
    assert {share for _, share in found.values()} == {"16.7%"} and len(explained.numbers) == 6
    # As data nothing is left out.
    assert len(explained.to_dict()["statistics"]) == 1000 + 50 + 1 + 2 + 2
    assert explained.to_dict()["outputs"]["n_0_1"]["asked"] == "n"
    printed = io.StringIO()
    print_explanation(Console(file=printed, width=200), explained)
    for text in (str(explained), printed.getvalue()):
        assert "1,000 bins" in text and len(text.splitlines()) < 40


def test_bins_with_noise_of_another_size_have_a_line_of_their_own():
    explained = told(ROWS, n=sf.histogram("x", range(4)))
    statistics = explained.to_dict()["statistics"]
    statistics[1]["noise_deviation"] *= 2
    assert [number[0] for number in explained.numbers] == [f"rows in bin {i} of x" for i in (1, 2, 3)]
