"""Draw docs/pictures/audit.svg: a picture of the auditor's page, for a count with too little noise.

python docs/pictures/audit.py
"""

from __future__ import annotations

from pathlib import Path

from sfumato.audit import Pair, audit
from sfumato.audit.report_page import Bars, direction, style
from sfumato.noise import Laplace, SeededWords

STEPS = 2**20
words = SeededWords(1)


def weak_count(dataset, size):
    """A count with 0.6 of the noise that it should have."""
    return len(dataset) + Laplace(scale=STEPS * 3 // 5).rounded(size, words) / STEPS


def picture() -> str:
    """Return the picture with its style inside it."""
    witness = audit(weak_count, epsilon=1, pairs=[([1.0], [])], max_samples=100_000).witness
    sides = ("one dataset", "other")
    svg = direction(Bars.from_witness(witness)["histogram"], Pair(witness.epsilon), "audit", sides).svg
    head, _, body = svg.partition(">")
    head = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg" width="560"')
    return f"{head}><style>{style()} svg {{ background: var(--paper); }}</style>{body}\n"


if __name__ == "__main__":
    (Path(__file__).parent / "audit.svg").write_text(picture())
