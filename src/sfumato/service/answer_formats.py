"""Formats of a service's answers: a released table with error bars as JSON, an Arrow stream or CSV."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.errors import QueryError, RefusalError
from sfumato.query.error_bars import Bars
from sfumato.release.noisy_table import NoisyTable
from sfumato.release.processed_release import ProcessedRelease
from sfumato.release.release import Release
from sfumato.release.release_files import write_csv
from sfumato.release.table_digest import exact_text
from sfumato.release.top_release import TopRelease

JSON, ARROW, CSV = "application/json", "application/vnd.apache.arrow.stream", "text/csv"
MEDIA = (JSON, ARROW, CSV)
ABOUT = b"sfumato"  # the key of the schema's metadata that holds what is said of a table


@dataclass(frozen=True)
class Answer:
    """A drawn release with its error bars, to be encoded as JSON, Arrow or CSV.

    Args:
        table: the noisy table.
        widths: half-widths of error bars, by the columns that have them; none where there are no bars.
        keys: its columns that are no numbers of rows.
        about: what is said of it, as texts, numbers and lists: cost, explanation, hints, confidence.
    """

    table: pa.Table
    widths: Mapping[str, pa.ChunkedArray]
    keys: tuple[str, ...]
    about: Mapping[str, Any]


def answer(release: NoisyTable, confidence: float, simultaneous: bool, dummy: bool) -> Answer:
    """Draw a release, with error bars if it has any, for encoding.

    Args:
        release: as `sf.sql` gives it.
        confidence: in (0, 1), of the error bars.
        simultaneous: let it be that of all of them together.
        dummy: whether its rows are made up, and nothing was spent.
    Raises:
        SfumatoError: as from `to_arrow`.
    """
    table = release.to_arrow()
    keys, widths = _keys(release), dict[str, pa.ChunkedArray]()
    bars = Bars(confidence, simultaneous, release.bars.sampling, selected=release.bars.selected)
    # Where numbers were left out, or computed with, there are no bars.
    with suppress(RefusalError, QueryError):
        found = release.errors(confidence, simultaneous=simultaneous)
        measured = release.measured if isinstance(release, ProcessedRelease) else found.column_names
        widths = {name: found[name] for name in measured if name not in keys}
    epsilon, delta = release.spent
    spent = {"epsilon": 0.0, "delta": 0.0} if dummy else {"epsilon": epsilon, "delta": delta}
    about: dict[str, Any] = {
        "dummy": dummy,
        "spent": spent,
        "metadata": release._attributes(bars if widths else None) | spent,
        "confidence": confidence,
        "explanation": str(release.explain()),
        "hints": list(release.hints),
        "parts": _parts(release),
        "receipt": release.receipt().to_dict(),
    }
    if release.diagnostics is not None:
        about["diagnostics"] = plain_rows(release.diagnostics.to_arrow())
        about["shifts"] = [
            {"output": one.output, "shift": one.shift, "relative": one.relative, "of": one.of}
            | {"half_width": one.half_width if math.isfinite(one.half_width) else None}
            for one in release.diagnostics.shifts()
        ]
    return Answer(table, widths, keys, about)


def _keys(release: NoisyTable) -> tuple[str, ...]:
    """Return the columns of an answer that name its group or rank."""
    if isinstance(release, ProcessedRelease):
        columns, of_first = release._computation.columns or (), _keys(release._releases[0])
        return tuple(name for name, released in columns if released in of_first)
    if isinstance(release, TopRelease):
        return ("rank", *release.question.keys)
    assert isinstance(release, Release)
    return tuple(release.plan.query.shown_keys)


def _parts(release: NoisyTable) -> dict[str, list[str]]:
    """Return the columns of each aggregate of an answer that has several, such as a histogram's."""
    if not isinstance(release, Release):
        return {}
    drawn = ((name, aggregate.drawn(name)) for name, aggregate in release.plan.query.aggregates)
    return {name: list(outputs) for name, outputs in drawn if len(outputs) > 1}


def encode_answer(made: Answer, media: str, *, repeats: int | None = None) -> bytes:
    """Return an answer in one of the formats of `MEDIA`.

    Args:
        repeats: the entry whose answer it is once more, for nothing; None where it is new.
    """
    made = replace(made, about={**made.about, "repeats": repeats})
    if media == JSON:
        return as_json(
            {
                **plain_table(made.table),
                "keys": list(made.keys),
                "errors": {
                    name: [plain(v) for v in column.to_pylist()] for name, column in made.widths.items()
                },
                **made.about,
            }
        )
    return _csv(with_bars(made)[0]) if media == CSV else pack(made)


def pack(made: Answer) -> bytes:
    """Return a whole answer as an Arrow stream."""
    table, names = with_bars(made)
    about = {**made.about, "keys": list(made.keys), "errors": names}
    table = table.replace_schema_metadata({ABOUT: as_json(about)})
    written = io.BytesIO()
    with pa.ipc.new_stream(written, table.schema) as stream:
        stream.write_table(table)
    return written.getvalue()


def unpack(stream: bytes) -> Answer:
    """Return the answer in an Arrow stream from `pack`."""
    with pa.ipc.open_stream(stream) as reader:
        table = reader.read_all()
    about = json.loads(table.schema.metadata[ABOUT])
    keys, names = about.pop("keys"), about.pop("errors")
    widths = {name: table[width] for name, width in names.items()}
    table = table.drop_columns(list(names.values())).replace_schema_metadata(None)
    return Answer(table, widths, tuple(keys), about)


def with_bars(made: Answer) -> tuple[pa.Table, dict[str, str]]:
    """Return an answer's table with error-bar columns, and the names of these columns."""
    table, names = made.table, {}
    for name, column in made.widths.items():
        names[name] = _uncharged_note(f"{name}_error", table.column_names)
        table = table.add_column(table.column_names.index(name) + 1, names[name], column)
    return table, names


def as_json(data: Any) -> bytes:
    """Return data in JSON format, in ASCII and without NaN."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode()


def plain_table(table: pa.Table) -> dict[str, Any]:
    """Return a table in JSON form: its columns with types, and its rows."""
    columns = [{"name": field.name, "type": str(field.type)} for field in table.schema]
    return {"columns": columns, "rows": plain_rows(table)}


def plain_rows(table: pa.Table) -> list[list[Any]]:
    """Return the rows of a table as lists of JSON values."""
    return [list(row) for row in zip(*map(_plain_column, table.columns), strict=True)]


def _plain_column(column: pa.ChunkedArray) -> list[Any]:
    with suppress(OverflowError, ValueError):  # of dates, whose years Python's calendar has not
        return [plain(value) for value in column.to_pylist()]
    return [_to_json_value(one) for one in column]


def _to_json_value(one: pa.Scalar) -> Any:
    """Return an Arrow value as a JSON value, with dates of any year as text."""
    if not one.is_valid:
        return None
    if isinstance(one, pa.UnionScalar):
        return _to_json_value(one.value)
    if isinstance(one, pa.StructScalar):
        return {name: _to_json_value(value) for name, value in one.items()}
    if isinstance(one, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar):
        return [_to_json_value(value) for value in one.values]
    if pa.types.is_temporal(one.type) and not pa.types.is_interval(one.type):
        return one.cast(pa.string()).as_py()
    return plain(one.as_py())


def plain(value: Any) -> Any:
    """Return a Python value as a JSON value: dates and decimals as text, NaN and infinities as null.

    >>> plain([dt.date(2024, 1, 31), float("nan"), 1.5, b"x"])
    ['2024-01-31', None, 1.5, 'eA==']
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return exact_text(value) if isinstance(value, Decimal) else str(value)


def _uncharged_note(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _csv(table: pa.Table) -> bytes:
    """Return a table in CSV format: bytes in Base64, lists and structs as JSON text."""
    for i, field in enumerate(table.schema):
        kind = field.type
        if pa.types.is_nested(kind) or pa.types.is_interval(kind) or _are_bytes(kind):
            values = _plain_column(table.column(i))
            texts = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
            table = table.set_column(i, field.name, pa.array(texts, pa.string()))
    written = io.BytesIO()
    write_csv(written, iter(table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]))
    return written.getvalue()


def _are_bytes(kind: Any) -> bool:
    stored = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return any(is_of(stored) for is_of in _BYTES)


_BYTES: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
)
