"""The auditor on the zoo: 60 mechanisms known to be wrong, and their correct twins.

    python benchmarks/zoo.py [--runs 25] [--jobs 2] [--only TEXT] [--skip-twins]

For each specimen: its claim and the truth; whether the default method finds it at alpha 1e-6, from the first
of its pairs on, within 60 seconds (asked for: 40) and 10 million draws a side; draws a side, seconds, and the lower bound on
epsilon that it reports; then whether the histogram method finds it at 10,000 and at 100,000 draws a side.
After the table: how often the default method calls a correct twin wrong at alpha 0.01, where each of `--runs`
runs looks at up to 20,000 draws a side; and one run of the histogram method on each.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "zoo"))

import specimens

from sfumato.audit import audit
from sfumato.audit.histogram_method import HistogramMethod

BY_NAME = {s.name: s for s in specimens.SPECIMENS}
SECONDS, MAX = 40.0, 10_000_000  # the last batch and the bounds take some more
ALPHA, TWIN_ALPHA, TWIN_DRAWS = 1e-6, 0.01, 20_000
BUCKETED = (10_000, 100_000)


@dataclass(frozen=True)
class Row:
    name: str
    found: bool
    samples: int
    seconds: float
    epsilon_lower: float
    event: str
    bucketed: tuple[bool, ...]


def examined(name: str) -> Row:
    specimen = BY_NAME[name]
    options = specimens.claimed(specimen) | {"pairs": specimen.pairs, "seconds": SECONDS, "max_samples": MAX}
    specimens.seed(f"zoo {name}")
    report = audit(specimen.broken, alpha=ALPHA, **options)
    bucketed = tuple(
        audit(specimen.broken, method=HistogramMethod(samples=n), **options).violated for n in BUCKETED
    )
    event = report.witness.event if report.witness else ""
    return Row(
        name, report.violated, report.samples, report.seconds, report.epsilon_lower, event[:60], bucketed
    )


def false_alarms(task: tuple[str, int]) -> tuple[int, bool]:
    """Count the default method's false alarms on one twin, and ask the histogram method once."""
    name, runs = task
    specimen = BY_NAME[name]
    options = specimens.claimed(specimen) | {"pairs": specimen.pairs, "seconds": SECONDS}
    alarms = 0
    for run in range(runs):
        specimens.seed(f"twin {name} {run}")
        alarms += audit(specimen.twin, alpha=TWIN_ALPHA, max_samples=TWIN_DRAWS, **options).violated
    bucketed = audit(specimen.twin, method=HistogramMethod(), **options).violated
    return alarms, bucketed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--skip-twins", action="store_true")
    given = parser.parse_args()
    names = [name for name in BY_NAME if given.only in name]
    started = time.monotonic()
    with ProcessPoolExecutor(given.jobs) as pool:
        print(
            f"{'specimen':50} {'claim':>24} {'truth':>7} {'found':>5} {'draws':>9} {'s':>6} {'eps >=':>6}  "
            f"{' '.join(f'{n // 1000}k' for n in BUCKETED)}  event"
        )
        rows = []
        for row in pool.map(examined, names):
            rows.append(row)
            print(line(row), flush=True)
        seconds = time.monotonic() - started
        found = sum(r.found for r in rows)
        print(
            f"\n{found} of {len(rows)} found in {seconds:.0f} s; the longest took {max(r.seconds for r in rows):.1f} s"
        )
        for i, n in enumerate(BUCKETED):
            print(f"histogram method, {n:,} draws a side: {sum(r.bucketed[i] for r in rows)} of {len(rows)}")
        for row in rows:
            if not row.found:
                print(f"not found: {row.name}. {BY_NAME[row.name].unseen}")
        if given.skip_twins:
            return
        results = list(pool.map(false_alarms, [(name, given.runs) for name in names]))
    alarms, runs = sum(a for a, _ in results), given.runs * len(names)
    print(
        f"\ntwins: {alarms} false alarms in {runs} runs at alpha {TWIN_ALPHA} "
        f"(at most {TWIN_ALPHA * runs:.1f} expected; 95% upper bound on the rate {upper(alarms, runs):.4f})"
    )
    print(f"histogram method on the twins: {sum(b for _, b in results)} of {len(names)} called wrong")
    for name, (count, bucketed) in zip(names, results, strict=True):
        if count or bucketed:
            print(f"  {name}: {count} of {given.runs}{', and the histogram method' * bucketed}")


def line(row: Row) -> str:
    specimen = BY_NAME[row.name]
    claim = ", ".join(f"{k} {v:.4g}" for k, v in specimen.claim.items())
    truth = f"{'>=' * (specimen.truth_is == 'at least')}{specimen.truth:.3g}"
    marks = " ".join(f"{'yes' if b else '-':>3}" for b in row.bucketed)
    found = "yes" if row.found else "NO"
    return (
        f"{row.name:50} {claim:>24} {truth:>7} {found:>5} {row.samples:9,} {row.seconds:6.2f} "
        f"{row.epsilon_lower:6.2f}  {marks}  {row.event}"
    )


def upper(alarms: int, runs: int) -> float:
    """The largest rate at which so few alarms have a probability of 5%: Clopper and Pearson."""
    low, high = alarms / runs, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        terms = (math.comb(runs, k) * middle**k * (1 - middle) ** (runs - k) for k in range(alarms + 1))
        low, high = (middle, high) if sum(terms) > 0.05 else (low, middle)
    return high


if __name__ == "__main__":
    main()
