"""The description of what a release will draw: plain data, read strictly against version 1 of its schema.

A form is the name of a scalar (a key of `SCALARS`), a record (a dict from fields to forms), or one of the
small classes below. A record has exactly its fields: one that is missing or unknown refuses the description.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

VERSION = 1


class Refusal(ValueError):
    """Why a description is not certified.

    Args:
        where: the place in the description, such as "parts[0].noise".
        problem: what is wrong or unknown there.
    """

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = problem
        super().__init__(f"{where or 'description'}: {problem}")


@dataclass(frozen=True)
class Null:
    """A form, or null."""

    form: Any


@dataclass(frozen=True)
class ListOf:
    """A list of values of a form, with at least so many."""

    form: Any
    least: int = 0


@dataclass(frozen=True)
class MapOf:
    """An object from any names to values of a form."""

    form: Any


@dataclass(frozen=True)
class OneOf:
    """One of some values."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Tagged:
    """A record whose field `tag` says which other fields it has."""

    tag: str
    records: Mapping[str, Mapping[str, Any]]


_EXACT = re.compile(r"(0|-?[1-9][0-9]{0,2999})(?:/([1-9][0-9]{0,2999}))?", re.ASCII)


def _exact(value: Any) -> Fraction | None:
    found = _EXACT.fullmatch(value) if isinstance(value, str) else None
    return Fraction(int(found[1]), int(found[2] or 1)) if found else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _when(read: Callable[[Any], Any], admitted: Callable[[Any], bool]) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        found = read(value)
        return found if found is not None and admitted(found) else None

    return checked


# By name: what a value is, for messages; and a function that returns it, or None if it is none.
SCALARS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "text": ("a text", lambda value: value if isinstance(value, str) else None),
    "flag": ("true or false", lambda value: value if isinstance(value, bool) else None),
    "whole": ("a whole number from 0", _when(_whole, lambda x: 0 <= x < 2**63)),
    "count": ("a whole number from 1", _when(_whole, lambda x: 1 <= x < 2**63)),
    "integer": ("a whole number", _when(_whole, lambda x: abs(x) < 2**63)),
    "steps": ('whole steps as "n"', _when(_exact, lambda x: x.denominator == 1)),
    "positive_steps": ('whole steps above 0 as "n"', _when(_exact, lambda x: x.denominator == 1 and x > 0)),
    "positive": ('a number above 0 as "p/q"', _when(_exact, lambda x: x > 0)),
    "share": ('a number from 0 to 1 as "p/q"', _when(_exact, lambda x: 0 <= x <= 1)),
    "chance": ('a number from 0 to below 1 as "p/q"', _when(_exact, lambda x: 0 <= x < 1)),
}

LAW = OneOf(("laplace", "gaussian"))
_SUM = {"name": "text", "lower": "steps", "upper": "steps", "centre": "steps"}
_NUMBER = {"name": "text", "one": "positive_steps"}

STATISTICS = Tagged(
    "kind",
    {
        "units": _NUMBER,
        "rows": {**_NUMBER, "rows": "count"},
        "values": {**_NUMBER, "column": "text", "rows": "count"},
        "vector_rows": {**_NUMBER, "rows": "count"},
        "row_sums": {
            **_SUM,
            "column": "text",
            "rows": "count",
            "nulls": Null(_NUMBER),
            "squares": Null({"name": "text", "bits": "whole", "centre": "steps"}),
        },
        "unit_sum": {**_SUM, "missing": "flag"},
        "distinct": {**_NUMBER, "values": "count", "matched": "flag"},
        "cross": {
            "rows": "count",
            "complete": Null(_NUMBER),
            "columns": ListOf({**_SUM, "square_centre": "steps"}, 1),
            "pairs": ListOf({"name": "text", "first": "whole", "second": "whole"}),
        },
        "weighted": {
            "name": "text",
            "rows": "count",
            "weight": "positive_steps",
            "values": Null({**_SUM, "bits": "whole"}),
        },
        "bins": {
            "names": ListOf("text", 1),
            "rows": Null("count"),
            "one": "positive_steps",
            "weight": "positive_steps",
        },
        "nodes": {**_NUMBER, "rows": "count", "levels": "count"},
        "vector": {
            "name": "text",
            "length": "count",
            "radius": "positive_steps",
            "ball": OneOf(("l1", "l2", "linf")),
            "rows": Null("count"),
        },
        "margin": {**_NUMBER, "rows": "count", "rank": "share", "bits": "whole"},
    },
)

CHOICES = Tagged(
    "kind",
    {
        "quantiles": {
            "name": "text",
            "rows": "count",
            "one": "positive_steps",
            "scale": "positive",
            "targets": ListOf({"rank": "share", "within": "flag"}, 1),
        }
    },
)

_SCALES = MapOf("positive")
NOISES = Tagged(
    "shape",
    {
        "independent": {"law": LAW, "scales": _SCALES},
        "k_norm": {
            "joint": "flag",
            "body": OneOf(("cone", "cube")),
            "units": "flag",
            "order": ListOf("text", 1),
            "scales": _SCALES,
        },
        "centred_gaussian": {
            "scales": _SCALES,
            "counts": ListOf({"name": "text", "weight": "count"}, 1),
            "common": "positive",
            "fine_bits": "whole",
        },
        "levels_gaussian": {
            "scales": _SCALES,
            "levels": ListOf(
                {"size": "positive", "totals": ListOf({"cells": "count", "times": "count"}, 1)}, 1
            ),
        },
        "series_gaussian": {
            "scales": _SCALES,
            "series": "count",
            "weights": ListOf("whole", 1),
            "weight_bits": "whole",
        },
        "tree_laplace": {
            "scales": _SCALES,
            "series": "count",
            "steps": "count",
            "blocks": ListOf("count", 1),
        },
    },
)

SELECTIONS = Tagged(
    "kind",
    {
        "truncated_geometric": {"epsilon": "positive", "delta": "chance", "pre_threshold": "count"},
        "threshold": {"name": "text", "threshold": "integer", "pre_threshold": "count"},
    },
)

_CLAIM = {"epsilon": "positive", "delta": "chance"}
PARTS = Tagged(
    "kind",
    {
        "groups": {
            **_CLAIM,
            "groups": {
                "keys": OneOf(("public", "private", "brought")),
                "shown": Null("count"),
                "per_unit": Null("count"),
                "beyond": OneOf(("sample", "scale")),
                "total_rows": Null("count"),
            },
            "statistics": ListOf(STATISTICS),
            "choices": ListOf(CHOICES),
            "noise": Null(NOISES),
            "selection": Null(SELECTIONS),
        },
        "largest_groups": {
            **_CLAIM,
            "keys": OneOf(("public", "private")),
            "lower": "steps",
            "upper": "steps",
            "rate": "positive",
            "picks": "count",
            "candidates": Null("count"),
            "margin": Null("whole"),
            "noise": Null({"law": LAW, "scale": "positive"}),
        },
        "survey": {**_CLAIM, "one": "positive_steps", "strata": "count", "law": LAW, "scale": "positive"},
    },
)

DESCRIPTION = {
    "version": OneOf((VERSION,)),
    "unit": "text",
    "neighbours": OneOf(("one_unit", "one_answer")),
    **_CLAIM,
    "parts": ListOf(PARTS, 1),
}


def read(value: Any, form: Any = DESCRIPTION, where: str = "") -> Any:
    """Return a description as Python numbers, fractions, lists and dicts.

    Args:
        value: plain data, as `json.load` gives it.
        form: what it must be.
        where: its place, for messages.
    Raises:
        Refusal: a field is missing, unknown, or not of its form.
    """
    if isinstance(form, str):
        what, convert = SCALARS[form]
        found = convert(value)
        if found is None:
            raise Refusal(where, f"expected {what}")
        return found
    if isinstance(form, Null):
        return None if value is None else read(value, form.form, where)
    if isinstance(form, OneOf):
        if not any(value == one and type(value) is type(one) for one in form.values):
            raise Refusal(where, f"expected one of {list(form.values)}")
        return value
    if isinstance(form, ListOf):
        if not isinstance(value, list) or len(value) < form.least:
            raise Refusal(where, f"expected a list of at least {form.least}")
        return [read(one, form.form, f"{where}[{i}]") for i, one in enumerate(value)]
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise Refusal(where, "expected an object")
    prefix = f"{where}." if where else ""
    if isinstance(form, MapOf):
        return {name: read(one, form.form, prefix + name) for name, one in value.items()}
    if isinstance(form, Tagged):
        kind = read(value.get(form.tag), OneOf(tuple(form.records)), prefix + form.tag)
        form = {form.tag: OneOf((kind,)), **form.records[kind]}
    for name in value:
        if name not in form:
            raise Refusal(prefix + name, "unknown field")
    for name in form:
        if name not in value:
            raise Refusal(prefix + name, "missing field")
    return {name: read(value[name], own, prefix + name) for name, own in form.items()}
