"""How many draws the auditor needs, how often it is wrong, how long it takes.

    python benchmarks/audit.py                    # everything, some minutes
    python benchmarks/audit.py --repeats 20 --runs 300

Strength: fixed neighbours [1.0] and [], claim epsilon = 1, alpha = 1e-6; medians over repeats. False alarms:
mechanisms that reach epsilon = 1 exactly, alpha = 0.01; the last line plants a defect in the bettor (it sees
the batch that it bets on), which the same count must show. The histogram method: on the same neighbours, and on
a correct count with all of its own 600 edges.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "zoo"))

import numpy as np
from boundary import (
    float_laplace_sum,
    gaussian_sum,
    geometric_count,
    laplace_sum,
    on_grid,
    peeking,
    randomized_response,
)

from sfumato.audit import HistogramMethod, approximate, audit, gaussian
from sfumato.audit.bets import Wager
from sfumato.noise import Laplace, SeededWords

PAIR = [([1.0], [])]


def rare_value(rng: np.random.Generator) -> Callable[..., Any]:
    return lambda data, size: np.where(
        rng.random(size) < 0.001 * len(data), 7.0, on_grid(rng.normal(size=size))
    )


def wide(rng: np.random.Generator) -> Callable[..., Any]:
    """100 coordinates of epsilon 0.1 each: 10 in all."""
    return lambda data, size: on_grid(len(data)) + on_grid(rng.laplace(0, 10, (size, 100)))


STRENGTH = {
    # name: (mechanism, claim, most draws that it should take)
    "Laplace, half the scale": (partial(laplace_sum, scale=0.5), approximate(1), 1_000),
    "Laplace, 0.8 of the scale": (partial(laplace_sum, scale=0.8), approximate(1), 10_000),
    "Laplace, 0.9 of the scale": (partial(laplace_sum, scale=0.9), approximate(1), 60_000),
    "Laplace, 0.95 of the scale": (partial(laplace_sum, scale=0.95), approximate(1), None),
    "naive float64 Laplace": (float_laplace_sum, approximate(1), 2_000),
    "value of probability 0.001": (rare_value, approximate(1), None),
    "100 coordinates, one claim": (wide, approximate(1), None),
    "Gaussian, 0.8 of sigma, mu = 1": (partial(gaussian_sum, sigma=0.8), gaussian(1), None),
    "Gaussian, sigma 1, delta 1e-5, epsilon 1": (gaussian_sum, approximate(1, "1e-5"), None),
}
HISTOGRAM = [
    "Laplace, half the scale",
    "Laplace, 0.8 of the scale",
    "Laplace, 0.9 of the scale",
    "naive float64 Laplace",
]
BOUNDARY = {
    "Laplace": (laplace_sum, approximate(1)),
    "randomized response": (randomized_response, approximate(1)),
    "geometric": (geometric_count, approximate(1)),
    "Gaussian, curve": (gaussian_sum, gaussian(1)),
}


SEARCHED = {
    f"Laplace, {scale} of the scale, default datasets": (
        partial(laplace_sum, scale=scale),
        approximate(1),
        None,
    )
    for scale in (0.5, 0.8, 0.9)
}


def strength(repeats: int) -> None:
    print(f"{'found after draws a side':42} {'median':>9} {'90%':>9} {'limit':>8} {'found':>7} {'ms':>7}")
    for name, (make, claim, limit) in (STRENGTH | SEARCHED).items():
        pairs = None if name in SEARCHED else PAIR
        needed, seconds, found = [], [], 0
        for seed in range(repeats):
            report = audit(make(np.random.default_rng(seed)), claim=claim, pairs=pairs, max_samples=500_000)
            needed.append(report.samples if report.violated else math.inf)
            seconds.append(report.seconds)
            found += report.violated
        order = sorted(needed)
        print(
            f"{name:42} {statistics.median(needed):9,.0f} {order[int(0.9 * len(order))]:9,.0f} "
            f"{limit or '-':>8} {found:>3}/{repeats:<3} {statistics.median(seconds) * 1000:7.0f}"
        )


def false_alarms(runs: int, alpha: float = 0.01) -> None:
    for name, (make, claim) in BOUNDARY.items():
        count = runs if claim.text.startswith("epsilon") else runs // 5
        print(f"{name:42} {alarms(make, claim, count, alpha)} (alpha {alpha:g})")
    choose = Wager._chosen

    Wager._chosen = peeking(choose)  # type: ignore[method-assign]
    try:
        with np.errstate(invalid="ignore"):
            found = alarms(laplace_sum, approximate(1), runs // 5, alpha)
        print(f"{'Laplace, a bettor that peeks':42} {found}")
    finally:
        Wager._chosen = choose  # type: ignore[method-assign]


def alarms(make: Callable[..., Any], claim: Any, runs: int, alpha: float) -> str:
    found = sum(
        audit(
            make(np.random.default_rng(10_000 + seed)), claim=claim, pairs=PAIR, alpha=alpha, max_samples=1000
        ).violated
        for seed in range(runs)
    )
    return f"{found} alarms in {runs} runs = {found / runs:.4f}"


def histogram_method(repeats: int) -> None:
    """The published tester: what it finds on one pair, and how often it is wrong about a correct count."""
    for name in HISTOGRAM:
        make, claim, _ = STRENGTH[name]
        found = []
        for samples in (1_000, 10_000, 100_000):
            method = HistogramMethod(samples=samples)
            reports = [
                audit(make(np.random.default_rng(seed)), claim=claim, pairs=PAIR, method=method)
                for seed in range(repeats)
            ]
            found.append(f"{sum(r.violated for r in reports)} at {samples:,}")
        print(f"{name:42} found in {', '.join(found)} draws a side, of {repeats} audits")
    failed = []
    for seed in range(repeats):
        # So tolerant that all edges are compared: 600, each of which reaches its claim.
        report = audit(
            correct_count(seed),
            epsilon=1,
            max_samples=2_000_000,
            method=HistogramMethod(tolerated_edges=0.999),
        )
        failed.append(int(report.notes[-1].split()[0]))
    wrong = sum(f > 0 for f in failed)
    print(
        f"{'a correct count':42} {sum(failed)} of {600 * repeats:,} edges failed; "
        f"in {wrong} of {repeats} runs at least one, at most {max(failed)}"
    )


def correct_count(seed: int) -> Callable[..., Any]:
    words = SeededWords(seed)
    return lambda data, size: len(data) + Laplace(scale=2**20).rounded(size, words) / 2**20


def speed() -> None:
    rng = np.random.default_rng(1)
    cases: dict[str, dict[str, Any]] = {"one pair": {"pairs": PAIR}, "default datasets": {}}
    for name, options in cases.items():
        started = time.perf_counter()
        report = audit(laplace_sum(rng), epsilon=1, max_samples=200_000, **options)
        spent = time.perf_counter() - started
        print(
            f"{name:42} {report.samples / spent:12,.0f} draws a side and second; violated: {report.violated}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--runs", type=int, default=1000)
    options = parser.parse_args()
    strength(options.repeats)
    print("\nfalse alarms")
    false_alarms(options.runs)
    print("\nthe histogram method")
    histogram_method(options.repeats)
    print("\nspeed")
    speed()


if __name__ == "__main__":
    main()
