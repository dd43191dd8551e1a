"""Texts of SQL with their verdicts, from the files of `tests/dialect`."""

from pathlib import Path

DIALECT = Path(__file__).parents[1] / "dialect"


def verdicts(file: str, kind: str = "") -> list[tuple[str, str]]:
    """Return the verdicts that begin with a word, and the texts that have them.

    A line "== verdict" stands above its texts, one a line. A line that begins with a space goes on with the text before.
    """
    found: list[tuple[str, str]] = []
    verdict = ""
    for line in (DIALECT / file).read_text().splitlines():
        if line.startswith("== "):
            verdict = line.removeprefix("== ")
        elif line.startswith(" "):
            found[-1] = (verdict, f"{found[-1][1]}\n{line.strip()}")
        elif line and verdict:
            found.append((verdict, line))
    return [one for one in found if one[0].startswith(kind)]
