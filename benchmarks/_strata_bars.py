"""Coverage and width of intervals of stratified proportions, over designs, populations and noises: `coverage.py --strata`.

Each cell is a design (strata, sample and population sizes), a population, a noise and a confidence. Samples
are drawn without replacement, noise by the package's own exact draws. A cell's coverage is the share
of repetitions whose interval holds the population's proportion; `z` says by how many standard errors of
the measurement it lies above the confidence (below: negative). Among thousands of cells a few lie 3 below by
chance; the chance of any below -5 is less than 0.003.

The interval holds P exactly when T lies between two thresholds, since its ends grow with T: they are
found by bisection, once for each cell. Widths are means; `/ own` is beside the same interval without
noise, `/ Wald` beside the textbook's mean plus or minus z standard errors without noise, `/ noisy` beside
the same with the noise's variance: what caution costs at equal privacy. Both take the true variance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from statistics import NormalDist, median

import numpy as np

from sfumato.measurements.stratified_survey import ProportionLimits, RoundedNoise
from sfumato.noise import Gaussian, Laplace, SeededWords
from sfumato.transformations.stratified_design import StratifiedDesign

CONFIDENCES = (Fraction(95, 100), Fraction(99, 100))
LAWS = (None, Laplace("0.1"), Laplace(1), Laplace(10), Laplace(200), Gaussian(1), Gaussian(5), Gaussian(100))
POPULATIONS = (0.0, 0.01, 0.05, 0.2, 0.5, 0.9, 1.0, "spread", "opposed", "one stratum")

SCHOOLS = StratifiedDesign([100, 50, 50], [4421, 755, 1018])


@dataclass(frozen=True)
class Cell:
    design: StratifiedDesign
    population: object
    law: object
    confidence: Fraction
    coverage: float
    wald_coverage: float
    z: float
    width: float
    own: float
    wald: float
    noisy_wald: float

    @property
    def population_share(self) -> float:
        return float(members(self.design, self.population).sum() / sum(self.design.strat_sizes))

    @property
    def is_mixed(self) -> bool:
        """Whether the strata differ: then the interval, which does not assume how, is wider than Wald's."""
        return isinstance(self.population, str)

    def __str__(self) -> str:
        sizes, strata = self.design.sample_sizes, self.design.strat_sizes
        show = lambda v: str(v[0]) if len(set(v)) == 1 else f"{min(v)}..{max(v)}"  # noqa: E731
        law = "none" if self.law is None else f"{type(self.law).__name__}({float(self.law.unit):g})"
        return (
            f"{len(sizes):>4} {show(sizes):>9} {show(strata):>13} {self.population!s:>12} {law:>14} "
            f"{float(self.confidence):>5.2f} {self.coverage:>8.4f} {self.z:>6.1f} {self.wald_coverage:>8.4f} "
            f"{self.width:>7.4f} {self.width / self.own:>6.2f} {self.width / self.wald if self.wald else math.nan:>7.2f}"
        )


HEAD = "   H         n             N   population          noise level coverage      z  (Wald)   width  / own  / Wald"


def designs(quick: bool) -> Iterator[StratifiedDesign]:
    strata, samples = ((1, 3, 10), (2, 30, 300)) if quick else ((1, 2, 3, 10, 50), (2, 5, 10, 100, 1000))
    for h, n, share in product(strata, samples, (1, 0.5, 0.1, 0)):
        yield StratifiedDesign([n] * h, [round(n / share) if share else 10**6] * h)
    yield StratifiedDesign([2, 1000], [10**6, 1000])
    yield StratifiedDesign([2, 1000], [1000, 10**6])
    yield StratifiedDesign([10, 100, 1000], [10**4] * 3)
    yield SCHOOLS
    yield StratifiedDesign([2, 5, 10, 20, 50, 100, 200, 500, 1000, 1000], [10**5] * 10)
    yield StratifiedDesign([50] * 10, [60, 100, 200, 500, 1000, 3000, 10**4, 10**5, 10**5, 10**6])


def members(design: StratifiedDesign, population: object) -> np.ndarray:
    """How many in each stratum say yes."""
    sizes = np.array(design.strat_sizes)
    h = len(sizes)
    shares = {
        "spread": np.linspace(0.1, 0.9, h) if h > 1 else np.array([0.3]),
        "opposed": np.arange(h) % 2,
        "one stratum": 0.1 * (np.arange(h) == np.argmax(sizes)),
    }.get(population, np.full(h, population)) if isinstance(population, str) else np.full(h, population)  # fmt: skip
    return np.rint(sizes * shares).astype(np.int64)


def thresholds(limits: ProportionLimits, truth: float, confidence: Fraction) -> tuple[float, float]:
    """Return the T between which the interval holds the truth."""
    low, high = np.full(2, -0.01), np.full(2, 1.01)
    for _ in range(50):
        middle = (low + high) / 2
        # Entry 0 asks whether the upper limit has reached the truth, entry 1 whether the lower is past it.
        lower, upper = limits.limits(middle, confidence)
        past = np.array([upper[0] >= truth, lower[1] > truth])
        low, high = np.where(past, low, middle), np.where(past, middle, high)
    # Beyond 0 and 1 the limits stay as they are there.
    return (-math.inf if high[0] <= 1e-9 else high[0]), (math.inf if low[1] >= 1 - 1e-9 else low[1])


def wald_covers(
    sums: np.ndarray, design: StratifiedDesign, noise: float, truth: float, z: float
) -> np.ndarray:
    """Whether the mean plus or minus z standard errors, by `stratified_estimate`, holds the truth."""
    n, step = np.array(design.sample_sizes), np.array([float(a) for a in design.steps])
    weight = np.array([float(w) for w in design.variance_weights])
    p = sums / n
    variance = (weight * np.clip(p * (1 - p) + noise / n**2, 0, 0.25)).sum(1) + (step**2 * noise).sum()
    return np.abs(sums @ step - truth) <= z * np.sqrt(variance) + 1e-9


def cells(
    repetitions: int,
    chosen: Iterable[StratifiedDesign],
    populations: Sequence[object] = POPULATIONS,
    confidences: Sequence[Fraction] = CONFIDENCES,
    drawn: Sequence[object] = LAWS,
) -> Iterator[Cell]:
    rng, words = np.random.default_rng(20261121), SeededWords("coverage")
    for design in chosen:
        n, sizes = np.array(design.sample_sizes), np.array(design.strat_sizes)
        step, weight = np.array([float(a) for a in design.steps]), sizes / sizes.sum()
        plain = ProportionLimits(design, RoundedNoise(None))
        laws = [(law, ProportionLimits(design, RoundedNoise(law))) for law in drawn]
        for population in populations:
            yes = members(design, population)
            truth = yes.sum() / sizes.sum()
            shares = yes / sizes
            within = weight**2 * (sizes - n) / np.maximum(sizes - 1, 1) * shares * (1 - shares) / n
            counts = rng.hypergeometric(yes, sizes - yes, n, size=(repetitions, len(n)))
            for law, limits in laws:
                noise = 0 if law is None else law.rounded(counts.size, words).reshape(counts.shape)
                sums = counts + noise
                t = sums @ step
                for confidence in confidences:
                    low, high = thresholds(limits, truth, confidence)
                    coverage = float(((t >= low - 1e-9) & (t <= high + 1e-9)).mean())
                    level = float(confidence)
                    some = [np.subtract(*lim.limits(x, confidence)[::-1]).mean() for lim, x in
                            ((limits, t[:25]), (plain, (counts @ step)[:25]))]  # fmt: skip
                    z = NormalDist().inv_cdf((1 + level) / 2)
                    yield Cell(
                        design, population, law, confidence, coverage,
                        float(wald_covers(sums, design, limits.noise.variance, truth, z).mean()),
                        (coverage - level) / math.sqrt(level * (1 - level) / repetitions),
                        float(some[0]), float(some[1]), 2 * z * math.sqrt(within.sum()),
                        2 * z * math.sqrt(within.sum() + (step**2).sum() * limits.noise.variance),
                    )  # fmt: skip


def run(repetitions: int, quick: bool) -> None:
    """Print the lowest coverages, and widths by noise."""
    found = list(cells(repetitions, designs(quick)))
    assert all(c.width <= 1 for c in found)
    for confidence in CONFIDENCES:
        some = [c for c in found if c.confidence == confidence]
        below = sum(c.z < -3 for c in some)
        naive = sum(c.wald_coverage < float(confidence) - 0.01 for c in some)
        print(f"\n{float(confidence):.0%}: {len(some)} cells of {repetitions} repetitions; lowest coverage "
              f"{min(c.coverage for c in some):.4f}, z below -3 in {below}. "
              f"Wald, the noise's variance included, is more than a point short in {naive}, at worst "
              f"{min(c.wald_coverage for c in some):.4f}.")  # fmt: skip
        print(HEAD)
        for cell in sorted(some, key=lambda c: c.z)[:12]:
            print(cell)
        print(
            "\nWidths, median (widest), by noise; populations from 5% to 95%, own width below 0.5. Drowned cells,"
        )
        print(
            "whose noisy Wald interval is wider than 0.8, are left out of `/ noisy`, and unlike strata stand apart."
        )
        print("         noise   width         / own         / Wald        / noisy   unlike strata")
        for law in LAWS:
            of = [c for c in some if c.law == law and c.own < 0.5 and c.wald > 1e-9]
            of = [c for c in of if 0.04 < c.population_share < 0.96]
            near = [c for c in of if c.noisy_wald < 0.8]
            ratios = (
                [c.width / c.own for c in of],
                [c.width / c.wald for c in of if not c.is_mixed],
                [c.width / c.noisy_wald for c in near if not c.is_mixed],
                [c.width / c.noisy_wald for c in near if c.is_mixed],
            )
            name = "none" if law is None else f"{type(law).__name__}({float(law.unit):g})"
            shown = "".join(f"{median(r):>7.2f} ({max(r):>5.2f})" if r else f"{'-':>15}" for r in ratios)
            print(f"{name:>14} {median(c.width for c in of):>7.4f}{shown}")
