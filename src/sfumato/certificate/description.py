"""The description of what a release will draw: plain data, read strictly against version 1 of its grammar."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

# A record has exactly these fields, each with its form: a scalar, a record, or values between quotes. "?"
# adds null; "*" makes a list, "+" one that is not empty, "%" an object from names. "@" includes the fields of
# another record. Where a record is one of several, its first field says which.
GRAMMAR = """
description: version:version unit:text neighbours:'one_unit'|'one_answer' @claim parts:part+
claim: epsilon:positive delta:chance

part: kind = groups | largest_groups | survey
groups: @claim groups:limits statistics:statistic* choices:choice* noise:noise? selection:selection?
limits: keys:'public'|'private'|'brought' @most beyond:'sample'|'scale'
most: shown:count? per_unit:count? total_rows:count?
largest_groups: @claim keys:'public'|'private' @range @picks noise:law?
range: lower:steps upper:steps
picks: rate:positive picks:count candidates:count? margin:whole?
law: law:'laplace'|'gaussian' scale:positive
survey: @claim one:positive_steps strata:count @law

statistic: kind = units | rows | values | vector_rows | row_sums | unit_sum | distinct | cross | weighted
statistic: kind = bins | nodes | vector | margin
number: name:text one:positive_steps
sum: name:text @range centre:steps
units: @number
rows: @number rows:count
values: @number rows:count column:text
vector_rows: @number rows:count
row_sums: @sum rows:count column:text nulls:number? squares:squares?
squares: name:text bits:bits centre:steps
unit_sum: @sum missing:flag
distinct: @number values:count matched:flag
cross: rows:count complete:number? columns:column+ pairs:pair*
column: @sum square_centre:steps
pair: name:text first:whole second:whole
weighted: name:text rows:count weight:positive_steps values:products?
products: @sum bits:bits
bins: names:text+ one:positive_steps weight:positive_steps rows:count?
nodes: @number rows:count levels:count
vector: name:text length:count radius:positive_steps ball:'l1'|'l2'|'linf' rows:count?
margin: @number rows:count rank:share bits:bits

choice: kind = quantiles
quantiles: name:text rows:count one:positive_steps scale:positive targets:target+
target: rank:share within:flag

noise: shape = independent | k_norm | centred_gaussian | levels_gaussian | series_gaussian | tree_laplace
independent: law:'laplace'|'gaussian' scales:positive%
k_norm: joint:flag body:'cone'|'cube' units:flag order:text+ scales:positive%
centred_gaussian: scales:positive% counts:count_weight+ common:positive fine_bits:bits
count_weight: name:text weight:count
levels_gaussian: scales:positive% levels:level+
level: size:positive totals:total+
total: cells:count times:count
series_gaussian: scales:positive% series:count weights:whole+ weight_bits:bits
tree_laplace: scales:positive% series:count steps:count blocks:count+

selection: kind = truncated_geometric | threshold
truncated_geometric: @claim pre_threshold:count
threshold: name:text threshold:integer pre_threshold:count
"""


class CertificateError(ValueError):
    """Why a description is not certified. Raised by `certify`.

    Args:
        where: the place in the description, such as "parts[0].noise".
        problem: what is wrong or unknown there.
    """

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = problem
        super().__init__(f"{where or 'description'}: {problem}")


def require(condition: object, where: str, problem: str) -> None:
    """Refuse where a condition is false."""
    if not condition:
        raise CertificateError(where, problem)


_EXACT = re.compile(r"(0|-?[1-9][0-9]{0,2999})(?:/([1-9][0-9]{0,2999}))?", re.ASCII)


def _exact(value: Any) -> Fraction | None:
    found = _EXACT.fullmatch(value) if isinstance(value, str) else None
    return Fraction(int(found[1]), int(found[2] or 1)) if found else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# For each scalar what it is, for messages; what reads it, or gives None; and which values it admits.
SCALARS: Mapping[str, tuple[str, Callable[[Any], Any], Callable[[Any], bool]]] = {
    "version": ("1, the version that is known", _whole, lambda x: x == 1),
    "text": ("a text", lambda value: value if isinstance(value, str) else None, lambda x: True),
    "flag": ("true or false", lambda value: value if isinstance(value, bool) else None, lambda x: True),
    "whole": ("a whole number from 0", _whole, lambda x: 0 <= x < 2**63),
    "bits": ("a whole number from 0 to 128", _whole, lambda x: 0 <= x <= 128),
    "count": ("a whole number from 1", _whole, lambda x: 1 <= x < 2**63),
    "integer": ("a whole number", _whole, lambda x: -(2**63) < x < 2**63),
    "steps": ('whole steps as "n"', _exact, lambda x: x.denominator == 1),
    "positive_steps": ('whole steps above 0 as "n"', _exact, lambda x: x.denominator == 1 and x > 0),
    "positive": ('a number above 0 as "p/q"', _exact, lambda x: x > 0),
    "share": ('a number from 0 to 1 as "p/q"', _exact, lambda x: 0 <= x <= 1),
    "chance": ('a number from 0 to below 1 as "p/q"', _exact, lambda x: 0 <= x < 1),
}


def _parsed(grammar: str) -> tuple[dict[str, dict[str, str]], dict[str, tuple[str, list[str]]]]:
    """Return the records of a grammar, and which of them are one of several."""
    lines = [line.split(": ", 1) for line in grammar.splitlines() if line]
    unions: dict[str, tuple[str, list[str]]] = {}
    plain: dict[str, list[str]] = {}
    for name, text in lines:
        tag, _, kinds = text.partition(" = ")
        if kinds:
            unions[name] = tag, [*unions.get(name, (tag, []))[1], *kinds.split(" | ")]
        else:
            plain[name] = text.split(" ")

    def fields(name: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for field in plain[name]:
            own, _, form = field.partition(":")
            found |= fields(own[1:]) if own.startswith("@") else {own: form}
        return found

    return {name: fields(name) for name in plain}, unions


RECORDS, UNIONS = _parsed(GRAMMAR)


def read(value: Any, form: str = "description", where: str = "") -> Any:
    """Return a description as Python numbers, fractions, lists and dicts.

    Args:
        value: plain data, as `json.load` gives it.
        form: what it must be, of `GRAMMAR`.
        where: its place, for messages.
    Raises:
        CertificateError: a field is missing, unknown, or not of its form.
    """
    if form in SCALARS:
        what, convert, admitted = SCALARS[form]
        found = convert(value)
        require(found is not None and admitted(found), where, f"expected {what}")
        return found
    if form[0] == "'":
        require(isinstance(value, str) and f"'{value}'" in form.split("|"), where, f"expected {form}")
        return value
    base, many = form[:-1], form[-1]
    if many == "?":
        return None if value is None else read(value, base, where)
    if many in "*+":
        require(isinstance(value, list) and len(value) >= (many == "+"), where, "expected a list")
        return [read(one, base, f"{where}[{i}]") for i, one in enumerate(value)]
    require(isinstance(value, dict), where, "expected an object")
    prefix = f"{where}." if where else ""
    if many == "%":
        return {name: read(one, base, f"{prefix}{name}") for name, one in value.items()}
    fields = RECORDS.get(form, {})
    if form in UNIONS:
        tag, kinds = UNIONS[form]
        kind = read(value.get(tag), "|".join(f"'{kind}'" for kind in kinds), prefix + tag)
        fields = {tag: f"'{kind}'", **RECORDS[kind]}
    for name in {**fields, **value}:
        require(name in fields, f"{prefix}{name}", "unknown field")
        require(name in value, f"{prefix}{name}", "missing field")
    return {name: read(value[name], own, prefix + name) for name, own in fields.items()}
