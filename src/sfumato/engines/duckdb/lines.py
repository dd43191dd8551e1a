"""Files of lines, CSV and JSON, to Arrow batches of texts: any bytes are read, and none raise.

A record that is none (a wrong number of fields, a quote in the wrong place) is dropped, and reading goes on
with the next line. Bytes that are not UTF-8 make their field NULL. What a text means is for DuckDB's
TRY_CAST to say.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import pyarrow as pa

# A line beyond is dropped; a quote that does not end within these lines is taken for none.
MOST_BYTES, MOST_QUOTED = 1 << 26, 1 << 20
_BLOCK, _RECORDS = 1 << 20, 1 << 16


@dataclass(frozen=True)
class Csv:
    """How records are written in a file.

    Args:
        delimiter, quote: single characters. In quotes delimiters and line breaks are text, and a quote is
            doubled.
        header: whether the first record has the names of the columns.
        skipped: lines before.
    """

    delimiter: str = ","
    quote: str = '"'
    header: bool = True
    skipped: int = 0

    def first(self, path: str) -> list[str]:
        """Return the fields of a file's first record, as text; none where there is none."""
        lines = chain.from_iterable(_texts(path))
        blocks = ([line] for line in islice(lines, self.skipped, None))
        (record,) = next(iter(_Records(blocks, self.delimiter, self.quote)), [""])
        return [_valid(field) or "" for field in self._fields(record) or ()]

    def batches(self, path: str, columns: Sequence[str], wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the wanted columns of a file, as texts; an empty field is NULL.

        Args:
            path: the file, perhaps compressed.
            columns: its columns' names, in its order.
            wanted: some of them.
        """
        places = [columns.index(name) for name in wanted]
        left = self.skipped
        first = self.header
        for block in _Records(_texts(path), self.delimiter, self.quote):
            del block[: (cut := min(left, len(block)))]
            left -= cut
            if first and block and not left:
                first = False
                del block[0]
            rows = [row for row in self._rows(block) if row is not None and len(row) == len(columns)]
            yield pa.RecordBatch.from_arrays(
                [_column([row[i] for row in rows]) for i in places], list(wanted)
            )

    def _rows(self, records: list[str]) -> Iterable[list[str] | None]:
        if not any(self.quote in r for r in records):
            return [r.split(self.delimiter) for r in records]
        # The module of the library is ten times as fast, but raises for a whole block.
        limit = csv.field_size_limit()
        if all(r and "\r" not in r and len(r) < limit for r in records):
            try:
                return list(csv.reader(records, delimiter=self.delimiter, quotechar=self.quote, strict=True))
            except csv.Error:
                pass
        return map(self._fields, records)

    def _fields(self, record: str) -> list[str] | None:
        """Return the fields of a record, or None where a quote is not closed at the end of its field."""
        fields, at, quote = [], 0, self.quote
        while True:
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


def json_lines(path: str) -> Iterator[pa.RecordBatch]:
    """Yield the lines of a file in one column, `line`; a line that is not UTF-8 is NULL."""
    for block in _texts(path):
        yield pa.RecordBatch.from_arrays([_column(block)], ["line"])


def first_line(path: str) -> str:
    """Return a file's first line that is not blank, as text."""
    lines = (line.strip() for block in _texts(path) for line in block)
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


def _texts(path: str) -> Iterator[list[str]]:
    """Yield the lines of a file, many at a time; bytes that are not UTF-8 are surrogates."""
    rest, skipping, start = b"", False, True
    with pa.input_stream(path, compression="detect") as stream:
        while block := stream.read(_BLOCK):
            lines = (rest + block).split(b"\n")
            if start:
                lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
                start = len(lines) == 1 and len(lines[0]) < 3
            rest = lines.pop()
            if skipping and lines:
                del lines[0]
                skipping = False
            if len(rest) > MOST_BYTES or skipping:
                rest, skipping = b"", True
            if lines:
                yield _decoded(lines)
    if rest:
        yield _decoded([rest])


def _decoded(lines: list[bytes]) -> list[str]:
    return b"\n".join(lines).decode(errors="surrogateescape").split("\n")


class _Records:
    """Joins lines to records while a quote is open.

    A quote opens where a field begins, and closes where it ends. One that closes elsewhere, or nowhere near,
    was not meant as one: its line is no record, and the lines that were looked at are read again.
    """

    def __init__(self, blocks: Iterable[list[str]], delimiter: str, quote: str) -> None:
        self._blocks, self._delimiter, self._quote = iter(blocks), delimiter, quote
        self._lines: deque[str] = deque()

    def __iter__(self) -> Iterator[list[str]]:
        for block in self._blocks:
            if any(self._quote in line for line in block):
                self._lines.extend(block)
                while self._lines:
                    yield self._some()
            else:
                yield [line.removesuffix("\r") for line in block]

    def _some(self) -> list[str]:
        found: list[str] = []
        while self._lines and len(found) < _RECORDS:
            line = self._lines.popleft()
            if line.count(self._quote) % 2 and self._open(line, False):
                line = self._joined(line) or line
            found.append(line.removesuffix("\r"))
        return found

    def _joined(self, line: str) -> str | None:
        """Return the record whose first line opens a quote, or None with its other lines put back."""
        parts, size = [line], len(line)
        while size <= MOST_QUOTED:
            if not self._lines:
                self._lines.extend(next(self._blocks, ()))
                if not self._lines:
                    break
            parts.append(self._lines.popleft())
            size += len(parts[-1]) + 1
            still = self._open(parts[-1], True)
            if still is False:
                return "\n".join(parts)
            if still is None:
                break
        self._lines.extendleft(reversed(parts[1:]))
        return None

    def _open(self, line: str, opened: bool) -> bool | None:
        """Whether a quote is open after a line; None if one closes where no field ends."""
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
