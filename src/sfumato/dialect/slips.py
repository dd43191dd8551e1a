"""What Python, pandas and others write where SQL has another spelling; told of a text that is no SQL."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache

from sfumato.dialect.tokens import scan
from sfumato.dialect.vocabulary import slips
from sfumato.errors import SqlError

_LONGEST = 2000
_GUESSED = re.compile(r"(; (did you mean|write) .*|\. You might need .*)$")


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern, re.IGNORECASE), told) for pattern, told in slips().items()]


def with_slip(why: str, text: str) -> str:
    """Return a reason with what to write instead, in the place of another guess, where a text has a slip.

    Args:
        why: the reason, perhaps with lines that show the place.
        text: what was written.
    """
    told = slip(text)
    if not told:
        return why
    first, newline, rest = why.partition("\n")
    return f"{_GUESSED.sub('', first)}; {told}{newline}{rest}"


def slip(text: str) -> str:
    """Return what to write in the place of another language's spelling, where a text has one; else nothing.

    >>> slip("town == 'A' & age > 25")
    'write AND for &, OR for |'
    >>> slip("town = 'R & D'")
    ''
    """
    pieces = []
    with suppress(SqlError):  # of a quote that does not end
        for token in scan(text[:_LONGEST]):
            pieces.append({"text": "''", "name": '""'}.get(token.kind, token.text))
    words = " ".join(pieces)
    return next((told for pattern, told in _patterns() if pattern.search(words)), "")
