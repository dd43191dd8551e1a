"""What Python, pandas and others write where SQL has another spelling; told of a text that is no SQL."""

from __future__ import annotations

import re
from contextlib import suppress

from sfumato.dialect.words import scan
from sfumato.errors import SqlError

_LONGEST = 2000
# Of words with a space between, texts as '', names in quotes as "". The first that fits is told.
_SLIPS = {
    r"[“”‘’]": "quotes are straight, and of a text single: 'A'",
    r"(=|!=|<>|\bis) (not )?(none|nan|na)\b": "write x IS NULL or x IS NOT NULL",
    r"(^|[(,] |\b(and|or|not|where) )[~!] (?!=)": "write NOT for ~ and !",
    r"\d{4} - \d\d? - \d\d?\b": "a day is written DATE '2020-12-31'",
    r"= <(?! =)|=>": "write <= or >=",
    r"\b(np|numpy|math|pd|pl|f) \. \w+ \(": "functions stand alone: ln(x)",
    r"\. (isin|is_in) \(": "write x IN ('A', 'B')",
    r"\. (between|is_between) \(": "write x BETWEEN 1 AND 2",
    r"\. dt \.": "write year(x), month(x) or date_trunc('month', x)",
    r"\. (isna|isnull|is_null|notna|notnull|is_not_null) \(|\b(isnull|isna|is_null|notnull|notna) \(": (
        "write x IS NULL or x IS NOT NULL"
    ),
    r"\. (str|contains|startswith|endswith|lower|upper|strip|starts_with|ends_with|round|abs)\b|"
    r"\b(startswith|endswith) (\(|'')": "functions take what they are of in brackets: contains(x, 'A'), "
    "starts_with(x, 'A'), lower(x)",
    r"\b(int|float|str|bool|int64|float64|string) \(": (
        "write try_cast(x AS INTEGER), DOUBLE, VARCHAR or BOOLEAN"
    ),
    r"\blambda\b": "an expression is SQL of one row, such as age // 10",
    r"(^|, )(where|having) ": "leave the word WHERE out",
    r"^if (?!\()|\belse if\b|\belif\b| if .* else ": "write CASE WHEN x > 1 THEN 'A' ELSE 'B' END",
    r"& &?|\| \|?": "write AND for &, OR for |",
    r"[<>] =? ?[\w.]+ [<>]": "write x BETWEEN low AND high, or two comparisons with AND",
    r" as \w+$": "an expression has no AS here: its name is given beside it",
    r" ;$": "leave the ; out",
}
_GUESSED = re.compile(r"(; (did you mean|write) .*|\. You might need .*)$")
_PATTERNS = [(re.compile(pattern, re.IGNORECASE), told) for pattern, told in _SLIPS.items()]


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
    return next((told for pattern, told in _PATTERNS if pattern.search(words)), "")
