"""Pieces of SQL text."""

from __future__ import annotations


def identifier(name: str) -> str:
    """Quote a name."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a text."""
    return "'" + text.replace("'", "''") + "'"


def double(value: float) -> str:
    """Write a float64 such that it is read back exactly: with an exponent it is no decimal."""
    return f"({value:.17e})"
