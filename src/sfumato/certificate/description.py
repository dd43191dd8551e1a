"""The description of what a release will draw: plain data, read strictly against version 1 of its grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from fractions import Fraction
from typing import Any

Description = dict[str, Any]

# A record has exactly these fields, each with its form: a scalar, a record, or values between quotes. "?"
# adds null; "*" makes a list, "+" one that is not empty, "%" an object from names. "@" includes the fields of
# a record above. A name with a dot is one of several records: a first field without a form says which.
GRAMMAR = """
claim epsilon:positive delta:chance
description.one_unit neighbours version:version unit:text @claim parts:part+
description.one_answer neighbours version:version unit:text @claim parts:survey+
beyond beyond:'sample'|'scale'|'share'
limit keys:'public'|'private'|'brought' shown:count? per_unit:count? @beyond total_rows:count?
range lower:steps upper:steps
picks rate:positive picks:count candidates:count? margin:whole?
law law:'laplace'|'discrete_laplace'|'gaussian' scale:positive
part.groups kind @claim groups:limit statistics:statistic+ choices:choice* noise:noise selection:selection?
part.largest_groups kind @claim keys:'public'|'private' @range @picks noise:law?
survey kind:'survey' @claim one:positive_steps strata:count @law
number name:text one:positive_steps
sum name:text @range centre:steps
statistic.units kind @number
statistic.rows kind @number rows:count
statistic.values kind @number rows:count column:text
statistic.vector_rows kind @number rows:count
statistic.row_sums kind @sum rows:count column:text nulls:number? squares:squares?
squares name:text bits:bits centre:steps
statistic.unit_sum kind @sum missing:flag
statistic.distinct kind @number values:count matched:flag
statistic.cross kind rows:count complete:number? columns:column+ pairs:pair*
column @sum square_centre:steps
pair name:text first:whole second:whole
statistic.weighted kind name:text rows:count weight:positive_steps values:products?
products @sum bits:bits
statistic.bins kind names:text+ one:positive_steps weight:positive_steps rows:count?
statistic.nodes kind @number rows:count levels:count
statistic.vector kind name:text length:count radius:positive_steps ball:'l1'|'l2'|'linf' rows:count?
statistic.margin kind @number rows:count rank:share bits:bits
choice.quantiles kind name:text rows:count one:positive_steps scale:positive targets:target+
target rank:share within:flag
noise.independent shape law:'laplace'|'discrete_laplace'|'gaussian' scales:positive%
noise.k_norm shape joint:flag body:'cone'|'cube' units:flag order:text+ scales:positive%
noise.centred_gaussian shape scales:positive% counts:count_weight+ common:positive fine_bits:bits
count_weight name:text weight:count
noise.levels_gaussian shape scales:positive% levels:level+
level size:positive totals:total+
total cells:count times:count
noise.series_gaussian shape scales:positive% series:count weights:whole+ weight_bits:bits
noise.tree_laplace shape scales:positive% series:count steps:count blocks:count+
selection.truncated_geometric kind @claim pre_threshold:count
selection.threshold kind name:text threshold:count pre_threshold:count
"""


class CertificateError(ValueError):
    """Error: a description is not certified; raised by `certify`.

    Args:
        where: the place in the description, such as "parts[0].noise".
        problem: what is wrong or unknown there.
    """

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(repr(f"{where or 'description'}: {problem}")[1:-1])  # one line, whatever the names


def require(condition: object, where: str, problem: str) -> None:
    """Refuse where a condition is false."""
    if not condition:
        raise CertificateError(where, problem)


_MAX_STEPS = 1_500_000  # of about a microsecond each, to check one description
_steps_left = ContextVar("steps_left", default=1 << 62)


def take(steps: int) -> None:
    """Refuse a description that asks for more work than any release, before the work is done."""
    require(steps <= _steps_left.get(), "parts", "to check them takes too long")
    _steps_left.set(_steps_left.get() - steps)


def limit_steps(description: Mapping[str, Any]) -> None:
    """Start to count steps, first those of sums: exact numbers may have all their denominators in common."""
    _steps_left.set(_MAX_STEPS)
    take(len("".join({*_QUOTED.findall(json.dumps(description))})) ** 2 >> 14)


# For each scalar what it is, for messages; its type (fractions are texts); and which values it admits.
SCALARS: Mapping[str, tuple[str, type, Callable[[Any], bool]]] = {
    "version": ("1, the version that is known", int, lambda x: x == 1),
    "text": ("a text", str, lambda x: True),
    "flag": ("true or false", bool, lambda x: True),
    "whole": ("a whole number from 0", int, lambda x: 0 <= x < 2**63),
    "bits": ("a whole number from 0 to 128", int, lambda x: 0 <= x <= 128),
    "count": ("a whole number from 1", int, lambda x: 1 <= x < 2**63),
    "steps": ('whole steps as "n"', Fraction, lambda x: x.denominator == 1),
    "positive_steps": ('whole steps above 0 as "n"', Fraction, lambda x: x.denominator == 1 and x > 0),
    "positive": ('a number above 0 as "p/q"', Fraction, lambda x: x > 0),
    "share": ('a number from 0 to 1 as "p/q"', Fraction, lambda x: 0 <= x <= 1),
    "chance": ('a number from 0 to below 1 as "p/q"', Fraction, lambda x: 0 <= x < 1),
}
_EXACT = re.compile(r"(0|-?[1-9][0-9]{0,2999})(/[1-9][0-9]{0,2999})?", re.ASCII)
_QUOTED = re.compile(r'"[-0-9/]+"', re.ASCII)


RECORDS = dict[str, dict[str, str]]()
for _record, *_entries in map(str.split, GRAMMAR.strip().splitlines()):
    RECORDS[_record], _kind = {}, repr(_record.partition(".")[2])
    for _field, _, _form in (entry.partition(":") for entry in _entries):
        RECORDS[_record] |= RECORDS[_field[1:]] if _field[0] == "@" else {_field: _form or _kind}
# Which field says which record it is, where it is one of several.
TAGS = {name.partition(".")[0]: next(iter(fields)) for name, fields in RECORDS.items() if "." in name}


def read(value: Any, form: str = "description", where: str = "") -> Any:
    """Return a description as Python numbers, fractions, lists and dicts.

    Args:
        value: plain data, as `json.load` gives it.
        form: what it must be, of `GRAMMAR`.
        where: its place, for messages.
    Raises:
        CertificateError: a field is missing, unknown, or not of its form.
    """
    if form in SCALARS or form[0] == "'":
        what, kind, admitted = SCALARS.get(form) or (form, str, lambda x: f"'{x}'" in form.split("|"))
        if kind is Fraction and isinstance(value, str) and _EXACT.fullmatch(value):
            value = Fraction(value)
        require(type(value) is kind and admitted(value), where, f"expected {what}")
        return value
    base, many, prefix = form[:-1], form[-1], f"{where}." if where else ""
    if many == "?":
        return None if value is None else read(value, base, where)
    if many in "*+":
        require(isinstance(value, list) and len(value) >= (many == "+"), where, "expected a list")
        return [read(one, base, f"{where}[{i}]") for i, one in enumerate(value)]
    require(isinstance(value, dict), where, "expected an object")
    if form in TAGS:
        tag = TAGS[form]
        form = f"{form}.{value[tag]}" if isinstance(value.get(tag), str) else ""
        require(form in RECORDS, prefix + tag, "missing or unknown")
    fields = dict.fromkeys(value, base) if many == "%" else RECORDS[form]
    wrong = sorted({*fields} ^ {*value})
    require(not wrong, where, f"missing or unknown fields: {', '.join(wrong)}")
    return {name: read(value[name], own, prefix + name) for name, own in fields.items()}
