"""The one private SELECT in a text, and the words around it, which see the released table alone."""

from __future__ import annotations

from sfumato.dialect.cursor import Cursor


def private_part(words: Cursor) -> tuple[int, int]:
    """Return where the private SELECT begins, and the word behind it.

    A text without one is all of it: its reader says what is missing.

    Raises:
        SqlError: there are two, or it stands where no table can.
    """
    tokens = words.tokens
    found = [
        i
        for i in range(len(tokens) - 1)
        if tokens[i].word == "SELECT"
        and tokens[i + 1].word == "WITH"
        and not (i and tokens[i - 1].word == ".")
    ]
    if not found:
        if tokens[0].word == "WITH":
            raise words.refuse(
                "there is no private SELECT: write WITH t AS (SELECT WITH DIFFERENTIAL_PRIVACY "
                "OPTIONS (...) ...) SELECT ... FROM t",
                tokens[0],
            )
        return 0, len(tokens) - 1
    if len(found) > 1:
        raise words.refuse(
            "a second private SELECT: a text has one, which may be named and used many times, as in "
            "WITH t AS (SELECT WITH ...) SELECT ... FROM t",
            tokens[found[1]],
        )
    (start,) = found
    if not start:
        return 0, len(tokens) - 1
    if tokens[start - 1].word != "(":
        raise words.refuse(
            "a private SELECT stands alone, or in brackets of its own: ... FROM (SELECT WITH ...), or "
            "WITH t AS (SELECT WITH ...) SELECT ... FROM t",
            tokens[start],
        )
    return start, words.closing[start - 1]
