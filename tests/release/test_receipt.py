"""A receipt knows its answer again, in every format, and no other; what differs is said."""

import datetime
import hashlib
import json
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import EngineError, ParameterError
from sfumato.exact.parameters import canonical_bytes
from sfumato.noise import FixedWords
from sfumato.release.answer_digest import Answer
from sfumato.release.receipt import Receipt
from sfumato.release.table_digest import column_digest, table_digest

pytestmark = pytest.mark.noise_cannot_matter("digests are compared, whatever the numbers are")

SIZE = 240
ROWS = pa.table(
    {
        "id": range(SIZE),
        "town": [["Ulm", 'B "ü"\n,x', None, "", "NA", "007"][i % 6] for i in range(SIZE)],
        "day": [datetime.date(2020, 1, 1 + i % 3) for i in range(SIZE)],
        "time": pa.array([datetime.datetime(2020, 1, 1, 0, 0, 0, i % 2) for i in range(SIZE)], pa.timestamp("us")),
        "zoned": pa.array([datetime.datetime(2020, 1, 1, i % 2) for i in range(SIZE)], pa.timestamp("us", "UTC")),
        "dec": pa.array([Decimal("1.50")] * SIZE, pa.decimal128(5, 2)),
        "yes": [i % 2 == 0 for i in range(SIZE)],
        "age": [i % 3 - 1 for i in range(SIZE)],
        "real": [[0.1, -0.0, float("nan"), float("inf")][i % 4] for i in range(SIZE)],
        "vector": pa.array([[0.5, 0.5]] * SIZE, pa.list_(pa.float64(), 2)),
    }
)  # fmt: skip
PEOPLE = sf.scan(ROWS, privacy_unit="id")
KEYS = [["town"], ["time"], ["dec", "zoned"], ["real"], ["town", "day", "yes"], []]
FORMATS = ("parquet", "csv", "json")
# Public groups: what is released has the shape that tests need, whatever the noise is.
TOWNS = PEOPLE.group_by("town", keys=["Ulm", "007", "", "NA"]).bound(groups=1, rows=1)


def released(**options: Any) -> Any:
    asked = {"n": sf.count(), "m": sf.mean("age", lower=0, upper=10), "r": sf.ratio("m", "n")}
    return TOWNS.agg(**asked).release(**{"epsilon": 1} | options)


def in_words(receipt: sf.Receipt, answer: Any) -> str:
    found = receipt.verify(answer)
    assert not found and not found.ok
    return str(found)


@pytest.mark.parametrize("keys", KEYS, ids="-".join)
def test_every_format_comes_round(keys, tmp_path):
    question = PEOPLE.group_by(*keys).bound(groups=1, rows=1)
    release = question.agg(n=sf.count(), m=sf.mean("age", lower=-1, upper=1)).release(
        epsilon=10, delta="1e-6"
    )
    receipt = release.receipt(confidence=0.9)
    assert receipt.verify(release.to_arrow()), str(receipt.verify(release.to_arrow()))
    for ending in FORMATS:
        path = tmp_path / f"answer.{ending}"
        for options in ({}, {"confidence": 0.9}):
            release.write(path, **options)
            assert receipt.verify(path).ok, str(receipt.verify(path))


@pytest.mark.parametrize("ending", FORMATS)
def test_an_answer_that_was_streamed(ending, tmp_path):
    release, path = released(), tmp_path / f"answer.{ending}"
    release.write(path)
    assert release.receipt().verify(path).ok
    assert release.to_arrow()["town"].to_pylist() == sorted(["Ulm", "007", "", "NA"])


def test_the_order_of_rows_and_columns_and_widths_do_not_matter():
    release = released()
    table = release.to_arrow()
    mixed = table.take([2, 0, 3, 1]).select(["r", "n", "town", "m"])
    narrow = mixed.set_column(1, "n", mixed["n"].cast(pa.int32())).set_column(
        2, "town", mixed["town"].dictionary_encode()
    )
    assert release.receipt().verify(narrow).ok


def test_receipts_are_files(tmp_path):
    receipt = released().receipt(confidence=0.9)
    receipt.write(tmp_path / "receipt.json")
    again = sf.Receipt.read(tmp_path / "receipt.json")
    assert again == receipt and again.sha256 == receipt.sha256
    entry = [{"dataset": "hospital", "entry": 7}]
    replace(receipt, ledger=entry).write(tmp_path / "receipt.json")
    kept = sf.Receipt.read(tmp_path / "receipt.json")
    assert kept.ledger == entry and kept.sha256 == receipt.sha256
    with pytest.raises(ParameterError, match=r"receipt path .* ends in \.json$"):
        receipt.write(tmp_path / "receipt.txt")


# What is found, and said.


def test_a_changed_cell():
    release = released()
    table = release.to_arrow()
    for place, name in enumerate(table.column_names):
        values = table[name].to_pylist()
        values[1] += "x" if isinstance(values[1], str) else 1
        changed = table.set_column(place, name, pa.array(values, table[name].type))
        said = in_words(release.receipt(), changed)
        assert f"values differ in '{name}'; the other columns are as released" in said


def test_the_smallest_change_of_a_number():
    release = released()
    first, *rest = release.to_arrow()["m"].to_pylist()
    table = release.to_arrow().set_column(2, "m", pa.array([math.nextafter(first, 1000), *rest]))
    assert "values differ in 'm'" in in_words(release.receipt(), table)


def test_cells_that_were_exchanged_between_rows():
    # Two means may both be at a bound of their values.
    drawn = ((r, r.to_arrow()["m"].to_pylist()) for r in iter(released, None))
    release, (one, other, *rest) = next((r, values) for r, values in drawn if values[0] != values[1])
    table = release.to_arrow().set_column(2, "m", pa.array([other, one, *rest]))
    assert "values differ in 'm'" in in_words(release.receipt(), table)


def test_columns_that_were_renamed_dropped_or_added():
    release = released()
    table, receipt = release.to_arrow(), release.receipt()
    text = in_words(receipt, table.rename_columns(["town", "count", "m", "r"]))
    assert "column 'n' was released, but is missing" in text and "column 'count' was not released" in text
    assert "column 'r' was released" in in_words(receipt, table.drop_columns(["r"]))
    swapped = table.rename_columns(["town", "m", "n", "r"])
    assert "has a value that is not int64" in in_words(receipt, swapped) or "values differ" in in_words(
        receipt, swapped
    )


def test_error_bars_are_compared_or_refused(tmp_path):
    release = released()
    release.to_arrow()
    release.write(tmp_path / "answer.csv", confidence=0.95)
    text = in_words(release.receipt(), tmp_path / "answer.csv")
    assert "column 'n_error' was not released, such as error bars" in text
    assert release.receipt(confidence=0.95).verify(tmp_path / "answer.csv").ok
    text = in_words(release.receipt(confidence=0.9), tmp_path / "answer.csv")
    assert "values differ in 'n_error', 'm_error', 'r_error'; the other columns are as released" in text
    with pytest.raises(ParameterError, match="confidence"):
        release.receipt(confidence=2)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_what_two_readers_could_take_for_two_things(tmp_path):
    release = PEOPLE.agg(n=sf.count_units()).release(epsilon=1)
    receipt, n = release.receipt(), release.to_arrow()["n"][0].as_py()
    with pytest.raises(EngineError, match="damaged, or another kind of file"):
        receipt.verify(write(tmp_path / "a.json", f'{{"n": 1, "n": {n}}}\n'))
    assert "'n' is there twice" in in_words(receipt, write(tmp_path / "a.csv", f'"n","n"\n{n},{n}\n'))
    assert "is not int64" in in_words(receipt, write(tmp_path / "a.json", f'{{"n": "{n}"}}\n'))
    assert "is not int64" in in_words(receipt, write(tmp_path / "a.json", '{"n": true}\n'))
    assert "is not int64" in in_words(receipt, write(tmp_path / "a.csv", '"n"\nmany\n'))
    assert "is not int64" in in_words(receipt, pa.table({"n": [n + 0.5]}))
    assert "is not int64" in in_words(receipt, pa.table({"n": [str(n)]}))
    assert "it has 0 rows" in in_words(receipt, write(tmp_path / "a.json", ""))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Any:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [leaf for key, one in inside for leaf in leaves(one, (*path, key))]
    return found or [path]


def with_leaf(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    made = json.loads(json.dumps(value))
    at = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return made


def test_a_receipt_in_which_anything_was_changed_is_none(tmp_path):
    receipt, path = released().receipt(confidence=0.9), tmp_path / "receipt.json"
    whole = receipt.to_dict()
    for place in leaves(whole):
        if place == ("ledger",):
            continue
        for new in ("0", 7, None, {"a": 1}):
            made = with_leaf(whole, place, new)
            if made == whole:
                continue
            path.write_text(json.dumps(made))
            with pytest.raises(EngineError, match="is not a receipt of sfumato, or was changed"):
                sf.Receipt.read(path)


@pytest.mark.long
def test_a_receipt_that_was_made_up_raises_nothing_odd(tmp_path):
    """Whoever makes a receipt up can make its own digest fit; then it is one, or is refused in words.

    Each place has every fourth of the odd values, each time others.
    """
    release = released()
    whole, path = release.receipt(confidence=0.9).to_dict(), tmp_path / "receipt.json"
    odd = ("0", "1/0", "1e999999999", 7, -1, None, [], {"a": 1}, True, 1e300, "9" * 5000, "fixed_size_list<item: int64>[-1]")  # fmt: skip
    read = 0
    for number, place in enumerate(leaves(whole)):
        for new in odd[number % 4 :: 4]:
            made = with_leaf(whole, place, new)
            signed = {name: one for name, one in made.items() if name not in ("ledger", "sha256")}
            made["sha256"] = hashlib.sha256(canonical_bytes(signed)).hexdigest()
            path.write_text(json.dumps(made))
            try:
                receipt = sf.Receipt.read(path)
            except EngineError as error:
                assert "is not a receipt of sfumato, or was changed" in str(error)
            else:
                read += 1
                assert str(receipt.verify(release.to_arrow()))
    assert read > 12


def test_entries_of_a_ledger_that_were_made_up_are_said(tmp_path):
    """The ledger's entries are in no digest, so that anybody may write anything there."""
    release = released()
    whole, path = release.receipt().to_dict(), tmp_path / "receipt.json"
    entry = {"entry": 3, "at": "2026-11-27T05:00:00", "dataset": "visits", "what": "n", "analyst": "ann"}
    odd = ("x", 7, -1.5, None, [], {"a": 1}, True, "\x1b[2J", [["entry"]], {"entry": {}})
    made = [[entry | {field: one}] for field in (*entry, "another") for one in odd]
    for ledger in [*odd, *made]:
        path.write_text(json.dumps(whole | {"ledger": ledger}))
        try:
            receipt = sf.Receipt.read(path)
        except EngineError as error:
            assert "is not a receipt of sfumato, or was changed" in str(error)
        else:
            assert "\x1b" not in str(receipt.verify(release.to_arrow())) + receipt._repr_html_()


def test_what_is_computed_otherwise_has_another_plan():
    inside = (
        "(SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id, "
        "confidence = 0.9) town, COUNT(*) AS n FROM people GROUP BY town)"
    )
    texts = [
        f"SELECT n + 1 AS m FROM {inside} AS t",
        f"SELECT n + 2 AS m FROM {inside} AS t",
        f"SELECT 'a b' AS m, n FROM {inside} AS t",
        f"SELECT 'a  b' AS m, n FROM {inside} AS t",
        f"SELECT DP_INTERVAL_LOW(n) AS m FROM {inside} AS t",
        f"SELECT DP_INTERVAL_HIGH(n) AS m FROM {inside} AS t",
        f"SELECT DP_INTERVAL_LOW(n) AS m FROM {inside.replace('0.9', '0.8')} AS t",
        f"SELECT t.n + p.x AS m FROM {inside} AS t JOIN p USING (town)",
    ]
    public = sf.public(pa.table({"town": ["Ulm"], "x": [1]}))
    plans = [json.dumps(sf.sql(text, tables={"people": ROWS, "p": public}).canonical()) for text in texts]
    assert len(set(plans)) == len(plans)


# Kinds of release.


def test_known_noise_is_said_and_agrees_with_nothing():
    asked = PEOPLE.agg(n=sf.count_units())
    release = asked.release(epsilon=1, unsafe_words=FixedWords(range(100)))
    text = in_words(release.receipt(), release.to_arrow())
    assert "agrees with the receipt" in text and "NOT PRIVATE: the noise came from a source for tests" in text


# The digest is what docs/receipts.md says.


def test_the_digest_by_hand():
    table = pa.table({"b": ["é", None], "a": [1.0, 2.5], "d": [True, False]})
    one, two = '["f","3ff0000000000000"]', '["f","4004000000000000"]'
    text = f'["a","b","d"]\n[{one},"\\u00e9",true]\n[{two},null,false]\n'
    assert table_digest(table) == hashlib.sha256(text.encode()).hexdigest()
    assert column_digest(table["a"]) == hashlib.sha256(f"{one}\n{two}\n".encode()).hexdigest()


def test_tables_that_differ_have_digests_that_differ():
    tables = [
        pa.table({"a": ["x", "y"]}),
        pa.table({"a": ["y", "y"]}),
        pa.table({"a": ["x", "y", "y"]}),
        pa.table({"a": ["x", None]}),
        pa.table({"a": ["x", ""]}),
        pa.table({"a": ["x", "null"]}),
        pa.table({"b": ["x", "y"]}),
        pa.table({"a": [0.0, 1.0]}),
        pa.table({"a": [-0.0, 1.0]}),
        pa.table({"a": [0, 1]}),
        pa.table({"a": [False, True]}),
        pa.table({"a": pa.array([0.0, None])}),
        pa.table({"a": [0.0, 0.0]}),
        pa.table({"a": [0.0, float("nan")]}),
        pa.table({"a": ["x"], "b": ["y"]}),
        pa.table({"a": ["x\ny"]}),
        pa.table({"a": ['x","y']}),
        pa.table({"a": pa.array([[1, 2], [3]])}),
        pa.table({"a": pa.array([[1], [2, 3]])}),
        pa.table({"a": pa.array([0, 1], pa.timestamp("us"))}),
        pa.table({"a": pa.array([0, 1], pa.timestamp("ns"))}),
        pa.table({"a": pa.array([0, 1], pa.timestamp("us", "UTC"))}),
        pa.table({"a": pa.array([0, 1], pa.date32())}),
        pa.table({"a": pa.array([0, 1], pa.time64("us"))}),
        pa.table({"a": [Decimal("0.10"), Decimal("1.00")]}),
    ]
    digests = [table_digest(table) for table in tables]
    assert len(set(digests)) == len(digests)
    assert table_digest(pa.table({"a": [Decimal("0.1"), Decimal("1")]})) == digests[-1]


FAR = pa.array([2**63 - 1, 4 * 10**17, -(10**17), 0, None], pa.int64())
DAYS = pa.array([2**31 - 1, 4_000_000, -1_000_000, 0, None], pa.int32())
DIGITS = 12345678901234567890123456789012345670
TEMPORAL = [
    *(FAR.cast(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
    FAR.cast(pa.timestamp("us", "UTC")),
    DAYS.cast(pa.date32()),
    FAR.cast(pa.duration("s")),
    pa.array([0, 1, 999, 1000, None], pa.time64("ns")),
    pa.array([0, 1, 10**6, 86_400 * 10**6, None], pa.time64("us")),
    pa.array([(0, 0, n) for n in range(4)] + [None], pa.month_day_nano_interval()),
    pa.array([Decimal(DIGITS + n) for n in range(4)] + [None], pa.decimal128(38, 0)),
    pa.array([Decimal(DIGITS * 10**38 + n) for n in range(4)] + [None], pa.decimal256(76, 0)),
]


@pytest.mark.parametrize("values", TEMPORAL, ids=lambda values: str(values.type))
def test_no_date_and_no_digit_is_beyond_a_digest(values):
    """A year that Python's calendar has not, a nanosecond, and the last of 38 digits."""
    columns = [values, pa.StructArray.from_arrays([values], ["a"])]
    columns.append(pa.ListArray.from_arrays(list(range(len(values) + 1)), values))
    for column in columns:
        table = pa.table({"a": column})
        assert len({table_digest(table.slice(i, 1)) for i in range(len(values))}) == len(values)
        assert Receipt((Fraction(1), Fraction(0)), {}, Answer._from_table(table)).verify(table).ok


def test_the_digest_of_dates_by_hand():
    told = {
        "2024-02-29": pa.array([19782], pa.date32()),
        "2024-02-29T12:00:00.000000000": pa.array([1709208000], pa.timestamp("s")),
        "2024-02-29T12:00:00.000001000Z": pa.array(
            [1709208000 * 10**6 + 1], pa.timestamp("us", "Asia/Tokyo")
        ),
        "12000-01-01T00:00:00.000000000": pa.array([316516204800 * 10**3], pa.timestamp("ms")),
        "12:00:00": pa.array([43200], pa.time32("s")),
        "12:00:00.000001": pa.array([43200 * 10**6 + 1], pa.time64("us")),
    }
    for text, column in told.items():
        line = f'["t","{text}"]\n'.encode()
        assert column_digest(pa.chunked_array([column])) == hashlib.sha256(line).hexdigest()
