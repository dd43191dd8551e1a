"""What an expression of one row may not hold: other rows, and values that are not there yet."""

from __future__ import annotations

from collections.abc import Collection

from sfumato.dialect.calls import is_call, is_window
from sfumato.dialect.cursor import Cursor
from sfumato.dialect.functions import meant
from sfumato.dialect.tree import Node, aggregates, descendants
from sfumato.dialect.vocabulary import GROUPINGS, NO_FORM, NOT_PRIVATE, PRIVATE
from sfumato.dialect.words import Place, refusal

_WINDOW = "a window function: not private here"
_INSTEAD = "; join its table on the privacy unit in FROM, for NOT EXISTS with LEFT JOIN ... WHERE x IS NULL"

_OF_ROWS = ("EXISTS", "ANY", "ALL", "SOME")


def check_words(words: Cursor, span: range, where: str) -> None:
    """Refuse what is seen without a tree, at its own place; SELECTs in WHERE are judged later."""
    inner = span.start
    for i in span:
        word, before = words.tokens[i].word, words.tokens[i - 1].word
        if (
            where == "WHERE"
            and word == "("
            and before not in _OF_ROWS
            and words.tokens[i + 1].word in ("SELECT", "WITH")
        ):
            inner = max(inner, words.closing[i])
        if i < inner:
            continue
        if (word == "SELECT" and before != ".") or (word == "WITH" and before == "("):
            raise words.refuse(f"a subquery in {where}: not private here{_INSTEAD}", words.tokens[i])
        if word == "OVER" and before != ".":
            raise words.refuse(_WINDOW, words.tokens[i])
        if (word in PRIVATE or word in NOT_PRIVATE) and is_call(words, i):
            raise words.refuse(_misplaced(word, where), words.tokens[i])


def check_after(words: Cursor, span: range, calls: Collection[range], where: str) -> None:
    """Refuse what has no place beside private aggregates, but inside of them."""
    starts = {call.start: call.stop for call in calls}
    i = span.start
    while i < span.stop:
        word, before = words.tokens[i].word, words.tokens[i - 1].word
        if i in starts:
            i = starts[i]
            if words.tokens[i].word == "FILTER":
                message = "FILTER: write the condition in WHERE, or COUNT(CASE WHEN ... THEN 1 END)"
                raise words.refuse(message, words.tokens[i])
            continue
        if (word == "SELECT" and before != ".") or (word == "WITH" and before == "("):
            message = f"a subquery in {where}: write it around the private SELECT, in brackets"
            raise words.refuse(message, words.tokens[i])
        known = word in NOT_PRIVATE and word not in GROUPINGS
        if known and is_call(words, i) and not is_window(words, i):
            message = f"{word} is not a private aggregate: {NOT_PRIVATE[word]}"
            raise words.refuse(message, words.tokens[i])
        if word.lower() in aggregates() and is_call(words, i) and not is_window(words, i):
            near = meant(word)
            message = f"write {near}" if near else NO_FORM
            raise words.refuse(f"{word} is not a private aggregate: {message}", words.tokens[i])
        i += 1


def check_tree(text: str, place: Place, tree: Node, where: str) -> None:
    """Refuse what only a tree shows."""
    for node in descendants(tree):
        message = {
            "FUNCTION": "",
            "WINDOW": _WINDOW,
            "SUBQUERY": f"a subquery in {where}: not private here{_INSTEAD}",
            "STAR": f"a * in {where}: name the column",
            "PARAMETER": "a parameter: write the value itself",
        }.get(node["class"])
        if node["class"] == "SUBQUERY" and where == "WHERE" and node["subquery_type"] in ("ANY", "SCALAR"):
            message = None
        if message == "" and node["function_name"].lower() in aggregates():
            message = f"an aggregate in an expression of {where}: only a row's own columns are known"
            near = meant(node["function_name"]) if where == "the SELECT list" else None
            message += f"; the private aggregate is {near}" if near else ""
        if message:
            raise refusal(text, place, message)


def _misplaced(name: str, where: str) -> str:
    if where in ("WHERE", "GROUP BY"):
        return f"{name} in {where}: it sees single rows, before they are grouped"
    if where.endswith("(...)"):
        return f"{name} inside {where}: an aggregate takes an expression of one row"
    return f"{name} inside a larger expression: ask for it alone, and compute with the result"
