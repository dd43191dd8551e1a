"""Parts of an expression that cannot raise, the ways to make one of others, and what DuckDB makes of each.

A *form* takes a call and its arguments, which are safe already, and gives the call's safe form. An implicit
cast can fail on a row, and no text shows it. DuckDB tells of it in the plan that it has bound and not yet
optimized, so a node is bound alone, over columns `_0`, `_1` of its arguments' types.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import duckdb

from sfumato.dataclass import dataclass
from sfumato.dialect.overloads import functions
from sfumato.dialect.syntax_tree import (
    NULL,
    Node,
    NotSql,
    ask,
    children,
    column_node,
    descendants,
    first_line_of_error,
    made,
    parse_expressions,
    with_children,
    write_sql,
)
from sfumato.engines.duckdb.sanitized_columns import JSON_BYTES, is_nested
from sfumato.query.schema import INTEGERS

# Of each type some are values.
_SAMPLES = ("1", "2020-01-01 00:00:00", "00:00:00", "1 day", "00000000-0000-0000-0000-000000000000", "[1]")
_SHORT = 500  # characters, and types: thousands of long ones, which anybody may send, fill memory


class DoesNotBind(Exception):
    """DuckDB has no such function for such types, or casts where it cannot be told to try."""


@dataclass(frozen=True)
class Bound:
    """A node as DuckDB understands it.

    Args:
        type_name: of the result.
        casts: by argument, the type that DuckDB casts it to before it is used.
    """

    type_name: str
    casts: dict[int, str]


def is_constant(node: Node) -> bool:
    """Whether a node sees no column."""
    return not any(n["class"] == "COLUMN_REF" for n in descendants(node))


def bound(text: str, types: tuple[str | None, ...]) -> Bound:
    """Bind an expression over `_0`, `_1`, and so on; what is short is remembered.

    Args:
        text: the expression.
        types: of the columns; None for one that is not used.
    Raises:
        DoesNotBind: with the reason.
    """
    return (_cached_type if len(text) < _SHORT and len(types) < _SHORT else _bound)(text, types)


def _bound(text: str, types: tuple[str | None, ...]) -> Bound:
    given = ", ".join(f"CAST(NULL AS {kind}) AS _{i}" for i, kind in enumerate(types) if kind is not None)
    source = f"(SELECT {given or 'NULL AS none'})"
    try:
        ((_, type_name, *_),) = ask(f"DESCRIBE SELECT {text} FROM {source}")
        plan = json.loads(dict(ask(f"EXPLAIN (FORMAT json) SELECT {text} FROM {source}"))["logical_plan"])
        tree = parse_expressions(f"SELECT {_expression(plan)}")[0]
    except duckdb.Error as error:
        raise DoesNotBind(first_line_of_error(error)) from None
    except NotSql:
        raise DoesNotBind("it cannot be checked. Write it another way") from None
    _check_overloads(tree, types)
    return Bound(str(type_name), _implicit_casts(tree))


_cached_type = lru_cache(maxsize=4096)(_bound)


def _check_overloads(tree: Node, types: tuple[str | None, ...]) -> None:
    """Refuse a call of a function, as DuckDB has bound it, that this DuckDB has with other properties."""
    for node in descendants(tree):
        if node["class"] == "FUNCTION":
            given = [_type_in_plan(argument, types) for argument in children(node)]
            if why := functions().refusal(node["function_name"].lower(), given):
                raise DoesNotBind(why)


def _type_in_plan(node: Node, types: tuple[str | None, ...]) -> str | None:
    """Return the type of an argument, if the plan shows it."""
    if node["class"] == "COLUMN_REF":
        return types[int(node["column_names"][0][1:])]
    return cast_type(node) if node["class"] == "CAST" else None


def types_of_constants(texts: str) -> list[str]:
    """Return the types of expressions, with commas between, that see no column and have been computed."""
    return [str(type_name) for _, type_name, *_ in ask(f"DESCRIBE SELECT {texts}")]


def get_type(text: str, types: tuple[str | None, ...] = ()) -> str:
    """Return the type of an expression over `_0`, `_1`, and so on."""
    return bound(text, types).type_name


def check_cast(given: str, kind: str) -> None:
    """See that rows of one type can be cast to another: some casts stop at each row, whatever it holds.

    Args:
        given: the type of what is cast, which is no constant.
        kind: the type to which it is cast.
    Raises:
        DoesNotBind: they cannot; or what is made of JSON or of structs may be a map whose keys are no keys,
            at which DuckDB stops.
    """
    (_cached_cast if len(given) + len(kind) < _SHORT else _check_cast)(given, kind)


def _check_cast(given: str, kind: str) -> None:
    from_json = "JSON" in given and is_nested(kind)
    if from_json or ("MAP(" in kind and "MAP(" not in given and given != "VARCHAR"):
        raise DoesNotBind(f"{given} cannot be read as {kind}")
    try:
        ask(f"SELECT hash(TRY_CAST(_0 AS {kind})) FROM (VALUES (CAST(NULL AS {given}))) AS rows(_0)")
    except duckdb.Error:
        raise DoesNotBind(f"{given} cannot be read as {kind}") from None
    if is_missing_cast(given, kind):  # which TRY_CAST would make NULL in every row
        raise DoesNotBind(
            f"DuckDB has no cast from {given} to {kind}. Cast to another type first, or leave it out"
        )


def is_missing_cast(given: str, kind: str) -> bool:
    """Whether DuckDB lacks a cast, as far as a value of the type tells."""
    for text in _SAMPLES:
        try:
            ask(f"SELECT hash(CAST(_0 AS {kind})) FROM (VALUES (CAST('{text}' AS {given}))) AS rows(_0)")
        except duckdb.Error as error:
            if "Unimplemented type for cast" in str(error) and "VARCHAR ->" not in str(error):
                return True
    return False


_cached_cast = lru_cache(maxsize=4096)(_check_cast)


def _expression(plan: list[dict[str, Any]]) -> str:
    found: Any = plan[0]["extra_info"]["Expressions"]
    # One expression is asked for; it is cut where a constant in it has a line break.
    return found if isinstance(found, str) else "\n".join(found)


def _implicit_casts(tree: Node) -> dict[int, str]:
    casts: dict[int, str] = {}
    constants: list[Node] = []
    plain: set[int] = set()
    under_cast: set[int] = set()
    for node in descendants(tree):
        if node["class"] == "CAST" and not node["try_cast"]:
            child = node["child"]
            if child["class"] == "COLUMN_REF":
                number, kind = int(child["column_names"][0][1:]), cast_type(node)
                under_cast.add(id(child))
                if casts.setdefault(number, kind) != kind:
                    raise DoesNotBind("its arguments have different types. Cast them to one")
            elif is_constant(child):
                constants.append(node)
            else:
                raise DoesNotBind(
                    "it casts implicitly, and a value may not fit. Write the cast, and split the expression"
                )
        elif node["class"] == "COLUMN_REF" and id(node) not in under_cast:
            plain.add(int(node["column_names"][0][1:]))
    if plain & casts.keys():
        raise DoesNotBind("its arguments have different types. Cast them to one")
    _compute(constants)
    return casts


def _compute(casts: list[Node]) -> None:
    """See that constants fit the types to which DuckDB casts them."""
    if not casts:
        return
    try:
        ask(f"SELECT hash({write_sql(*casts)})")
    except duckdb.Error:
        if len(casts) == 1:
            (cast,) = casts
            raise DoesNotBind(f"{write_sql(cast['child'])} is no {cast_type(cast)}") from None
        half = len(casts) // 2
        _compute(casts[:half])
        _compute(casts[half:])


def cast_type(node: Node) -> str:
    """Return the type that a cast names, as it is written."""
    text = write_sql(node | {"child": NULL, "try_cast": False})
    return text.removeprefix("CAST(NULL AS ").removesuffix(")")


def local(node: Node, constants: Sequence[bool]) -> str:
    """Return the text of a node over `_0`, `_1` in the place of each child that is no constant."""
    parts = [
        child if constant else column_node(f"_{i}")
        for i, (child, constant) in enumerate(zip(children(node), constants, strict=True))
    ]
    return write_sql(with_children(node, parts))


Span = tuple[int, int]
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
# The smallest and the largest value of each type of whole numbers.
SPANS: dict[str, Span] = {kind: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for kind, bits in _BITS.items()} | {
    f"U{kind}": (0, 2**bits - 1) for kind, bits in _BITS.items()
}
# How long the text of an argument may be that stands twice in a total form.
_TWICE = 4000
_MAX_TAKEN = 1000
_LONGEST_TIME = 200
DATED = ("DATE", "TIMESTAMP")


@dataclass(frozen=True)
class Part:
    """A part of an expression in its total form.

    Args:
        node: its tree.
        type_name: DuckDB's name of its type.
        constant: whether it sees no column; DuckDB has then computed it once, without an error.
        within: of a whole number, between what it always is, where that is less than its type admits.
    """

    node: Node
    type_name: str
    constant: bool = False
    within: Span | None = None

    @cached_property
    def text(self) -> str:
        """The part as SQL."""
        return write_sql(self.node)

    @cached_property
    def span(self) -> Span | None:
        """The smallest and the largest value of a whole number; None for other types."""
        if self.within is None and self.constant and self.type_name in SPANS:
            value = int(_print_constant(self.text))
            return value, value
        return self.within or SPANS.get(self.type_name)

    @property
    def digits(self) -> tuple[int, int] | None:
        """How many digits an exact number has before and behind the point; None for other types."""
        if self.span is not None:
            return len(str(max(map(abs, self.span)))), 0
        found = _DECIMAL.fullmatch(self.type_name)
        if found is None:
            return None
        if self.constant:
            whole, _, rest = _print_constant(self.text).lstrip("-").partition(".")
            return max(len(whole), 1), len(rest)
        return int(found[1]) - int(found[2]), int(found[2])


_DECIMAL = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")


@lru_cache(maxsize=1024)
def _print_constant(text: str) -> str:
    """Return a constant number as DuckDB prints it; 0 for NULL, of which nothing is computed."""
    ((value,),) = ask(f"SELECT CAST({text} AS VARCHAR)")
    return str(value or "0")


Form = Callable[[Node, str, list[Part]], Part]
# What an expression may call: functions of their arguments alone. Each was tried on hostile arguments of
# every type that it takes; one that is not listed may be safe, but nobody has looked. `form` is the function
# that makes its form; `constants` and `places` are numbers of arguments, from 0: those that must be
# constants, and those that are places in a text or list. `texts` is how many texts of 4,096 characters it
# holds for a row: a list of 4,096 texts has 16 bytes for each, and more where it grows; a vector of 4,096
# numbers takes 32 kB, as a list and as what is made of it. Whole numbers are within 2^bits: a text has 2^32
# bytes at most, an interval fewer hours. So year * 10000 + month * 100 + day is a BIGINT, as it would be
# without a wider type. Differences of times, in microseconds, are farther apart.
with open(Path(__file__).with_name("functions.csv"), encoding="utf-8", newline="") as _file:
    FUNCTIONS = {row["function"]: row for row in csv.DictReader(_file)}


class Unsafe(Exception):
    """A part that has no form which cannot raise, and why."""

    def __init__(self, node: Node, why: str) -> None:
        super().__init__(why)
        self.node = node
        self.why = why


def understood(node: Node, parts: list[Part]) -> Bound:
    """Return what DuckDB makes of a node over total arguments."""
    types = tuple(None if p.constant else p.type_name for p in parts)
    if len(types) - types.count(None) > _MAX_TAKEN:  # the time to bind them grows with the square
        raise Unsafe(node, f"takes more than {_MAX_TAKEN} values of a row at once. Take them in steps")
    return bound(local(with_children(node, [p.node for p in parts]), [p.constant for p in parts]), types)


def plain(node: Node, name: str, parts: list[Part]) -> Part:
    """Make the implicit casts of a node explicit, so that they give NULL where a value does not fit."""
    found, parts = _without_casts(lambda parts: understood(node, parts), parts)
    return Part(with_children(node, [p.node for p in parts]), found.type_name)


def _without_casts(bind: Callable[[list[Part]], Bound], parts: list[Part]) -> tuple[Bound, list[Part]]:
    # Arguments of other types may be cast to yet another one.
    for _ in range(3):
        found = bind(parts)
        if not found.casts:
            return found, parts
        casts = _lossless(found.casts, parts)
        parts = [tried(p, casts[i]) if i in casts else p for i, p in enumerate(parts)]
    raise DoesNotBind("its arguments have different types. Cast them to one")


def _lossless(casts: dict[int, str], parts: list[Part]) -> dict[int, str]:
    """Return implicit casts such that each value keeps a place, where DuckDB's type is too narrow for it.

    Exact numbers that have no DECIMAL in common meet as DOUBLE, and times as TIMESTAMP, in microseconds.
    """
    for i, kind in casts.items():
        if parts[i].type_name == "UHUGEINT" and kind in INTEGERS:
            raise DoesNotBind(
                "UHUGEINT cannot be combined with other types. Cast it to HUGEINT or DOUBLE first"
            )
        if kind == "TIMESTAMP_NS" and parts[i].type_name.startswith(DATED):
            return _instead(casts, parts, "TIMESTAMP_NS", "TIMESTAMP")
        is_text = parts[i].type_name == "VARCHAR" and not parts[i].constant
        if is_text and kind in INTEGERS:
            return {i: "HUGEINT" if one in INTEGERS else one for i, one in casts.items()}
        target, held = _DECIMAL.fullmatch(kind), (38, 38) if is_text else parts[i].digits
        if target is None or held is None:
            continue
        if held[0] > int(target[1]) - int(target[2]) or held[1] > int(target[2]):
            return _instead(casts, parts, "DECIMAL", "DOUBLE")
    return casts


def _instead(casts: dict[int, str], parts: list[Part], narrow: str, wide: str) -> dict[int, str]:
    """Return casts to another type in the place of a narrow one, also of what has that already."""
    kinds = {
        i: casts.get(i, part.type_name) for i, part in enumerate(parts) if not part.constant or i in casts
    }
    return {
        i: wide if kind.startswith(narrow) else kind
        for i, kind in kinds.items()
        if i in casts or kind.startswith(narrow)
    }


def tried(part: Part, kind: str) -> Part:
    """Cast a part; a value that does not fit is NULL."""
    if part.type_name == kind:
        return part
    if part.type_name == "VARCHAR" and kind == "TIMESTAMP WITH TIME ZONE" and not part.constant:
        part = timely(part)
    if part.type_name == "TIMESTAMP WITH TIME ZONE" and kind == "TIME" and not part.constant:
        part = tried(part, "TIMESTAMP")  # DuckDB has no cast of its own
    if not part.constant:
        check_cast(part.type_name, kind)
    kept = part.span if kind in SPANS and part.span is not None and fits(part.span, kind) else None
    return Part(made(f"TRY_CAST(_0 AS {kind})", part.node), get_type(f"CAST(NULL AS {kind})"), within=kept)


def fits(span: Span, kind: str) -> bool:
    """Whether a type of whole numbers holds all from the first to the last."""
    least, most = SPANS[kind]
    return least <= span[0] and span[1] <= most


def timely(part: Part) -> Part:
    """Cut a text that is read as a time: of a zone that is not known DuckDB looks for names alike, slowly."""
    return over(f'"left"(_0, {_LONGEST_TIME})', part)


def over(template: str, *parts: Part) -> Part:
    """Return SQL in which _0, _1 stand for parts; it must be total where its implicit casts are."""

    def bind(parts: list[Part]) -> Bound:
        shown = [f"({p.text})" if p.constant else f"_{i}" for i, p in enumerate(parts)]
        types = tuple(None if p.constant else p.type_name for p in parts)
        return bound(re.sub(r"_(\d)", lambda found: shown[int(found[1])], template), types)

    found, total = _without_casts(bind, list(parts))
    return Part(made(template, *(p.node for p in total)), found.type_name)


def once(part: Part) -> Part:
    """Return the part, if it is short enough to stand twice."""
    if len(part.text) > _TWICE:
        raise Unsafe(part.node, "is too long. Name it with with_columns(...) and use that name")
    return part


def not_zero(part: Part) -> Part:
    """Return the part, NULL where it is zero."""
    return over(f"CASE WHEN _0 <> CAST(0 AS {part.type_name}) THEN _0 END", once(part))


def document(part: Part) -> Part:
    """Read a text as JSON; NULL where it is none, or too long."""
    return tried(short_document(part), "JSON")


def short_document(part: Part) -> Part:
    """Return NULL in the place of a text so long that reading it as JSON could exhaust memory."""
    if part.constant or part.type_name not in ("VARCHAR", "JSON"):
        return part
    return over(f"CASE WHEN strlen(_0) <= {JSON_BYTES} THEN _0 END", once(tried(part, "VARCHAR")))


def place(part: Part) -> Part:
    """Return a place in a text or list; beyond 32 bits, where some functions raise, the last one there."""
    if part.span is None or part.constant:
        return part
    if not fits(part.span, "INTEGER"):
        least, most = SPANS["INTEGER"]
        within = f"greatest(least(_0, {most}), {least})"  # which skip NULL
        part = over(f"CASE WHEN _0 IS NOT NULL THEN {within} END", once(tried(part, "HUGEINT")))
    return tried(part, "INTEGER")


def placed(*numbers: int) -> Form:
    """Return a form whose arguments of these numbers are places in a text or list."""

    def form(node: Node, name: str, parts: list[Part]) -> Part:
        return plain(node, name, [place(p) if i in numbers else p for i, p in enumerate(parts)])

    return form


def constants(*numbers: int, then: Form = plain) -> Form:
    """Return a form whose arguments of these numbers, from 0, must be constants, and ones that are taken.

    A value of a row could raise there, or make a text as long as it likes. Some constants are refused only
    when a row comes, so the call is made once on values that are not of any row.
    """

    def form(node: Node, name: str, parts: list[Part]) -> Part:
        for part in (parts[i] for i in numbers if i < len(parts)):
            if not part.constant:
                raise Unsafe(part.node, f"passes a column to {name} where it takes a constant")
        made_of_parts = then(node, name, parts)
        for which in (0, 1):
            _try_on_samples(node, name, parts, which)
        return made_of_parts

    return form


def _try_on_samples(node: Node, name: str, parts: list[Part], which: int) -> None:
    # At the ends of the calendar a number of nanoseconds does not fit.
    days = ("0001-01-01", "9999-12-31")
    samples = []
    for i, part in enumerate(parts):
        text = f"'{days[(i + which) % 2]}'" if part.type_name.startswith(DATED) else "'1'"
        samples.append(part.node if part.constant else made(f"TRY_CAST({text} AS {part.type_name})"))
    try:
        ask(f"SELECT hash({write_sql(with_children(node, samples))})")
    except duckdb.Error as error:
        raise Unsafe(
            node, f"uses {name} in a way that DuckDB does not know: {first_line_of_error(error)}"
        ) from None


def rename_call(node: Node, name: str) -> Node:
    """Return a call of another function with the same arguments."""
    return node | {"function_name": name, "qualified_name": {"path": [name]}}


def nested(type_name: str) -> bool:
    """Whether values of a type hold others."""
    return type_name.endswith(("]", ")")) and not type_name.startswith("DECIMAL")


def named(parts: list[Part]) -> str:
    """Return the types of parts, without what stands in brackets."""
    return " and ".join(p.type_name.partition("(")[0] for p in parts)
