"""Windows that add up released counts or sums in an order, each with noise of its own."""

from __future__ import annotations

from collections.abc import Collection

from sfumato.dialect.syntax import Computed, Expression, Statement

ADDED = ("COUNT", "SUM", "ANON_COUNT", "ANON_SUM")
NOTE = (
    "SUM(...) OVER (ORDER BY ...) adds up groups that are released by themselves, and their noise too. "
    "Cumulative totals of public steps with less noise are CUMULATIVE_COUNT(*) and CUMULATIVE_SUM(x, ...)."
)


def adds_up(statement: Statement, named: Collection[str]) -> bool:
    """Whether the SELECT list has SUM(COUNT(*)) OVER (ORDER BY ...), or of a sum.

    Args:
        statement: the private SELECT.
        named: names of counts and sums among its outputs, in lower case.
    """
    for item in statement.items:
        value = item.value.expression if isinstance(item.value, Computed) else item.value
        tokens = value.tokens if isinstance(value, Expression) else ()
        for i in range(len(tokens) - 3):
            if tokens[i].word != "SUM" or tokens[i + 1].word != "(":
                continue
            at, own = i + 3, tokens[i + 2].text.casefold() in named
            if tokens[i + 2].start in statement.calls:
                stop, _, call = statement.calls[tokens[i + 2].start]
                own = call.function in ADDED
                at = next((j for j in range(at, len(tokens)) if tokens[j].start >= stop), len(tokens))
            behind, rest = [t.word for t in tokens[at : at + 3]], [t.word for t in tokens[at + 3 :]]
            if own and behind == [")", "OVER", "("] and "ORDER" in rest:
                return True
    return False
