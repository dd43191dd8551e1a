"""How many draws `closeness` needs until it sees a defect of noise.

    python benchmarks/closeness.py                       # everything, ten minutes
    python benchmarks/closeness.py --runs 20 --only tail
    python benchmarks/closeness.py --clean-room           # against a sample of numpy.random, of the same size

For each defect and law: the least sample size, to two digits, at which 95% of `--runs` samples fail at alpha 1e-9;
the worse of the two where a scale is off either way; and the check that failed most often there.
"""

from __future__ import annotations

import argparse
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from sfumato.audit import closeness
from sfumato.noise import Gaussian, Laplace, Law, SeededWords

Values = NDArray[np.generic]
# A sample of so many draws; the law that it is said to follow, and its grid.
Case = tuple[Callable[[int, SeededWords], Values], Law, int | None]
Kind = type[Laplace] | type[Gaussian]
LAWS = (Laplace, Gaussian)
FINE = 2**30  # a scale in grid steps, as a release has it
SHARE = 0.95


def scaled(law: Kind, factor: str) -> Case:
    return law(Fraction(factor) * FINE).rounded, law(FINE), 1


def moved(law: Kind, part: int) -> Case:
    right = law(FINE)
    return lambda n, words: right.rounded(n, words) + FINE // part, right, 1


def clean_room(law: Law, grid: int | None, n: int, seed: int) -> Values:
    """Draw noise of the law by other means than this package's."""
    generator = np.random.default_rng([n, seed])
    drawn = generator.laplace(size=n) if isinstance(law, Laplace) else generator.normal(size=n)
    noise = drawn * float(law.unit)
    return noise if grid is None else np.rint(noise / grid).astype(np.int64)


def redrawn(law: Kind, bound: int) -> Case:
    right = law(FINE)

    def sample(n: int, words: SeededWords) -> Values:
        kept = np.empty(0, np.int64)
        while len(kept) < n:
            more = right.rounded(n, words)
            kept = np.concatenate([kept, more[np.abs(more) <= bound * FINE]])
        return kept[:n]

    return sample, right, 1


def clipped(law: Kind, bound: int) -> Case:
    right = law(FINE)
    return lambda n, words: np.clip(right.rounded(n, words), -bound * FINE, bound * FINE), right, 1


def few_bits(law: Kind, bits: int, steps: int | None) -> Case:
    """Noise by inversion of 2^bits uniform numbers; as floats, or rounded to `steps` grid steps a scale."""

    def sample(n: int, words: SeededWords) -> Values:
        uniform = ((words.take(n) >> np.uint64(64 - bits)).astype(np.float64) + 0.5) / 2**bits
        noise = stats.laplace.ppf(uniform) if law is Laplace else special.ndtri(uniform)
        return noise if steps is None else np.rint(noise * steps).astype(np.int64)

    return sample, law(steps or 1), None if steps is None else 1


def coarse(law: Kind) -> Case:
    right = law(2**16)
    return lambda n, words: right.rounded(n, words) / 2.0**16, law(1), None


def stuck(law: Kind) -> Case:
    right = law(FINE)
    return lambda n, words: right.rounded(n, words) & ~1, right, 1


def cases() -> Iterator[tuple[str, Kind, list[Case]]]:
    for law in LAWS:
        yield "scale 0.7 of the right one", law, [scaled(law, "0.7")]
        yield "scale off by 10%", law, [scaled(law, "0.9"), scaled(law, "1.1")]
        yield "scale off by 5%", law, [scaled(law, "0.95"), scaled(law, "1.05")]
        yield "a twentieth of a scale aside", law, [moved(law, 20)]
        for what, make in (("redrawn beyond", redrawn), ("clipped at", clipped)):
            for bound in (3, 4, 6) if law is Laplace else (2, 3):
                yield f"tail: {what} {bound} scales", law, [make(law, bound)]
        yield "16-bit generator, as floats", law, [few_bits(law, 16, None)]
        yield "16-bit generator, 2^20 steps a scale", law, [few_bits(law, 16, 2**20)]
        yield "noise on a grid of 2^-16, meant to be real", law, [coarse(law)]
        yield "the lowest bit of 30 always 0", law, [stuck(law)]
    yield "16-bit generator, 2^17 steps a scale", Laplace, [few_bits(Laplace, 16, 2**17)]
    yield "32-bit generator, as floats", Laplace, [few_bits(Laplace, 32, None)]
    yield "16-bit generator, 2^14 steps a scale", Laplace, [few_bits(Laplace, 16, 2**14)]
    yield "16-bit generator, 1,000 steps a scale", Laplace, [few_bits(Laplace, 16, 1000)]


def failing(case: Case, n: int, runs: int, two: bool) -> Counter[str] | None:
    """Return how often each check failed, or None as soon as too many samples pass; `two` compares samples."""
    sample, law, grid = case
    found: Counter[str] = Counter()
    passed = 0
    for run in range(runs):
        noise = sample(n, SeededWords(f"{n} {run}"))
        result = closeness(noise, clean_room(law, grid, n, run)) if two else closeness(noise, law, grid=grid)
        passed += result.passed
        if passed > (1 - SHARE) * runs:
            return None
        found.update(check.name for check in result.failed)
    return found


def needed(case: Case, runs: int, two: bool) -> tuple[int, str]:
    """Return the least size in two digits at which enough samples fail, and the check that failed most."""
    sizes = [digits * 10**power for power in range(6) for digits in range(10, 100)]
    low, high = -1, sizes.index(50)
    seen = partial(failing, case, runs=runs, two=two)
    while (found := seen(sizes[high])) is None:
        if 2 * sizes[high] > sizes[-1]:
            raise SystemExit(f"not seen in {sizes[high]:,} draws")
        low, high = high, bisect_left(sizes, 2 * sizes[high])
    while high - low > 1:
        middle = (low + high) // 2
        at = seen(sizes[middle])
        if at is None:
            low = middle
        else:
            high, found = middle, at
    return sizes[high], found.most_common(1)[0][0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--clean-room", action="store_true", help="compare with a sample of the same size")
    parser.add_argument("--only", default="", help="defects whose name holds this text")
    options = parser.parse_args()
    print(f"{'defect':45} {'law':9} {'draws':>9}  check")
    for name, law, made in cases():
        if options.only in name:
            draws, check = max(
                (needed(case, options.runs, options.clean_room) for case in made), key=lambda f: f[0]
            )
            print(f"{name:45} {law.__name__:9} {draws:>9,}  {check}", flush=True)


if __name__ == "__main__":
    main()
