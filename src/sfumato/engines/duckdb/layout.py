"""The layout of a CSV file: its delimiter, its quote, and where its header is.

Everything follows from the header and from the names that somebody declares. No other row has a part in how
rows are read, except in `inferred_names`, which proposes names to declare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.inference import MISSING
from sfumato.engines.duckdb.lines import Csv
from sfumato.errors import EngineError, shown

DELIMITERS = ",;\t|"
# Lines before the header, at most, and lines that names are inferred from.
_PREAMBLE, _SAMPLE = 64, 1000


@dataclass(frozen=True)
class Layout:
    """How one file is laid out.

    Args:
        form: how its records are written.
        names: of its columns, in its order; a column without a name is `column` and its place, from 0.
        least: how many fields a record must have: at the end, those without a name may be missing.
    """

    form: Csv
    names: tuple[str, ...]
    least: int

    def batches(self, file: str, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns of the file as texts; see `Csv.batches`."""
        return self.form.batches(file, self.names, wanted, self.least)


def layout_of(file: str, form: Csv, delimiters: str, declared: Collection[str]) -> Layout:
    """Return the layout in which most of the declared names are found.

    The first line is the header, or lines stand before it that have fewer fields, and it has all these names.
    Where all names are those of columns without a name, and as many as the first line has fields, there is
    no header.

    Args:
        file: the path.
        form: how its records are written, as far as that is known.
        delimiters: that are tried, in this order.
        declared: names of columns, perhaps not of all.
    Raises:
        EngineError: the header is no text in the encoding of the file.
    """
    lines = form.head(file, _SAMPLE)
    wanted = {name.casefold() for name in declared}
    unnamed = {f"column{i}" for i in range(len(wanted))}
    if wanted == unnamed:
        rows = [replace(form, delimiter=delimiter, header=False) for delimiter in delimiters]
        firsts = [(one, one.record(lines)[1]) for one in rows]
        for one, fields in firsts:
            fits = len(fields) == len(wanted) and {field.casefold() for field in fields} != wanted
            if fits and (len(wanted) > 1 or all(len(other) == 1 for _, other in firsts)):
                return _layout(one, fields)
    best, score = _layout(form, []), (-1, -1)
    for delimiter in delimiters:
        most = 0  # fields of a line before
        for skipped in range(min(len(lines), _PREAMBLE) or 1):
            one = replace(form, delimiter=delimiter, skipped=skipped)
            one = replace(one, quote=_quote(lines[skipped], one) if lines else '"')
            _, fields = one.record(lines[skipped:])
            found = _layout(one, fields)
            named = ({field.strip().casefold() for field in fields} & wanted) - unnamed
            new = len(named), _found(found.names, wanted)
            complete = new[0] and new[1] == len(wanted) and len(fields) > most
            if (complete or not skipped) and new > score:
                best, score = found, new
            most = max(most, len(fields))
    if best.form.header and (wrong := [name for name in best.names if not _is_text(name)]):
        raise EngineError(
            f"scan: the header of {shown(file)} has bytes that are not {form.encoding or 'UTF-8'}, in column "
            f"{best.names.index(wrong[0]) + 1}. Write encoding='latin-1', or what else the file is written in"
        )
    return best


def inferred_names(file: str, form: Csv, delimiters: str) -> tuple[str, ...] | None:
    """Return the names of a file's columns, by its header and the sizes of its first rows; None without any.

    Args:
        file, form, delimiters: as of `layout_of`.
    """
    lines = form.head(file, _SAMPLE)
    best, score = None, (0.0, 0)
    for delimiter, quote in product(delimiters, "\"'"):
        one = replace(form, delimiter=delimiter, quote=quote)
        records = [record for record in one.records(lines) if any(record[1])]
        if not records:
            continue
        sizes = Counter(len(fields) for _, fields in records)
        size, times = max(sizes.items(), key=lambda item: (item[1], item[0]))
        filled = max(_filled(fields) for _, fields in records if len(fields) == size)
        line, header = next(one for one in records if filled <= len(one[1]) and _filled(one[1]) <= size)
        new = (times / len(records) if size > 1 else 0.0, size)
        if quote == _quote(line, one) and (best is None or new > score):
            best, score = tuple(_names(header)), new
    return best


def names_without_header(
    layout: Layout, file: str, types: Mapping[str, str], reads: Callable[[Mapping[str, str]], bool]
) -> tuple[str, ...] | None:
    """Return the names of columns if what was taken for the header is a row; None if it is the header.

    Args:
        layout: of the file.
        file: the path.
        types: inferred from the other rows.
        reads: whether values, by the names of columns, are of their types.
    """
    form = layout.form
    _, fields = form.record(form.head(file, _SAMPLE)[form.skipped :])
    values = {
        name: field
        for name, field in zip(layout.names, fields, strict=True)
        if field.strip() not in ("", *MISSING) and types[name] != "VARCHAR"
    }
    # pandas writes such names where columns have none, behind the empty one of the index.
    numbered = not fields[0] and fields[1:] == list(map(str, range(len(fields) - 1)))
    is_row = reads(values) if values else len(set(map(str.casefold, layout.names))) < len(layout.names)
    return tuple(f"column{i}" for i in range(len(fields))) if is_row and not numbered else None


def _quote(header: str, form: Csv) -> str:
    """Return the quote of a header: single ones where a name stands in these, and none in double ones."""
    fields = header.removesuffix("\r").split(form.delimiter)
    single = any(len(name) > 1 and name[0] == name[-1] == "'" for name in fields)
    return "'" if single and '"' not in header else '"'


def _layout(form: Csv, fields: list[str]) -> Layout:
    if not form.header:
        return Layout(form, tuple(f"column{i}" for i in range(len(fields))), len(fields))
    return Layout(form, tuple(_names(fields)), max(_filled([field.strip() for field in fields]), 1))


def _filled(fields: Sequence[str]) -> int:
    """Return the number of fields without the empty ones at the end."""
    return max((i for i, field in enumerate(fields, 1) if field), default=0)


def _names(fields: Sequence[str]) -> list[str]:
    return [field.strip() or f"column{i}" for i, field in enumerate(fields)]


def _found(names: Sequence[str], wanted: set[str]) -> int:
    return len({name.casefold() for name in names} & wanted)


def _is_text(name: str) -> bool:
    with suppress(UnicodeEncodeError):
        return bool(name.encode())
    return False
