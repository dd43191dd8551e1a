"""Safe forms of functions of texts, lists and JSON, and how many texts an expression holds at once.

Nothing grows much beyond what it is given. DuckDB evaluates 2,048 rows at a time, and keeps what each part
of an expression makes of them until all parts are made: memory grows with the parts, however short each
text is.
"""

from __future__ import annotations

import re

from sfumato.dialect.syntax_tree import Node, ask, children, descendants
from sfumato.engines.duckdb.expressions.safe_parts import (
    DATED,
    FUNCTIONS,
    DoesNotBind,
    Part,
    Unsafe,
    document,
    nested,
    once,
    over,
    place,
    plain,
    short_document,
)
from sfumato.query.schema import FLOATS, INTEGERS

# How many texts of 4,096 characters, or as much else, the expressions of one question may hold for a row:
# 2,048 of each take a gigabyte for a thread.
MAX_HELD = 128
# How many characters a pattern may have with its repetitions written out.
LARGEST_PATTERN = 2000

_EACH = ("||", "concat", "concat_ws", "list_value")
_TOKEN = re.compile(
    r"\\[pP]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\((?:\?(?:P?<\w+>|[-imsU]*:?))?|\{\d+(?:,\d*)?\}|.",
    re.DOTALL,
)


def held(node: Node) -> int:
    """Return how many texts of 4,096 characters a total form holds at most for a row.

    Texts that are longer in the table itself count as such.
    """
    return sum(map(_held, descendants(node)))


def _held(node: Node) -> int:
    if node["class"] == "FUNCTION":
        name = node["function_name"].lower()
        return len(children(node)) if name in _EACH else int(FUNCTIONS.get(name, {}).get("texts") or 0)
    if node["class"] == "CAST":
        return {"VARCHAR": 1, "JSON": 6}.get(node["type_expr"]["type_name"].upper(), 0)
    return int(node["type"] == "ARRAY_SLICE")


def pattern_size(pattern: str) -> int:
    """Return how many characters, classes and groups a regular expression has, its repetitions written out.

    >>> pattern_size("[ab]{3}"), pattern_size("(a{2}b{1,3}){10}c"), pattern_size("\\\\d+|x")
    (3, 61, 2)
    """
    sizes, last = [0], 0  # of the groups that are open, and of what a repetition would repeat
    for token in _TOKEN.findall(pattern):
        if token[0] == "(" and not token.endswith(")"):
            sizes.append(1)
            last = 0
        elif token == ")":
            last = sizes.pop() if len(sizes) > 1 else 0
            sizes[-1] += last
        elif token[0] == "{" and len(token) > 1:
            least, _, most = token[1:-1].partition(",")
            again = max(int(least), int(most or 0), 1) - 1
            sizes[-1] += last * again
            last += last * again
        elif token not in "*+?|^$":
            sizes[-1] += 1
            last = 1
    return sum(sizes)


# How many characters of a text are taken by a function that can make it longer, or a list of its parts, and
# how many texts are joined: a vector of 2,048 results stays within the memory of a small machine, also where
# many columns are made.
_LONGEST = 1 << 12
_MAX_JOINED = 16
_MAX_LISTED = 1000
# What lists hold: other values are as long as they like, and a list of them holds each once more.
_LISTED = {*INTEGERS, *FLOATS, "UHUGEINT", "BOOLEAN", "VARCHAR", "UUID"}
_LISTED_TOO = (*DATED, "DECIMAL", "TIME", "INTERVAL")


def _cut(part: Part, length: int = _LONGEST) -> Part:
    return part if part.constant or part.type_name != "VARCHAR" else over(f'"left"(_0, {length})', part)


def _shares(parts: list[Part], count: int) -> list[Part]:
    """Cut texts of which `count` are held at once."""
    return [_cut(p, min(_LONGEST, _MAX_JOINED * _LONGEST // max(count, 1))) for p in parts]


def _join(node: Node, name: str, parts: list[Part]) -> Part:
    if any(nested(p.type_name) or p.type_name in ("BLOB", "BIT") for p in parts):
        raise Unsafe(node, f"joins a value that is not text by {name}")
    if len(parts) > _MAX_JOINED:
        raise Unsafe(node, f"joins more than {_MAX_JOINED} texts at once. Join them in steps")
    return plain(node, name, [_cut(p) for p in parts])


def _truncate_before_replace(node: Node, name: str, parts: list[Part]) -> Part:
    """Cut a text before its parts are replaced, so that the result cannot be longer than a text may be."""
    if len(parts) < 3:
        return plain(node, name, parts)
    casts = ", ".join(f"CAST({p.text} AS VARCHAR)" for p in parts[1:3])
    old, new = (len(value or "") for value in ask(f"SELECT {casts}")[0])
    if name == "regexp_replace":  # it may match at each place, and repeat the match
        old, new = 1, 2 * new + 1 if new else 0
    if new > old:
        parts = [_cut(parts[0], max(1, _LONGEST * max(old, 1) // new)), *parts[1:]]
    elif len(parts) > 3:  # all matches: for each, the search may go on to the end of the text
        parts = [_cut(parts[0]), *parts[1:]]
    return _check_pattern(node, name, parts)


def _check_pattern(node: Node, name: str, parts: list[Part]) -> Part:
    """Refuse large patterns, and ones for bytes: where these take a character apart, its text is none."""
    ((pattern,),) = ask(f"SELECT CAST({parts[1].text} AS VARCHAR)") if len(parts) > 1 else ((None,),)
    if "\\C" in (pattern or ""):
        raise Unsafe(parts[1].node, "is a pattern with \\C, which matches single bytes. Write . instead")
    if pattern_size(pattern or "") > LARGEST_PATTERN:  # DuckDB may take its size in steps for each character
        raise Unsafe(
            parts[1].node,
            f"is a pattern of more than {LARGEST_PATTERN} characters when its repetitions are expanded",
        )
    if name == "regexp_extract" and len(parts) > 2 and nested(parts[2].type_name):
        ((groups,),) = ask(f"SELECT len({parts[2].text})")
        parts = [*_shares(parts[:1], groups or 1), *parts[1:]]
    return plain(node, name, parts)


def _split_by_pattern(node: Node, name: str, parts: list[Part]) -> Part:
    return _check_pattern(node, name, [_cut(parts[0]), *parts[1:]])


def _split(node: Node, name: str, parts: list[Part]) -> Part:
    """Cut a text; nfc_normalize sorts the marks of a letter, of which there may be millions, slowly."""
    return plain(node, name, [_cut(parts[0]), *parts[1:]])


def _split_part(node: Node, name: str, parts: list[Part]) -> Part:
    if len(parts) != 3 or any(p.type_name != "VARCHAR" for p in parts[:2]):
        raise DoesNotBind("split_part takes a text, a separator and a number")
    text = once(_cut(parts[0]))
    found = over("COALESCE(string_split(_0, _1)[_2], '')", text, parts[1], place(parts[2]))
    return over("CASE WHEN _0 IS NOT NULL THEN _1 END", text, found)


def _check_escape(node: Node, name: str, parts: list[Part]) -> Part:
    """Refuse a pattern that ends with its escape character: it raises on texts that match it that far."""
    if len(parts) == 3:
        ((pattern, escape),) = ask(
            f"SELECT CAST({parts[1].text} AS VARCHAR), CAST({parts[2].text} AS VARCHAR)"
        )
        rest = iter(pattern or "")
        if any(character == escape and next(rest, None) is None for character in rest):
            raise Unsafe(parts[1].node, "is a pattern that ends with its escape character")
    return plain(node, name, parts)


def _list(node: Node, name: str, parts: list[Part]) -> Part:
    for part in parts:
        if nested(part.type_name):
            raise Unsafe(node, "makes a list of lists, but a list must hold plain values")
        if not part.constant and part.type_name not in _LISTED and not part.type_name.startswith(_LISTED_TOO):
            raise Unsafe(part.node, f"is {part.type_name.partition('(')[0]}, which cannot be in a list")
    if len(parts) > _MAX_LISTED:
        raise Unsafe(node, f"makes a list of more than {_MAX_LISTED} values")
    return plain(node, name, _shares(parts, len(parts)))


def _json(node: Node, name: str, parts: list[Part]) -> Part:
    if parts[0].type_name not in ("JSON", "VARCHAR"):
        raise Unsafe(node, f"uses {name}, which takes JSON or text")
    for part in parts[1:]:
        if "*" in part.text:
            raise Unsafe(part.node, "is a path with *, which finds many values. Name one")
        if nested(part.type_name):
            raise Unsafe(part.node, "is a list of paths, which finds many values. Name one")
    # A column may be declared JSON and hold what is none.
    return plain(node, name, [document(parts[0]), *parts[1:]])


def _is_json(node: Node, name: str, parts: list[Part]) -> Part:
    return plain(node, name, list(map(short_document, parts)))
