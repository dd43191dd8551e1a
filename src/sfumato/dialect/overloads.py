"""The DuckDB functions and overloads that queries may call, checked against a list of tested ones.

`overloads.txt` has a line for each function that is known: its name, `macro` if DuckDB defines it by an
expression, and the types of its arguments in each overload that was tried on hostile rows. A function or an
overload that is not there is refused, and so is one whose results no longer follow from its arguments alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import duckdb

from sfumato.dataclass import dataclass
from sfumato.dialect.syntax_tree import ask

_KNOWN = Path(__file__).with_suffix(".txt")
_ZONED = re.compile("TIME ZONE|TIMESTAMPTZ")
_GENERIC = re.compile(r"ANY|[A-Z]")  # ANY, T, K and V stand for every type
_COMPUTING = ("scalar", "aggregate", "window", "macro")


class Overload(NamedTuple):
    """One overload of a DuckDB function, from DuckDB's catalog of functions.

    Args:
        name: in lower case.
        kind: scalar, aggregate, window, macro or table.
        signature: the types of its arguments: "(BIGINT, VARCHAR)", and "ANY..." for any number of them.
        result: the type of its results.
        stability: CONSISTENT if its results follow from its arguments; None for a macro.
    """

    name: str
    kind: str
    signature: str
    result: str
    stability: str | None

    @property
    def is_consistent(self) -> bool:
        """Whether an overload's results follow from its arguments and the session's time zone alone."""
        zoned = _ZONED.search(self.signature + self.result) is not None
        return self.stability == "CONSISTENT" or (zoned and self.stability == "CONSISTENT_WITHIN_QUERY")

    def matches(self, types: Sequence[str | None], *, exactly: bool = False) -> bool:
        """Whether arguments of these types could select this overload.

        Args:
            types: None for one that is not known.
            exactly: whether ANY, and a type that is not known, match nothing.
        """
        names = [name.strip() for name in re.findall(r"(?:[^,(]|\([^)]*\))+", self.signature[1:-1])]
        if names and names[-1].endswith("..."):
            more = names.pop()[:-3]
            names += [more] * (len(types) - len(names))
        return len(names) == len(types) and all(
            _matches(name, given, exactly) for name, given in zip(names, types, strict=True)
        )


def _matches(name: str, value: str | None, exactly: bool) -> bool:
    """Whether an argument's type matches a type in an overload's signature."""
    if value is None or _GENERIC.fullmatch(name):
        return not exactly
    if name.endswith("[]") and _GENERIC.fullmatch(name[:-2]):
        return not exactly and value.endswith("]")
    return name in (value, value.partition("(")[0]) or (name == "LIST" and value.endswith("]"))


@dataclass(frozen=True)
class Functions:
    """The functions of the running DuckDB that queries may call, and their tested overloads.

    Args:
        enclosing: names of functions that post-processing may call.
        known: overloads that an expression of one row may use, by name.
        strange: others that DuckDB has by these names.
        missing: names that this DuckDB does not have.
    """

    enclosing: frozenset[str]
    known: Mapping[str, tuple[Overload, ...]]
    strange: Mapping[str, tuple[Overload, ...]]
    missing: frozenset[str]

    def refusal(self, name: str, types: Sequence[str | None]) -> str:
        """Return why an overload for these argument types may not be called; "" if it may.

        Args:
            name: in lower case, a function that expressions of one row may call.
            types: of the arguments, as DuckDB has cast them; None for one that is not known.
        """
        strange = self.strange.get(name, ())
        if not strange or any(one.matches(types, exactly=True) for one in self.known[name]):
            return ""
        for one in strange:
            if one.matches(types):
                which = f"{name}{one.signature} of DuckDB {duckdb.__version__}"
                if one.is_consistent or one.stability is None:
                    return f"{which} is new, and not known to be safe on every row"
                return f"{which} can change between calls (it is {one.stability})"
        return ""


def classify(catalog: Iterable[Overload]) -> Functions:
    """Compare DuckDB's overloads with the tested ones and return which functions may be called."""
    tried, macros = _known()
    found: dict[str, list[Overload]] = {name: [] for name in tried}
    for one in catalog:
        if one.name in found and one.kind in _COMPUTING:
            found[one.name].append(one)
    around = {
        name
        for name, overloads in found.items()
        if (overloads or name in macros)
        and all(one.is_consistent if one.kind != "macro" else name in macros for one in overloads)
    }
    known: dict[str, tuple[Overload, ...]] = {}
    strange: dict[str, tuple[Overload, ...]] = {}
    for name in [name for name, signatures in tried.items() if signatures]:
        safe = [
            one
            for one in found[name]
            if one.kind == "scalar" and one.is_consistent and one.signature in tried[name]
        ]
        known[name] = tuple(safe)
        strange[name] = tuple(one for one in found[name] if one not in safe)
    missing = frozenset(name for name in known if not found[name])
    return Functions(frozenset(around), known, strange, missing)


@cache
def functions() -> Functions:
    """Return the functions and overloads of the running DuckDB that may be called."""
    return classify(catalog())


def catalog() -> list[Overload]:
    """Return the overloads of the running DuckDB's functions that compute values."""
    rows = ask(
        "SELECT lower(function_name), function_type, parameter_types, varargs, coalesce(return_type, ''), "
        f"stability FROM duckdb_functions() WHERE function_type IN {_COMPUTING}"
    )
    return [
        Overload(name, kind, _signature(types or (), more), *rest) for name, kind, types, more, *rest in rows
    ]


def _signature(types: Iterable[str | None], more: str | None) -> str:
    """Return the argument types of an overload as `overloads.txt` writes them."""
    return f"({', '.join([*map(str, types), *([f'{more}...'] if more else [])])})"


@cache
def _known() -> tuple[dict[str, frozenset[str]], frozenset[str]]:
    """Return the tested overloads by function name, and the names of macros."""
    signatures: dict[str, frozenset[str]] = {}
    macros = set()
    for line in _KNOWN.read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition(" ")
        signatures[name] = frozenset(f"({one})" for one in rest[1:-1].split(") (") if rest.startswith("("))
        if rest == "macro":
            macros.add(name)
    return signatures, frozenset(macros)
