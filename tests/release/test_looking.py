"""A release as frames, columns, rows, pictures and workbooks: the same numbers everywhere, drawn once."""

from __future__ import annotations

import datetime as dt
import math
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ColumnError, EngineError, ParameterError, QueryError

pytestmark = pytest.mark.noise_cannot_matter("the same numbers are looked at in several ways")
FORMULAS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    '=HYPERLINK("http://x")',
    "http://example.org",
    "'x",
    "_x0041_",
]


def released(**options: Any) -> Any:
    data = {"id": [1, 2, 3, 4], "town": ["A", "A", "B", None], "x": [1.0, 2.0, 3.0, 4.0]}
    table = sf.scan(pa.table(data), privacy_unit="id").group_by("town", keys=["A", "B", None])
    asked = table.bound(groups=1, rows=1).agg(n=sf.count(), x=sf.mean("x", lower=0, upper=5))
    return asked.release(epsilon=1, **options)


def test_columns_rows_and_length() -> None:
    release = released()
    assert len(release) == 3 and list(release) == release.to_arrow().to_pylist()
    assert release["n"] == [row["n"] for row in release] and set(release["town"]) == {"A", "B", None}
    with pytest.raises(ColumnError, match="nn"):
        release["nn"]
    with pytest.raises(ParameterError, match="list\\(release\\)"):
        release[0]


def test_truth_draws_nothing() -> None:
    release = released()
    assert release and not release.drawn


def test_frames_have_error_bars_beside_numbers() -> None:
    release = released()
    assert list(release.frame().columns) == ["town", "n", "x"]
    frame = release.frame(errors=True, confidence=0.9)
    assert list(frame.columns) == ["town", "n", "n_error", "x", "x_error"]
    assert (
        frame["n_error"].tolist() == release.errors(0.9)["n"].to_pylist()
        and frame["n"].tolist() == release["n"]
    )
    own = released(confidence=0.8)
    assert own.frame(errors=True)["n_error"].tolist() == own.to_arrow()["n_error"].to_pylist()
    with pytest.raises(ParameterError, match="errors"):
        released().frame(errors="yes")


def test_a_name_that_error_bars_need_is_told_before_anything_is_drawn() -> None:
    table = sf.scan(pa.table({"id": [1]}), privacy_unit="id")
    release = table.agg(n=sf.count_units(), n_error=sf.count_units()).release(epsilon=1)
    with pytest.raises(QueryError, match="n_error"):
        release.frame(errors=True)
    assert not release.drawn


def test_a_picture_for_a_notebook_and_for_a_file(tmp_path: Path) -> None:
    release = released()
    assert release.plot()._repr_png_().startswith(b"\x89PNG")
    assert release.plot(tmp_path / "n.svg") is None and b"</svg>" in (tmp_path / "n.svg").read_bytes()
    undrawn = released()
    with pytest.raises(ParameterError, match=".png or .svg"):
        undrawn.plot(tmp_path / "n.pdf")
    assert not undrawn.drawn


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
    release = released()
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


def test_nothing_in_a_workbook_is_a_formula(tmp_path: Path) -> None:
    pytest.importorskip("xlsxwriter")
    data = pa.table({"id": list(range(len(FORMULAS))), "=cmd": FORMULAS})
    table = sf.scan(data, privacy_unit="id").group_by("=cmd", keys=FORMULAS).bound(groups=1, rows=1)
    table.agg(n=sf.count()).release(epsilon=1).write(tmp_path / "n.xlsx")
    rows, _, types = read(tmp_path / "n.xlsx")
    assert {row[0] for row in rows[1:]} == set(FORMULAS) and {row[0] for row in types} == {"s"}
    with zipfile.ZipFile(tmp_path / "n.xlsx") as book:
        assert b"<f>" not in book.read("xl/worksheets/sheet1.xml") + book.read("xl/worksheets/sheet2.xml")
        assert not [name for name in book.namelist() if "rels" in name and "sheet" in name]


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


def test_workbooks_are_refused_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    release = released()
    with pytest.raises(EngineError, match=r"sfumato\[excel\]"):
        release.write(tmp_path / "n.xlsx")
    assert not release.drawn


def test_lists_have_no_place_in_a_workbook(tmp_path: Path) -> None:
    pytest.importorskip("xlsxwriter")
    data = pa.table({"id": [1], "v": pa.array([[1.0, 2.0]], pa.list_(pa.float64(), 2))})
    asked = sf.scan(data, privacy_unit="id").bound(rows=1).agg(v=sf.vector_sum("v", length=2, bound=1))
    release = asked.release(epsilon=1)
    with pytest.raises(ParameterError, match=r"\.parquet or \.json"):
        release.write(tmp_path / "n.xlsx")
    assert not release.drawn
