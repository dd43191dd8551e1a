"""Pieces of SQL text."""

from __future__ import annotations

import re

# Types of columns, as DuckDB calls them, in which 0.0 and -0.0 are equal, and all NaN.
FLOATS = frozenset({"FLOAT", "DOUBLE"})


def identifier(name: str) -> str:
    """Quote a name."""
    return '"' + name.replace('"', '""') + '"'


def same_name(name: str) -> str:
    """Return what is equal for names that DuckDB takes for one: it ignores the case of ASCII alone.

    >>> same_name("Jahr") == same_name("JAHR"), same_name("Ära") == same_name("ära")
    (True, False)
    """
    return re.sub("[A-Z]", lambda found: found[0].lower(), name)


def literal(text: str) -> str:
    """Quote a text."""
    return "'" + text.replace("'", "''") + "'"


def double(value: float) -> str:
    """Write a float64 such that it is read back exactly: with an exponent it is no decimal."""
    return f"({value:.17e})"
