"""Group keys inside larger expressions: by their name, or as they are written in GROUP BY."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sfumato.dialect.syntax import Expression, Statement
from sfumato.dialect.vocabulary import OPERATORS
from sfumato.dialect.words import Token

# Between these stands a whole expression, and before an operand one of these or of OPERATORS.
_BOUNDARIES = frozenset(
    ("AS", "ASC", "BY", "CASE", "DESC", "ELSE", "END", "NULLS", "QUALIFY", "THEN", "WHEN")
)


class Keys:
    """The keys of a statement, to be found among words.

    Args:
        statement: whose keys they are.
        values: what each is, by the name of its released column.
    """

    def __init__(self, statement: Statement, values: Mapping[str, Expression]) -> None:
        self._statement = statement
        self._shapes = {statement.shape(value): name for name, value in values.items()}
        self._lengths = frozenset(map(len, self._shapes))

    def within(self, tokens: Sequence[Token]) -> dict[int, tuple[int, str]]:
        """Return where keys begin: with the word behind each, and its column."""
        found: dict[int, tuple[int, str]] = {}
        for start, stop in (*_names(tokens), *_wholes(tokens)):
            if stop - start in self._lengths:
                name = self._shapes.get(self._statement.shape(Expression(tuple(tokens[start:stop]))))
                if name is not None:
                    found[start] = max(found.get(start, (0, "")), (stop, name))
        return found


def _names(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield words that stand where a column may: a keyword of the same name stands elsewhere."""
    for i, token in enumerate(tokens):
        before = tokens[i - 1] if i else None
        after = tokens[i + 1].word if i + 1 < len(tokens) else ""
        operand = (
            before is None
            or (before.kind == "sign" and before.word not in (")", "]", "."))
            or before.word in OPERATORS
            or before.word in _BOUNDARIES
        )
        if token.kind in ("word", "name") and operand and after not in ("(", ".", "BY"):
            yield i, i + 1


def _wholes(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield whole expressions: between brackets, commas and words of CASE; and calls, whatever is beside."""
    starts = [0]
    for i, token in enumerate(tokens):
        if token.word in ("(", "[", "{"):
            starts.append(i + 1)
        elif token.word in (")", "]", "}"):
            start = starts.pop() if len(starts) > 1 else i
            yield start, i
            called = start > 1 and tokens[start - 2].kind == "word" and token.word == ")"
            if called and not (start > 2 and tokens[start - 3].word == "."):
                yield start - 2, i + 1
        elif token.word == "," or token.word in _BOUNDARIES:
            yield starts[-1], i
            starts[-1] = i + 1
    yield starts[0], len(tokens)
