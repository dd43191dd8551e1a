"""Text as a screen may have it: nothing in it is obeyed or hidden."""

from __future__ import annotations


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
