"""WITH DIFFERENTIAL_PRIVACY OPTIONS (...): the clause that makes a SELECT private, as it is written."""

from __future__ import annotations

import re

from sfumato.dialect.cursor import Cursor
from sfumato.dialect.syntax import Literal
from sfumato.dialect.vocabulary import CLAUSES
from sfumato.dialect.words import Place, Token
from sfumato.errors import nearest

_COMPUTING = ("(", "*", "/", "+", "-", "^")
_FORM = "an option is written name = value, such as {} = 1"


def read_clause(words: Cursor) -> tuple[str, Place, tuple[tuple[Literal, Literal], ...]]:
    """Return the clause's name, its place, and its options: name and value of each."""
    if not words.take("WITH"):
        raise words.refuse(
            "the privacy clause is missing: write SELECT WITH DIFFERENTIAL_PRIVACY "
            "OPTIONS (epsilon = ..., delta = ..., privacy_unit_column = ...) before the columns, "
            "the last only where no catalog says it"
        )
    clause, place = words.token.word, words.token.place
    if clause not in CLAUSES:
        near = nearest(clause, CLAUSES)
        raise words.refuse(
            f"WITH {words.token.text} is not a privacy clause; "
            + (f"did you mean {near}?" if near else "write WITH DIFFERENTIAL_PRIVACY OPTIONS (...)")
        )
    words.at += 1
    if not (words.take("OPTIONS") and words.take("(")):
        raise words.refuse(f"write OPTIONS (epsilon = ..., privacy_unit_column = ...) after WITH {clause}")
    options: list[tuple[Literal, Literal]] = []
    while not words.take(")"):
        if options and not words.take(","):
            computed = words.token.word in _COMPUTING
            also = "; a value is written as it is, without arithmetic and functions" if computed else ""
            raise words.refuse(f"a comma or ) is missing between options{also}")
        if not re.fullmatch(r"\w+", words.token.text):
            raise words.refuse(_FORM.format("epsilon"))
        name = words.literal("name")
        name = Literal(name.text.lower(), "name", name.place)
        if not words.take("="):
            raise words.refuse(_FORM.format(name.text))
        options.append((name, _value(words)))
    return clause, place, tuple(options)


def _value(words: Cursor) -> Literal:
    token = words.token
    if token.kind == "number" or token.word in ("-", "+", "."):
        return words.number("an option")
    if token.kind == "end" or token.word in (",", ")", "]", "}"):
        raise words.refuse("an option's value is missing")
    if token.word in ("[", "("):
        return _list(words)
    value = words.literal(token.kind if token.kind in ("text", "name") else "word")
    while words.take("."):
        value = words.literal("name")
    if not value.text and value.kind != "text":  # whose meaning is the option's
        raise words.refuse("an option's value is missing")
    return Literal(value.text, value.kind, Place(token.start, words.before.stop))


def _list(words: Cursor) -> Literal:
    """Take a list in brackets: the words of each entry."""
    start, stop = words.at, words.closing[words.at]
    parts: list[tuple[Token, ...]] = []
    at = first = start + 1
    while at <= stop:
        if at == stop or words.tokens[at].word == ",":
            if at == first:
                raise words.refuse("an entry of this list is missing", words.tokens[at])
            parts.append(tuple(words.tokens[first:at]))
            first = at + 1
        at = words.closing.get(at, at) + 1
    words.at = stop + 1
    place = Place(words.tokens[start].start, words.before.stop)
    return Literal(words.text[place.start : place.stop], "list", place, tuple(parts))
