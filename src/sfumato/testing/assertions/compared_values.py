"""The values that an assertion compares, by group and output, and the messages about their differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, RefusalError
from sfumato.testing.flakiness import probability_text

if TYPE_CHECKING:
    from sfumato.query.aggregates import Estimate


Group = tuple[object, ...]
ONLY = "value"
_TABLES = ("pyarrow", "pandas", "polars")


@dataclass(frozen=True)
class Cells:
    """The values of one side of an assertion, by group and output.

    Args:
        kind: what they were read from, for messages: "number", "array of shape (3,)", "table", ...
        values: by group key, then by output's name.
        twice: groups that were there more than once.
    """

    kind: str
    values: Mapping[Group, Mapping[str, object]]
    twice: tuple[Group, ...] = field(default=())

    @property
    def outputs(self) -> tuple[str, ...]:
        """All outputs of the compared values, in the order in which they first appear."""
        return tuple(dict.fromkeys(name for row in self.values.values() for name in row))


def read(value: Any, name: str, keys: Sequence[str] | None = None) -> Cells:
    """Read one side of an assertion: a number, an array, a mapping or a table, as values to compare.

    Args:
        value: a number; an array or list of numbers; a mapping of numbers by group key, or of
            mappings by output; a table (Arrow, pandas, Polars) or a list of rows as mappings.
        name: of the argument, for messages.
        keys: the group key's columns of a table.
    Raises:
        ParameterError: it is none of these, or it is a table and its keys are missing.
        RefusalError: SQL has computed it with releases.

    >>> read({"a": 1, "b": 2}, "actual").values
    {('a',): {'value': 1}, ('b',): {'value': 2}}
    """
    if is_number(value):
        return Cells("number", {(): {ONLY: value}})
    if isinstance(value, Mapping):
        return _mapping(value)
    if is_table(value):
        return rows(_records(value), name, keys)
    if isinstance(value, (list, tuple)) and value and all(isinstance(row, Mapping) for row in value):
        return rows(value, name, keys)
    if isinstance(value, (list, tuple)) or hasattr(value, "__array__"):
        return _array(value, name)
    if hasattr(value, "released"):
        raise RefusalError(f"{name} is computed with released tables. Pass one of these, .released")
    raise ParameterError(name, value, "a number, an array, a mapping, a table or a release of sfumato")


def rows(records: Iterable[Mapping[str, object]], name: str, keys: Sequence[str] | None) -> Cells:
    """Read the rows of a table as values to compare; see `read`."""
    found = list(records)
    if keys is None:
        if len(found) != 1:
            raise ParameterError(
                "keys",
                None,
                f'given, as {name} is a table: the columns that name a group, such as keys=["year"]',
            )
        keys = ()
    values: dict[Group, Mapping[str, object]] = {}
    twice = []
    for row in found:
        absent = [k for k in keys if k not in row]
        if absent:
            raise ParameterError(
                "keys", list(keys), f"columns of {name}, which has {', '.join(map(str, row))}"
            )
        group = tuple(plain_key(row[k]) for k in keys)
        if group in values:
            twice.append(group)
        values[group] = {str(column): v for column, v in row.items() if column not in keys}
    return Cells("table", values, tuple(twice))


def select_cells(cells: Cells, columns: Sequence[str] | None, known: Sequence[str]) -> Cells:
    """Return the compared values of the outputs that an assertion names; all by default.

    Args:
        cells: values by group and output.
        columns: names of outputs; that of a list is for all of its entries.
        known: the outputs that there are.
    Raises:
        ParameterError: there is no output of that name.
    """
    if columns is None:
        return cells
    names = (columns,) if isinstance(columns, str) else columns
    if not isinstance(names, Sequence) or not names or not all(isinstance(n, str) for n in names):
        raise ParameterError("columns", columns, "a list of names, such as ['people'], or left out")
    if unknown := [n for n in names if not any(n in (o, _list_name(o)) for o in known)]:
        raise ParameterError("columns", unknown, f"among what is compared: {', '.join(known)}")
    values = {
        group: {o: value for o, value in row.items() if o in names or _list_name(o) in names}
        for group, row in cells.values.items()
    }
    return replace(cells, values=values)


def check_all_compared(
    got: Cells, wanted: Cells, name: str, columns: Sequence[str] | None, passed_over: Sequence[str] = ()
) -> None:
    """Raise where the actual side has an output with no expected value, and `columns` does not say so.

    Args:
        got, wanted: the two sides, of which the first may have more outputs where `columns` says so.
        name: of the second side.
        columns: that were asked for.
        passed_over: outputs of which nothing need be said.
    """
    told = None if columns is None else select_cells(got, columns, got.outputs).outputs
    for group, row in wanted.values.items():
        lacking = [
            o
            for o in got.values.get(group, ())
            if o not in row
            and row.keys() <= got.values[group].keys()
            and o not in passed_over
            and (told is None or o in told)
        ]
        if lacking:
            which = f" of {label(group)}" if any(o in wanted.outputs for o in lacking) else ""
            advice = f"give it too, or name what is compared: columns={list(wanted.outputs)}"
            raise AssertionError(
                f"shapes do not match: {name}{which} lacks {', '.join(lacking)}, which actual has; {advice}"
            )


def _list_name(output: str) -> str:
    """Return the name of the list that a compared output is an entry of.

    >>> _list_name("total[0]"), _list_name("total")
    ('total', 'total')
    """
    return output.partition("[")[0] if output.endswith("]") else output


def is_number(value: object) -> bool:
    """Whether a value to compare is one number (a bool is not one)."""
    if isinstance(value, bool):
        return False
    if isinstance(value, (Real, Decimal)):
        return True
    dtype = getattr(value, "dtype", None)
    return (
        type(value).__module__ == "numpy"
        and getattr(value, "ndim", 1) == 0
        and getattr(dtype, "kind", "") in "iuf"
    )


def is_whole(value: object) -> bool:
    """Whether a value to compare is of a type of whole numbers."""
    return isinstance(value, (Integral, int)) and not isinstance(value, bool)


def is_table(value: object) -> bool:
    """Whether a value to compare is an Arrow, pandas or Polars table, without an import of these."""
    home = type(value).__module__.partition(".")[0]
    return home in _TABLES and type(value).__name__ in ("Table", "RecordBatch", "DataFrame", "LazyFrame")


def number(value: object) -> float | None:
    """Return a compared value as a float; None for a missing value or one that is no number."""
    if value is None or not is_number(value):
        return None
    return float(value)  # type: ignore[arg-type]


def numbers(row: Mapping[str, object]) -> dict[str, float]:
    """Return the compared values of a row that are numbers, as floats."""
    return {output: x for output, value in row.items() if (x := number(value)) is not None}


def difference(value: object, other: object) -> float:
    """Return the difference of two compared values, exactly for whole numbers."""
    if is_whole(value) and is_whole(other):
        return float(int(value) - int(other))  # type: ignore[call-overload]
    if isinstance(value, (int, Fraction)) and isinstance(other, (int, Fraction)):
        return float(value - other)
    return float(value) - float(other)  # type: ignore[arg-type]


def label(group: Group) -> str:
    """Write the key of a compared group.

    >>> label(()), label(("a",)), label((1991, "b"))
    ('all', "'a'", "(1991, 'b')")
    """
    if not group:
        return "all"
    return repr(group[0]) if len(group) == 1 else repr(group)


def where_text(group: Group, output: str) -> str:
    """Return what a message calls a compared value."""
    return label(group) if output == ONLY else f"{label(group)} {output}"


def plain_key(key: object) -> object:
    """Return the key of a compared group as a plain Python value, equal for all libraries."""
    if type(key).__module__ == "numpy" and hasattr(key, "item"):
        key = key.item()
    if isinstance(key, float) and math.isnan(key):
        return "NaN"
    if type(key).__name__ in ("NAType", "NaTType"):
        return None
    return key


def _mapping(value: Mapping[Any, Any]) -> Cells:
    values = {
        parse_group(key): {str(o): x for o, x in v.items()} if isinstance(v, Mapping) else {ONLY: v}
        for key, v in value.items()
    }
    return Cells("mapping", values)


def parse_group(key: object) -> Group:
    """Return the key of a compared mapping as a group."""
    return tuple(plain_key(k) for k in key) if isinstance(key, tuple) else (plain_key(key),)


def _array(value: Any, name: str) -> Cells:
    import numpy as np

    try:
        array = np.asarray(value)
    except ValueError:
        raise ParameterError(name, value, "an array whose rows are of one length") from None
    if array.dtype.kind not in "iuf" and not (
        array.dtype.kind == "O" and all(is_number(x) for x in array.ravel())
    ):
        raise ParameterError(name, value, "an array of numbers")
    values = {index: {ONLY: x.item() if hasattr(x, "item") else x} for index, x in np.ndenumerate(array)}
    return Cells(f"array of shape {array.shape}", values)


def _records(table: Any) -> list[dict[str, object]]:
    if hasattr(table, "collect"):
        table = table.collect()
    if hasattr(table, "to_pylist"):
        found: list[dict[str, object]] = table.to_pylist()
        return found
    if hasattr(table, "to_dicts"):
        dicts: list[dict[str, object]] = table.to_dicts()
        return dicts
    named = table.reset_index() if any(n is not None for n in table.index.names) else table
    columns = {str(c): _column(named[c]) for c in named.columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _column(series: Any) -> list[object]:
    """Return a pandas column to compare; missing values are None, and NaN among texts."""
    values: list[object] = series.tolist()
    if series.dtype.kind in "iuf":
        return values
    return [None if isinstance(v, float) and math.isnan(v) else v for v in values]


def by_entry(estimates: Iterable[Estimate]) -> dict[str, Estimate]:
    """Return the estimates to compare by name; a list has one for each entry, such as `total[0]`."""
    found: dict[str, Estimate] = {}
    for e in estimates:
        names = [f"{e.name}[{i}]" for i in range(e.entries)] or [e.name]
        found |= {name: replace(e, name=name) for name in names}
    return found


def written_out(cells: Cells, estimates: Iterable[Estimate], name: str) -> Cells:
    """Return compared values with one output for each entry of a list.

    Args:
        cells: values by group and output.
        estimates: of the outputs.
        name: of the argument, for messages.
    Raises:
        ParameterError: a list has another length.
    """
    lists = {e.name: e.entries for e in estimates if e.entries}
    if not lists:
        return cells

    def of_row(group: Any, row: Mapping[str, object]) -> dict[str, object]:
        found: dict[str, object] = {}
        for output, value in row.items():
            length = lists.get(output)
            if length is None:
                found[output] = value
                continue
            given: Any = value
            if isinstance(given, str) or not hasattr(given, "__len__") or len(given) != length:
                raise ParameterError(
                    f"{name} of {label(group)} {output}", value, f"a list of {length} numbers"
                )
            found |= {f"{output}[{i}]": entry for i, entry in enumerate(given)}
        return found

    return replace(cells, values={group: of_row(group, row) for group, row in cells.values.items()})


# So many values are listed in a message; the others are counted.
LISTED = 20


@dataclass(frozen=True)
class Off:
    """A compared value that is off, for an assertion's message."""

    group: Group
    output: str
    actual: object
    expected: object
    tolerance: float
    gap: float = math.nan
    log10: float | None = None

    def __str__(self) -> str:
        where = where_text(self.group, self.output)
        if math.isnan(self.gap):
            kind = "missing" if self.actual is None else _text(self.actual)
            return f"  {where}: {kind}, which no tolerance admits; expected {_text(self.expected)}"
        units = f" = {abs(self.gap) / self.tolerance:.3g} tolerances" if self.tolerance > 0 else ""
        chance = "" if self.log10 is None else f"; probability at most {probability_text(self.log10)}"
        return (
            f"  {where}: {_text(self.actual)}, expected {_text(self.expected)} within {self.tolerance:.6g}: "
            f"off by {self.gap:+.6g}{units}{chance}"
        )


def group_differences(got: Cells, wanted: Cells, name: str, forgiven: Sequence[Group] = ()) -> str:
    """Return a message about missing and extra groups; empty where the compared groups agree."""
    missing = [g for g in wanted.values if g not in got.values and g not in forgiven]
    extra = [g for g in got.values if g not in wanted.values]
    lines = []
    if missing:
        lines.append(f"  missing, in {name} alone: {labels(missing)}")
    if extra:
        lines.append(f"  extra, in actual alone: {labels(extra)}")
    return "\n".join(lines)


def labels(groups: Sequence[Group]) -> str:
    """Write the keys of compared groups, the first ones of many."""
    shown = ", ".join(label(g) for g in groups[:LISTED])
    return shown + (f" and {len(groups) - LISTED} more" if len(groups) > LISTED else "")


def report(differences: str, off: Sequence[Off], wanted: Cells, stated: str) -> None:
    """Raise an assertion's message if compared values are off, the farthest first."""
    if not off and not differences:
        return
    values = sum(len(row) for row in wanted.values.values())
    lines = []
    if off:
        lines.append(f"{len(off)} of {values} values {'is' if len(off) == 1 else 'are'} off{stated}")
        lines += [str(o) for o in sorted(off, key=_farthest)[:LISTED]]
        if len(off) > LISTED:
            lines.append(f"  and {len(off) - LISTED} more")
    else:
        lines.append("the groups differ")
    if differences:
        lines.append(differences)
    raise AssertionError("\n".join(lines))


def _farthest(off: Off) -> float:
    if math.isnan(off.gap):
        return -math.inf
    return -abs(off.gap) / off.tolerance if off.tolerance > 0 else -math.inf


def too_close_message(near: Sequence[Off], values: int, stated: str) -> str:
    """Return an assertion's message about values too near to their raw ones."""
    lines = [f"noise is missing or too narrow in {len(near)} of {values} values{stated}"]
    for o in near[:LISTED]:
        lines.append(
            f"  {where_text(o.group, o.output)}: {_text(o.actual)} is within {o.tolerance:.6g} of the raw "
            f"{_text(o.expected)}: {o.gap:+.6g}"
        )
    if len(near) > LISTED:
        lines.append(f"  and {len(near) - LISTED} more")
    return "\n".join(lines)


def _text(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
