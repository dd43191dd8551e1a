"""Every section of the five documents has a row in docs/sources.md, with code and tests that exist, and every correction a test."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sources.md").read_text()
# The headings of the documents, as a row names them.
SECTIONS = {
    "Tolerance calculation": "Floats: Laplace noise (both)|Floats: Gaussian noise|Integers (both)|Multiple partitions|"
    "Bounded mean (both)|Bounded variance, cases 2.1 to 2.3|Complementary tolerance: Laplace noise|"
    "Complementary tolerance: Gaussian noise|Complementary tolerance: mean, variance",
    "Lipschitz sized variance": "1.1 Code in Rust|1.2 Pseudo code|Preconditions|Postconditions|2 Proof, Theorem 2.1|Definition 1",
    "Snapping mechanism notes": "1 Introduction|2.1 Laplace mechanism|2.2 Snapping mechanism|3 Sampling from the Laplace|"
    "4 and 4.1 Finding Λ|4.2 Rounding to the nearest multiple of Λ, 4.2.1 to 4.2.3|5 Redefinition of ε|6.1 Symmetric bounds|"
    "6.2 Error|6.3 Accuracy|6.4 Bias|6.5 Choosing B|6.5.1 P(clamping bound binds)|7.1 Mean|7.2 Sample variance|"
    "7.3 Sample covariance|7.4 Histogram",
    "Robustness and testing": "Manual testing|Unit testing|Stochastic testing|Extensions",
}
CORRECTIONS = 24


def tables(page: str) -> dict[str, list[list[str]]]:
    """Rows of the table under each heading."""
    found = {}
    for part in page.split("\n## ")[1:]:
        lines = [line for line in part.splitlines() if line.startswith("| ")][1:]
        found[part.partition("\n")[0]] = [
            [cell.strip() for cell in line.strip("|").split(" | ")] for line in lines
        ]
    return found


def lacking(page: str) -> list[str]:
    """What has no row, no code, no test, or a correction that is none."""
    wrong = []
    for document, sections in SECTIONS.items():
        rows = next(rows for heading, rows in tables(page).items() if heading.startswith(document))
        wrong += [s for s in sections.split("|") if not any(s in row[0] for row in rows)]
        for row in rows:
            if not re.search(r"`(src|tests/zoo)/\S+`", row[2]) or not re.search(r"`(test_|tests/)", row[3]):
                wrong.append(row[0])
            numbers = [int(n) for n in re.findall(r"\d+", row[4])] if len(row) > 4 else []
            wrong += [f"correction {n}" for n in numbers if not 1 <= n <= CORRECTIONS]
    corrections = page.partition("\n## Corrections")[2]
    for n in range(1, CORRECTIONS + 1):
        line = re.search(rf"^{n}\. .*`test_\w+`$", corrections, re.M)
        if line is None or not re.search(rf"\| [\d, ]*\b{n}\b[\d, ]* \|$", page, re.M):
            wrong.append(f"correction {n}")
    return wrong


def test_every_section_has_its_code_and_tests() -> None:
    assert not lacking(PAGE)
