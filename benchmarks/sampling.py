"""Coverage and width of error bars with what a sample leaves open, beside the textbook's without privacy.

    python benchmarks/sampling.py [--samples 10000] [--sizes 20 100 500] [--epsilon 1 8]

Every group of one release is a sample of its own: a Poisson number of units of the same population. Counts and
sums are to hold what such a sample has on average, means and proportions what the population has. `z` says by how
many standard errors of the measurement a coverage lies above the confidence (below: negative). The textbook's
intervals see the rows: Wald's of a count and of a proportion, Student's of a mean, and that of a total by the
root of its squares. Widths are medians; `/ textbook` compares with them, `/ noise` with the bars of noise alone.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa
from scipy import stats

import sfumato as sf

UPPER, SHARE = 60, 0.07
MEAN, SPREAD = 2.0, 0.8
CONFIDENCE = 0.95


def population_mean():
    """The mean of exp(2 + 0.8 Z), cut at the upper bound."""
    cut = (np.log(UPPER) - MEAN) / SPREAD
    below = np.exp(MEAN + SPREAD**2 / 2) * stats.norm.cdf(cut - SPREAD)
    return below + UPPER * stats.norm.sf(cut)


def sample(samples, size, seed):
    rng = np.random.default_rng(seed)
    sizes = rng.poisson(size, samples)
    total = int(sizes.sum())
    group = np.repeat(np.arange(samples), sizes)
    x = np.minimum(rng.lognormal(MEAN, SPREAD, total), UPPER)
    return group, x, rng.random(total) < SHARE


def textbook(group, x, yes, samples):
    """Estimates and half-widths that see the rows."""
    n = np.bincount(group, minlength=samples).astype(float)
    total, squares, ones = (np.bincount(group, v, samples) for v in (x, x**2, yes.astype(float)))
    z, some = stats.norm.ppf(0.5 + CONFIDENCE / 2), np.maximum(n, 2)
    mean, share = total / some, ones / some
    spread = np.sqrt(np.maximum(squares - n * mean**2, 0) / (some - 1))
    student = stats.t.ppf(0.5 + CONFIDENCE / 2, some - 1)
    return {
        "count": (n, z * np.sqrt(n)),
        "sum": (total, z * np.sqrt(squares)),
        "mean": (mean, student * spread / np.sqrt(some)),
        "proportion": (share, z * np.sqrt(share * (1 - share) / some)),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 100, 500])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 8.0])
    given = parser.parse_args()
    print("   size epsilon  output        coverage       z   (textbook)   width  / noise  / textbook")
    for size in given.sizes:
        group, x, yes = sample(given.samples, size, size)
        plain = textbook(group, x, yes, given.samples)
        truth = {
            "count": size,
            "sum": size * population_mean(),
            "mean": population_mean(),
            "proportion": SHARE,
        }
        rows = pa.table({"id": np.arange(len(x)), "g": group, "x": x, "yes": yes})
        within = {"lower": 0, "upper": UPPER}
        for epsilon in given.epsilon:
            release = (
                sf.scan(rows, privacy_unit="id")
                .group_by("g", keys=list(range(given.samples)))
                .bound(groups=1, rows=1, beyond="sample")
                .agg(
                    count=sf.count(), sum=sf.sum("x", **within), mean=sf.mean("x", **within),
                    spread=sf.variance("x", **within), proportion=sf.proportion("yes"),
                )
                .release(epsilon=epsilon, delta=1e-6)
            )  # fmt: skip
            table, bars, alone = (
                release.to_arrow(),
                release.errors(CONFIDENCE, sampling=True),
                release.errors(),
            )
            for name, right in truth.items():
                bar = bars[name].to_numpy()
                held = (np.abs(table[name].to_numpy() - right) <= bar).mean()
                z = (held - CONFIDENCE) / np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / given.samples)
                estimate, half = plain[name]
                without = (np.abs(estimate - right) <= half).mean()
                ratios = np.median(bar / alone[name].to_numpy()), np.median(bar) / np.median(half)
                print(
                    f"{size:>7} {epsilon:>7} {name:>11} {held:>13.4f} {z:>7.1f} {without:>12.4f} "
                    f"{np.median(bar):>7.4g} {ratios[0]:>8.2f} {ratios[1]:>11.2f}"
                )


if __name__ == "__main__":
    main()
