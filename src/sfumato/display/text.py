"""Text as a screen may have it: nothing in it is obeyed or hidden."""

from __future__ import annotations

import re

# What a spreadsheet takes for the beginning of a formula, in half and full width. Quotes before it are those
# of a text that was guarded, or that looks like one: another one makes every text come back as it was.
FORMULA = r"('*[=+\-@\t\r\n\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}])"
_FORMULA = re.compile(re.sub(r"\\x\{(\w+)\}", r"\\u\1", FORMULA))


def guarded(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula: behind a quote where it begins like one.

    Args:
        text: a cell of a CSV file, or a name in its header; never a number.

    >>> guarded("=1+1"), guarded("Ulm"), guarded("'=1"), guarded("'t Hof")
    ("'=1+1", 'Ulm', "''=1", "'t Hof")
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unguarded(text: str) -> str:
    """Return the text that `guarded` was given.

    >>> unguarded("'=1+1"), unguarded("Ulm"), unguarded("''=1"), unguarded("'t Hof")
    ('=1+1', 'Ulm', "'=1", "'t Hof")
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def visible(text: str, *, lines: bool = False) -> str:
    """Escape what a terminal would obey or hide: escape codes, line ends, marks of direction.

    Args:
        text: any text, such as a group's key.
        lines: let line ends and tabs through.

    >>> print(visible("a" + chr(27) + "[31m" + chr(10)))
    a\\x1b[31m\\n
    """
    allowed = "\n\t" if lines else ""
    return "".join(
        c if c.isprintable() or c in allowed else c.encode("unicode_escape").decode("ascii") for c in text
    )
