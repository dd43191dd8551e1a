"""Files of lines, CSV and JSON, to Arrow batches of texts: any bytes are read, and none raise.

A record that is none (a wrong number of fields, a quote in the wrong place) is dropped, and reading goes on
with the next line. Bytes that are no text in the file's encoding make their field NULL. What a text means is
for DuckDB's TRY_CAST to say.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.sanitized_columns import sanitize
from sfumato.errors import QueryError, nearest, shown
from sfumato.query import sizes

_BREAK, _RETURN = b"\n\r"


def split_fields(
    block: bytes, delimiter: str, quote: str, least: int, count: int, wanted: Sequence[int]
) -> list[pa.Array] | None:
    """Return the wanted CSV fields of each line of a block; an empty field is NULL.

    A record has a field for each column, of which some at the end may be missing, or more that are empty.

    >>> split_fields(b'1,"a, b"\\r\\n2\\n3,\\n4,c,', ",", '"', 2, 2, [0, 1])[1].to_pylist()
    ['a, b', None, 'c']
    """
    if not (delimiter.isascii() and quote.isascii()) or len(block) > sizes.BLOCK_BYTES:
        return None
    data = np.frombuffer(block + b"\n", np.uint8)
    keep = np.ones(len(data), bool)
    marks = (data == ord(delimiter)) | (data == _BREAK)
    if quote.encode() in block:
        places = np.flatnonzero(marks | (data == ord(quote)))
        separators = _outside_quotes(data, places, ord(delimiter), ord(quote), keep)
        if separators is None:
            return None
    else:
        separators = np.flatnonzero(marks)
    ends = np.flatnonzero(data[separators] == _BREAK)
    texts = _between(data, separators, separators[ends], keep)
    firsts = np.append(0, ends[:-1] + 1)
    found = ends + 1 - firsts
    fits = found == count
    if not fits.all():
        fits |= (least <= found) & (found < count)
        filled = np.append(0, np.cumsum(texts.is_valid().to_numpy(zero_copy_only=False)))
        columns_end = firsts + np.minimum(found, count)
        fits |= (found > count) & (filled[firsts + found] == filled[columns_end])
    rows, found = firsts[fits], found[fits]
    short = (found < count).any()
    return [sanitize(texts.take(pa.array(rows + i, mask=found <= i if short else None))) for i in wanted]


def split_lines(block: bytes) -> pa.Array:
    """Return the lines of a block of a text file as texts."""
    data = np.frombuffer(block + b"\n", np.uint8)
    ends = np.flatnonzero(data == _BREAK)
    return sanitize(_between(data, ends, ends, np.ones(len(data), bool)))


def _outside_quotes(
    data: npt.NDArray[np.uint8],
    places: npt.NDArray[np.int64],
    delimiter: int,
    quote: int,
    keep: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int64] | None:
    """Return where CSV fields end outside of quotes; None for a block with an odd quote."""
    is_quote = data[places] == quote
    inside = ((np.cumsum(is_quote) - is_quote) % 2).astype(bool)
    if (inside & (data[places] == _BREAK)).any():
        return None
    opening, closing = places[is_quote & ~inside], places[is_quote & inside]
    before = np.where(opening > 0, data[opening - 1], _BREAK)
    begins = (before == delimiter) | (before == _BREAK)
    after = data[closing + 1]
    at_end = (after == _RETURN) & (data[np.minimum(closing + 2, len(data) - 1)] == _BREAK)
    ends = at_end | (after == delimiter) | (after == _BREAK) | (after == quote)
    if not (begins | (before == quote)).all() or not ends.all():
        return None
    keep[opening[begins]] = keep[closing] = False
    separators: npt.NDArray[np.int64] = places[~is_quote & ~inside]
    return separators


def _between(
    data: npt.NDArray[np.uint8],
    separators: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    keep: npt.NDArray[np.bool_],
) -> pa.Array:
    """Return the texts between separators of a block of lines, NULL where there is nothing."""
    keep[separators] = False
    returns = ends[ends > 0] - 1
    keep[returns[data[returns] == _RETURN]] = False
    offsets = np.append(0, np.cumsum(keep)[separators]).astype(np.int64)
    valid = np.packbits(np.diff(offsets) > 0, bitorder="little")
    buffers = [pa.py_buffer(part) for part in (valid, offsets, data[keep])]
    return pa.Array.from_buffers(pa.large_string(), len(separators), buffers)


# A line beyond is dropped; a quote that does not end within these lines is taken for none.
MAX_BYTES, MAX_QUOTED = 1 << 24, 1 << 20
# DuckDB takes up to nine times a line's bytes for each column that is read of it.
MAX_JSON = 1 << 20
# A text of JSON, and whether it is a name; one that is open ends with the line, so that a line is read once.
_TEXT = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?$))(\s*:)?', re.DOTALL)
_UTF_16 = "utf-16", "utf-16-le", "utf-16-be"
_WRONG_BYTES = "sfumato.wrong_bytes"
_SAID = 1000  # lines that are looked at for bytes of another encoding


@dataclass(frozen=True)
class Csv:
    """How records are written in the lines of a CSV file.

    Args:
        delimiter, quote: single characters. In quotes delimiters and line breaks are text, and a quote is
            doubled.
        header: whether the first record has the names of the columns.
        skipped: lines before.
        multiline: whether a text in quotes may have several lines; if not, each line is a record by itself,
            and no quote in it changes what another is read as.
        encoding: a codec of Python, as `check_encoding` gives it; None for UTF-8.
    """

    delimiter: str = ","
    quote: str = '"'
    header: bool = True
    skipped: int = 0
    multiline: bool = True
    encoding: str | None = None

    def head(self, path: str, limit: int) -> list[str]:
        """Return the first lines of a CSV file; wrong bytes are surrogates."""
        lines = chain.from_iterable(map(_decode_lines, _blocks(path, self.encoding)))
        return list(islice(lines, limit))

    def wrong_bytes(self, path: str) -> tuple[str, ...]:
        """Return a note if the first lines of a CSV file are not in its encoding."""
        name = self.encoding or "UTF-8"
        wrong = any(_valid(line) is None for line in self.head(path, _SAID))
        return (
            (
                f"some texts in the first rows are not {name}, and are read as missing values. Pass "
                "encoding='latin-1', or the encoding of the file",
            )
            if wrong
            else ()
        )

    def records(self, lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        """Yield the CSV records of some lines as they are written, and their fields."""
        records = _Records((line.encode(errors="surrogateescape") for line in lines), self, lambda _: True)
        found = (one for block in records.blocks for some in records.split(block) for one in some)
        return ((one, fields) for one in found if (fields := self._fields(one, len(one) + 1)))

    def record(self, lines: Sequence[str]) -> tuple[str, list[str]]:
        """Return the first CSV record of some lines; nothing where there is none."""
        return next(self.records(lines), ("", []))

    def batches(
        self, path: str, columns: Sequence[str], wanted: Sequence[str], least: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the wanted columns of a CSV file, as texts; an empty field is NULL.

        Args:
            path: the file, perhaps compressed.
            columns: its columns' names, in its order.
            wanted: some of them.
            least: how many fields a record must have, where the last columns may be missing; all of them
                where it is left out. More than there are columns may follow if they are empty.
        """
        places = [columns.index(name) for name in wanted]
        counts = len(columns) if least is None else least, len(columns)
        first = self.header

        def fits(record: str) -> bool:
            fields = self._fields(record.removesuffix("\r"), len(record) + 1)
            return fields is not None and _fit_record(fields, *counts) is not None

        blocks = _without_lines(_blocks(path, self.encoding), self.skipped)
        records = _Records(blocks, self, fits)
        for block in records.blocks:
            arrays = None
            if not first:
                arrays = split_fields(block, self.delimiter, self.quote, *counts, places)
            if arrays is not None:
                yield pa.RecordBatch.from_arrays(arrays, list(wanted))
                continue
            for some in records.split(block):
                if first and some:
                    first = False
                    del some[0]
                rows = list(self._rows(some, *counts))
                arrays = [_column([row[i] for row in rows]) for i in places]
                yield pa.RecordBatch.from_arrays(arrays, list(wanted))

    def _rows(self, records: list[str], least: int, count: int) -> Iterator[list[str]]:
        # The module of the library is ten times as fast, but raises for a whole block.
        limit = csv.field_size_limit()
        if all(r and "\r" not in r and len(r) < limit for r in records):
            with suppress(csv.Error):
                rows = list(csv.reader(records, delimiter=self.delimiter, quotechar=self.quote, strict=True))
                if len(rows) == len(records):  # it joins records where a quote stays open
                    return _all_fitted(rows, least, count)
        fields = (self._fields(record, len(record) + 1) for record in records)
        return _all_fitted((row for row in fields if row is not None), least, count)

    def _fields(self, record: str, limit: int) -> list[str] | None:
        """Return at most `limit` fields of a CSV record; None where a quote closes elsewhere."""
        fields: list[str] = []
        at, quote = 0, self.quote
        while len(fields) < limit:
            if record.startswith(quote, at):
                end = at + 1
                while (end := record.find(quote, end)) >= 0 and record.startswith(quote, end + 1):
                    end += 2
                if end < 0:
                    return None
                fields.append(record[at + 1 : end].replace(quote * 2, quote))
                at = end + 1
                if at < len(record) and record[at] != self.delimiter:
                    return None
            else:
                end = record.find(self.delimiter, at)
                fields.append(record[at:end] if end >= 0 else record[at:])
                at = end if end >= 0 else len(record)
            if at == len(record):
                return fields
            at += 1
        return None


def _fit_record(row: list[str], least: int, count: int) -> list[str] | None:
    """Return a CSV record with as many fields as there are columns; None where it does not fit."""
    if least <= len(row) <= count:
        return row + [""] * (count - len(row))
    return row[:count] if len(row) > count and not any(row[count:]) else None


def _all_fitted(rows: Iterable[list[str]], least: int, count: int) -> Iterator[list[str]]:
    return (fitted for row in rows if (fitted := _fit_record(row, least, count)) is not None)


def check_encoding(name: object) -> str | None:
    """Return the codec of a CSV file's encoding; None for UTF-8.

    Raises:
        QueryError: there is none of that name, or one in which bytes of a line change what others say.
    """
    if name is None:
        return None
    with suppress(LookupError, UnicodeError, ValueError):
        found = codecs.lookup(name) if isinstance(name, str) else None
        if found is not None and found.name in ("utf-8", "utf-8-sig"):
            return None
        if found is not None and (found.name in _UTF_16 or _begins_as_ascii(found.name)):
            return found.name
    near = nearest(name, ("latin-1", "cp1252", "utf-8", "utf-16")) if isinstance(name, str) else None
    raise QueryError(
        f"encoding is {shown(name)}, which is not an encoding for CSV. Write "
        f"encoding={near or 'latin-1'!r}, or another Python codec, such as 'cp1252' or 'utf-16'"
    )


def _begins_as_ascii(name: str) -> bool:
    """Whether a codec reads ASCII as such, whatever stands before: then no line changes another one."""
    if "escape" in name or name.startswith("iso2022"):
        return False
    plain = bytes(range(128))
    return plain.decode(name) == plain.decode("ascii")


def json_lines(path: str) -> Iterator[pa.RecordBatch]:
    """Yield the lines of a JSON file in one column, `line`; one that is too long is NULL."""
    for block in _blocks(path):
        column = split_lines(
            b"\n".join(map(_drop_invalid_utf8, block.split(b"\n"))) if _is_odd(block) else block
        )
        if len(block) > MAX_JSON:
            import pyarrow.compute as pc

            column = pc.if_else(pc.less_equal(pc.binary_length(column), MAX_JSON), column, None)
        yield pa.RecordBatch.from_arrays([column], ["line"])


def _is_odd(line: bytes) -> bool:
    """Whether some text in a JSON line is perhaps not UTF-8, as written or as escaped."""
    try:
        return "\\ud" in line.decode().lower()
    except UnicodeDecodeError:
        return True


def _drop_invalid_utf8(line: bytes) -> bytes:
    """Return a JSON line with null for each text that is not UTF-8."""
    return _TEXT.sub(_utf8_or_null, line) if len(line) <= MAX_JSON and _is_odd(line) else line


def _utf8_or_null(text: re.Match[bytes]) -> bytes:
    try:
        written = text[1].decode()
        _ = "\\u" in written and json.loads(written).encode()
    except UnicodeError:
        return b"null" if text[2] is None else b'""' + text[2]
    except ValueError:  # of another malformed text, whose line is dropped
        return text[0]
    return text[0]


def first_line(path: str) -> str:
    """Return a text file's first line that is not blank."""
    lines = (line.strip() for block in _blocks(path) for line in _decode_lines(block))
    return next((line for line in lines if line), "")


def _column(fields: list[str]) -> pa.Array:
    texts = [field or None for field in fields]
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        return pa.array(list(map(_valid, texts)), pa.large_string())


def _valid(text: str | None) -> str | None:
    try:
        _ = text and text.encode()
        return text
    except UnicodeEncodeError:  # bytes that were not UTF-8
        return None


def _blocks(path: str, encoding: str | None = None) -> Iterator[bytes]:
    """Yield the lines of a text file in UTF-8, many at a time."""
    rest, skipping, start = b"", False, True
    for block in _chunks(path, encoding):
        rest += block
        if start:
            if len(rest) < 3 and b"\n" not in rest:
                continue
            rest, start = rest.removeprefix(b"\xef\xbb\xbf"), False
        end = len(rest) - len(block) if len(rest) > len(block) else 0
        end = rest.rfind(b"\n", end)
        if end < 0:
            if len(rest) > MAX_BYTES or skipping:
                rest, skipping = b"", True
            continue
        lines, rest = rest[:end], rest[end + 1 :]
        if skipping:
            _, _, lines = lines.partition(b"\n")
            skipping = False
        yield lines
    if rest and not skipping:
        yield rest.removeprefix(b"\xef\xbb\xbf") if start else rest


def _chunks(path: str, encoding: str | None) -> Iterator[bytes]:
    """Yield a text file's bytes in UTF-8, with a byte that UTF-8 lacks for wrong ones."""
    with pa.input_stream(path, compression="detect") as stream:
        # A short block is first, as the one with the header is read record by record.
        chunk = stream.read(min(sizes.TEXT_BYTES, sizes.FIRST_TEXT_BYTES))
        if chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            encoding = "utf-16"
        decoder = encoding and codecs.getincrementaldecoder(encoding)(_WRONG_BYTES)
        while chunk:
            yield _utf8(decoder.decode(chunk)) if decoder else chunk
            chunk = stream.read(sizes.TEXT_BYTES)
        if decoder:
            yield _utf8(decoder.decode(b"", True))


def _utf8(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _wrong_bytes(error: UnicodeError) -> tuple[str, int]:
    """Skip wrong bytes of a text file, but never a line break among them."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    broken = -1 if error.encoding.startswith("utf-16") else error.object.find(b"\n", error.start, error.end)
    return "\udc80", broken if broken > error.start else error.end


codecs.register_error(_WRONG_BYTES, _wrong_bytes)


def _without_lines(blocks: Iterator[bytes], count: int) -> Iterator[bytes]:
    """Yield blocks of lines without the first ones of a text file."""
    for block in blocks:
        *before, rest = block.split(b"\n", count)
        if len(before) < count:
            count -= len(before) + 1
            continue
        count = 0
        yield rest


def _decode_lines(block: bytes) -> list[str]:
    """Return the lines of a block as texts; bytes that are not UTF-8 are surrogates."""
    return block.decode(errors="surrogateescape").split("\n")


class _Records:
    """Joins lines of a CSV file to records while a quote is open.

    A quote opens where a field begins, and closes where it ends. One that closes elsewhere, or nowhere near,
    or in a record of too few or too many fields, was not meant as one: its line is no record, and the lines
    that were looked at are read again.
    """

    def __init__(self, blocks: Iterable[bytes], form: Csv, fits: Callable[[str], bool]) -> None:
        self.blocks, self._delimiter, self._quote = iter(blocks), form.delimiter, form.quote
        self._joins, self._fits, self._lines = form.multiline, fits, deque[str]()

    def split(self, block: bytes) -> Iterator[list[str]]:
        """Yield the CSV records of a block, and of blocks that its last record reaches into."""
        self._lines.extend(_decode_lines(block))
        while self._lines:
            yield self._some()

    def _some(self) -> list[str]:
        found: list[str] = []
        while self._lines and len(found) < sizes.TEXT_RECORDS:
            line = self._lines.popleft()
            if self._joins and line.count(self._quote) % 2 and self._open(line, False):
                line = self._join_quoted(line) or line
            found.append(line.removesuffix("\r"))
        return found

    def _join_quoted(self, line: str) -> str | None:
        """Return the CSV record whose first line opens a quote, or None."""
        parts, size = [line], len(line)
        while size <= MAX_QUOTED:
            if not self._lines:
                block = next(self.blocks, None)
                if block is None:
                    break
                self._lines.extend(_decode_lines(block))
            parts.append(self._lines.popleft())
            size += len(parts[-1]) + 1
            still = self._open(parts[-1], True)
            if still is False and self._fits("\n".join(parts)):
                return "\n".join(parts)
            if not still:
                break
        self._lines.extendleft(reversed(parts[1:]))
        return None

    def _open(self, line: str, opened: bool) -> bool | None:
        """Whether a CSV quote is open after a line; None if one closes where no field ends."""
        line = line.removesuffix("\r")
        at, closed = 0, not opened
        while True:
            if not closed or line.startswith(self._quote, at):
                end = at + closed
                while (end := line.find(self._quote, end)) >= 0 and line.startswith(self._quote, end + 1):
                    end += 2
                if end < 0:
                    return True
                at, closed = end + 1, True
                if at < len(line) and line[at] != self._delimiter:
                    return None
            else:
                at = line.find(self._delimiter, at)
            if at < 0 or at == len(line):
                return False
            at += 1
