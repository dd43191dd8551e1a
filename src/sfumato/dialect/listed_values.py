"""Aggregates with lists: edges of bins, values that are counted, ranks of quantiles, strata of a sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from fractions import Fraction
from itertools import pairwise
from typing import Any

from sfumato.dialect.statement import Expression, Truth, WrittenAggregate
from sfumato.dialect.tokens import Literal, Place, positive
from sfumato.dialect.vocabulary import FORM, NAMED, STRATA
from sfumato.errors import ParameterError, SqlError
from sfumato.query import aggregates as ask
from sfumato.query.aggregates import Aggregate

Refuse = Callable[[Place, str], SqlError]
_MOST_BOUNDARIES = 1000
_BINS = "write HISTOGRAM(x, [0, 18, 65]), with the edges of bins"
_VALUES = "write VALUE_COUNTS(x, ['a', 'b']), with the values that are counted"
_CALLED = {"text": "texts", "word": "truth values", "number": "whole numbers", "date": "dates"}


def listed(
    call: WrittenAggregate,
    make: Callable[..., Aggregate],
    column: str,
    weights: Mapping[str, Any],
    refuse: Refuse,
) -> Aggregate:
    """Return what a call with a list, or with named arguments of its own, asks.

    Args:
        call: as it is written.
        make: the function of Python.
        column: whose values they are.
        weights: as the function takes them.
        refuse: makes an error at a place.
    Raises:
        SqlError: edges, values, or the length or the bound of vectors, are missing or not such.
    """
    options: dict[str, Any] = {
        name: given.value if isinstance(given, Truth) else given.text
        for name, given in call.named.items()
        if name in NAMED[call.function]
    }
    vectors = make in (ask.vector_sum, ask.vector_mean)
    given = () if vectors else (_bins(call, refuse),)
    if vectors:
        options["length"] = _length(call, refuse)
    try:
        return make(column, *given, **options, **weights)
    except ParameterError as error:  # there are too many, most likely
        raise refuse(call.name_place, str(error)) from None


def ranks_of(call: WrittenAggregate, text: str, refuse: Refuse) -> list[float] | float:
    """Return the ranks of a call for quantiles: a list of them, or one.

    Args:
        call: as it is written.
        text: of the statement.
        refuse: makes an error at a place.
    Raises:
        SqlError: they are missing, out of range or twice there.
    """
    function, ranks = call.function, call.ranks
    listing = function == "QUANTILES"
    boundaries = function in ("APPROX_QUANTILES", "ANON_QUANTILES")
    if not ranks or call.listed != listing:
        second = "[0.25, 0.5, 0.75]" if listing else "4" if boundaries else "0.5"
        place = ranks[0].place if ranks else call.name_place
        raise refuse(place, f"the second argument of {function} is written {second}")
    if boundaries:
        number = positive(text, ranks[0], f"the number of quantiles of {function}")
        if number > _MOST_BOUNDARIES:
            raise refuse(ranks[0].place, f"at most {_MOST_BOUNDARIES} quantiles can be asked at once")
        return [i / number for i in range(number + 1)]
    seen: set[float] = set()
    for rank in ranks:
        if not 0 <= Fraction(rank.text) <= 1:
            raise refuse(rank.place, "a rank must be a number in [0, 1], such as 0.5 for the median")
        if float(rank.text) in seen:
            raise refuse(rank.place, "this rank is asked twice")
        seen.add(float(rank.text))
    return [float(rank.text) for rank in ranks] if listing else float(ranks[0].text)


def _bins(call: WrittenAggregate, refuse: Refuse) -> list[Any]:
    edges = call.function == "HISTOGRAM"
    form, what = (_BINS, "edges") if edges else (_VALUES, "values")
    if call.bounds is not None:
        raise refuse(call.bounds.place, f"bins have no bounds but their {what}: {form}")
    if not call.listed:
        raise refuse(call.ranks[0].place if call.ranks else call.name_place, form)
    return _edges(call, refuse) if edges else _values(call.ranks, "this value is counted twice", refuse)


def _edges(call: WrittenAggregate, refuse: Refuse) -> list[str]:
    edges = call.ranks
    for one, other in pairwise(edges):
        if not float(one.text) < float(other.text) < math.inf or float(one.text) == -math.inf:
            raise refuse(other.place, "each edge is a number above the one before")
    if not 2 <= len(edges) <= ask.MOST_BINS + 1:
        raise refuse(call.name_place, f"there are from 1 to {ask.MOST_BINS:,} bins: {_BINS}")
    return [edge.text for edge in edges]


def _values(listed: Sequence[Literal], twice: str, refuse: Refuse) -> list[Any]:
    found: list[Any] = []
    for literal in listed:
        if literal.kind != listed[0].kind:
            raise refuse(literal.place, f"this is none of the {_CALLED[listed[0].kind]} that stand before it")
        value = _value(literal)
        if value is None:
            raise refuse(
                literal.place, f"values are {', '.join(_CALLED.values())}; this is none, or out of range"
            )
        if value in found:
            raise refuse(literal.place, twice)
        found.append(value)
    return found


def _value(literal: Literal) -> str | bool | int | date | None:
    """Return a value as Python has it; None for a number that is not whole, or no day."""
    if literal.kind == "text":
        return literal.text
    if literal.kind == "word":
        return literal.text.upper() == "TRUE"
    if literal.kind == "date":
        try:
            return date.fromisoformat(literal.text)
        except ValueError:
            return None
    number = Fraction(literal.text)
    return int(number) if number.denominator == 1 and -(2**63) <= number < 2**63 else None


def _length(call: WrittenAggregate, refuse: Refuse) -> int:
    """Return the length of vectors, where their bound is there too."""
    form = (
        f"write {call.function}(x, length => 128, bound => 1), for vectors of 128 entries and a norm up to 1"
    )
    if call.bounds is not None:
        raise refuse(call.bounds.place, f"a vector has one bound, that of its norm: {form}")
    if call.ranks:
        raise refuse(call.ranks[0].place, form)
    given = call.named
    for name in ("length", "bound"):
        if name not in given:
            raise refuse(call.name_place, f"{name} is missing; {form}")
    length: Literal = given["length"]
    if Fraction(length.text).denominator != 1:
        raise refuse(length.place, "the length of vectors is a whole number")
    return int(Fraction(length.text))


def proportion(
    call: WrittenAggregate, answer: str, column_of: Callable[[Expression], str], text: str, refuse: Refuse
) -> Aggregate:
    """Return what STRATIFIED_PROPORTION asks.

    Args:
        call: as it is written.
        answer: the column of answers.
        column_of: gives the name of the column that an expression is.
        text: of the statement.
        refuse: makes an error at a place.
    Raises:
        SqlError: an argument is missing or out of range.
    """
    given = call.named
    missing = [name for name in STRATA if name not in given and name != "confidence"]
    if missing:
        raise refuse(call.name_place, f"{' and '.join(missing)} missing: {FORM}")
    first = given["strata"][0].place
    strata = _values(given["strata"], "strata: each is there once", refuse)
    sizes = []
    for name in ("asked", "population"):
        entries = given[name]
        if len(entries) != len(strata):
            place = Place(entries[0].place.start, entries[-1].place.stop)
            raise refuse(place, f"{name} has {len(entries)} sizes, strata has {len(strata)} entries")
        whole = [positive(text, entry, f"a size in {name}") for entry in entries]
        sizes.append(dict(zip(strata, whole, strict=True)))
    more = {"confidence": given["confidence"].text} if "confidence" in given else {}
    stratum = column_of(given["stratum"])
    try:
        return ask.proportion(answer, stratum=stratum, asked=sizes[0], population=sizes[1], **more)
    except ParameterError as error:
        raise refuse(first, str(error)) from None
