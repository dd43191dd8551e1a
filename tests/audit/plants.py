"""Planted defects of privacy: in what is claimed of a unit, in the SQL that bounds it, and in its noise."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.engines.duckdb import bounding_sql, distinct_values, sparse_matching
from sfumato.engines.duckdb.bounding_sql import BoundingSql
from sfumato.framework import Body, Product, Segment
from sfumato.measurements.quantile_choice import QuantileChoice, Target
from sfumato.noise import Laplace
from sfumato.noise.k_norm import JointNoise, SeparateNoise
from sfumato.noise.level_noise import LevelsGaussian
from sfumato.noise.series_noise import SeriesGaussian
from sfumato.plan import k_norm_plans
from sfumato.transformations import (
    Ball,
    CrossMoments,
    Moments,
    Statistic,
    UnitSum,
    VectorSum,
    WeightedSum,
    WeightGrid,
    WeightsInBins,
)
from sfumato.transformations.row_sql import RowSql

Plant = Callable[[pytest.MonkeyPatch], None]


# What is claimed.


def smaller_body(kind: type[Statistic], share: Fraction = Fraction(1, 2)) -> Plant:
    """A unit is taken to add a part of what it may add."""

    def shrunk(body: Body) -> Body:
        if isinstance(body, Product):
            return Product(tuple(shrunk(part) for part in body.factors))
        if isinstance(body, Segment):
            return Segment(body.names[0], body.linf_sensitivities[0] * share)
        size = next(name for name in ("most", "radius", "rows") if hasattr(body, name))
        return replace(body, **{size: getattr(body, size) * share})  # type: ignore[call-arg]

    def plant(patch: pytest.MonkeyPatch) -> None:
        honest: Any = kind.__dict__["body"]
        patch.setattr(kind, "body", property(lambda self: shrunk(honest.fget(self))))

    return plant


def choice_of_one_group(patch: pytest.MonkeyPatch) -> None:
    """Places are chosen for units in one group each."""
    honest = k_norm_plans.choices_of
    patch.setattr(
        k_norm_plans, "choices_of", lambda chosen, s, epsilon, groups: honest(chosen, s, epsilon, 1)
    )


def free_ends(patch: pytest.MonkeyPatch) -> None:
    """Places that are held to the counts are taken to move as others."""
    patch.setattr(Target, "moves", property(lambda self: (max(self.rank, 1 - self.rank),) * 2))


# What bounds a unit.


def text(where: Any, name: str, *changes: tuple[str, str]) -> Plant:
    """SQL that a function writes is written otherwise."""

    def changed(found: Any) -> Any:
        if isinstance(found, dict):
            return {key: changed(value) for key, value in found.items()}
        for old, new in changes:
            found = found.replace(old, new)
        return found

    def plant(patch: pytest.MonkeyPatch) -> None:
        honest = getattr(where, name)
        patch.setattr(where, name, lambda *given, **options: changed(honest(*given, **options)))

    return plant


def units_of_rows(patch: pytest.MonkeyPatch) -> None:
    """Each row is taken for a unit, so that a unit counts several times."""
    text(BoundingSql, "_input", ('"id" AS u', "row_number() OVER () AS u"))(patch)


def without_row_limit(patch: pytest.MonkeyPatch) -> None:
    """A unit is taken to have one row, and never scaled down."""
    text(bounding_sql, "kept_pairs", ("count(*) AS n", "1 AS n"))(patch)
    text(BoundingSql, "_summed", ("count(*) AS n", "1 AS n"))(patch)
    patch.setattr(BoundingSql, "firsts", {})


def uncounted_rows(patch: pytest.MonkeyPatch) -> None:
    """All of a unit's rows are counted."""
    honest = RowSql.whole_number
    patch.setattr(
        RowSql,
        "whole_number",
        lambda self, count, *given: honest(self, "n" if count.startswith("least") else count, *given),
    )
    patch.setattr(RowSql, "scaled_upwards", lambda self, total, *given: total)


def without_group_limit(patch: pytest.MonkeyPatch) -> None:
    """A unit counts in each of its groups, wholly."""
    kept, parts = bounding_sql.kept_pairs, bounding_sql.weighted
    patch.setattr(
        bounding_sql, "kept_pairs", lambda source, keys, limit, *given: kept(source, keys, 10**6, *given)
    )
    patch.setattr(bounding_sql, "weighted", lambda pairs, limit: parts(pairs, 10**6))


def all_groups(patch: pytest.MonkeyPatch) -> None:
    """What a unit adds to one group it adds to all."""
    spread = "FROM (SELECT * REPLACE (unnest([0, 1, 2]) AS k1) FROM kept"
    text(BoundingSql, "_sums", ("FROM kept", f"{spread}) AS kept"))(patch)


def unclamped(patch: pytest.MonkeyPatch) -> None:
    """Values of a row are clamped to bounds that are four times too wide."""
    honest = RowSql.steps

    def steps(self: RowSql, column: str, lower: int, upper: int, exponent: int) -> str:
        wide = 2 * (upper - lower)
        return honest(self, column, lower - wide, upper + wide, exponent)

    patch.setattr(RowSql, "steps", steps)


def one_end(patch: pytest.MonkeyPatch) -> None:
    """Values are clamped from above alone."""
    honest = RowSql.steps
    patch.setattr(
        RowSql,
        "steps",
        lambda self, column, lower, upper, exponent: honest(
            self, column, lower - 3 * (upper - lower), upper, exponent
        ),
    )


def within(kind: type[Statistic], form: str = "_sql_parts", **wrong: Callable[[Any], Any]) -> Plant:
    """The engine computes the statistic with another parameter than the plan's."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        honest = getattr(kind, form)

        def other(self: Any, sql: RowSql) -> Any:
            return honest(replace(self, **{name: change(self) for name, change in wrong.items()}), sql)

        patch.setattr(kind, form, other)

    return plant


def wide_sums(patch: pytest.MonkeyPatch) -> None:
    """What a unit has in a group is clamped to bounds that are three times too wide."""
    within(
        UnitSum,
        lower=lambda s: s.lower - (s.upper - s.lower), upper=lambda s: s.upper + (s.upper - s.lower),
    )(patch)  # fmt: skip


def other_values_limit(patch: pytest.MonkeyPatch) -> None:
    """Twice as many values of a unit count: of sets, of what is left of them, and of shares."""
    left, init, shares = (
        distinct_values._sure_and_rest,
        sparse_matching.Pruned.__init__,
        distinct_values.shares,
    )
    patch.setattr(distinct_values, "_sure_and_rest", lambda most, *given: left(2 * most, *given))
    patch.setattr(
        sparse_matching.Pruned, "__init__", lambda self, *given: init(self, *given[:3], 2 * given[3])
    )
    patch.setattr(
        distinct_values, "shares", lambda s, *given: shares(replace(s, values=2 * s.values), *given)
    )


def all_values(patch: pytest.MonkeyPatch) -> None:
    """Each value counts that anybody has."""
    init = sparse_matching.Pruned.__init__
    patch.setattr(sparse_matching.Pruned, "__init__", lambda self, *given: init(self, *given[:3], 1 << 20))


def whole_values(patch: pytest.MonkeyPatch) -> None:
    """A unit brings each of its values wholly."""
    patch.setattr(distinct_values, "shares", lambda s, *given: f"{1 << -s.exponent}::BIGINT")


def shares_of_values(patch: pytest.MonkeyPatch) -> None:
    """A unit is divided among its values, and brings a share with each row."""
    honest = bounding_sql.SqlPart
    patch.setattr(
        bounding_sql,
        "SqlPart",
        lambda name, pair, added, **options: honest(
            name, pair.replace("count(", "count(DISTINCT "), added, **options
        ),
    )


def bins_by_themselves(patch: pytest.MonkeyPatch) -> None:
    """Each bin, or leaf, has a limit of rows by itself."""

    honest = RowSql.scaled

    def scaled(self: RowSql, total: str, rows: int, body: Body) -> str:
        if "m::HUGEINT" in total:
            return total.replace("m::HUGEINT", f"least(m, {rows})::HUGEINT")
        return honest(self, total, rows, body)

    patch.setattr(RowSql, "scaled", scaled)


def other_ball(patch: pytest.MonkeyPatch) -> None:
    """Each entry of a vector is clamped, in place of its length."""
    within(VectorSum, ball=lambda s: Ball.LINF)(patch)


def longer_vectors(patch: pytest.MonkeyPatch) -> None:
    """Vectors are shortened to twice the bound."""
    within(VectorSum, radius=lambda s: 2 * s.radius)(patch)


def untrimmed(patch: pytest.MonkeyPatch) -> None:
    """Weights are trimmed at twice the largest one."""

    def twice(s: Any) -> WeightGrid:
        return WeightGrid(s.weights.exponent, 2 * s.weights.most)

    within(WeightedSum, weights=twice)(patch)
    within(WeightsInBins, "_added_sql", weights=twice)(patch)


def uncentred_squares(patch: pytest.MonkeyPatch) -> None:
    """Squares are counted from zero, where the claim is of their distance from a centre."""
    axes = lambda s: tuple(replace(a, square_centre=0) for a in s.axes)  # noqa: E731
    within(CrossMoments, axes=axes)(patch)
    within(Moments, square_centre=lambda s: 0)(patch)


# Its noise.


def noise_of(numbers: Callable[[np.ndarray, int], np.ndarray]) -> Plant:
    """The noise of a law is something else; `numbers` makes it of the draws, at the how manieth call it is."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        honest, calls = Laplace.rounded, itertools.count()
        patch.setattr(
            Laplace,
            "rounded",
            lambda self, n, *, words=None: numbers(honest(self, n, words=words), next(calls)),
        )

    return plant


first_without_noise = noise_of(lambda noise, call: noise * (call % 2))
second_without_noise = noise_of(lambda noise, call: noise * (1 - call % 2))


def less_noise(patch: pytest.MonkeyPatch) -> None:
    """All noise is a 64th of what it must be."""
    noise_of(lambda noise, call: noise // 64)(patch)
    for kind in (LevelsGaussian, SeriesGaussian, SeparateNoise, JointNoise):
        honest = kind.rounded
        patch.setattr(kind, "rounded", lambda self, *given, honest=honest: honest(self, *given) // 64)
    honest_draws = QuantileChoice.draws
    patch.setattr(
        QuantileChoice,
        "draws",
        lambda self, *given: honest_draws(replace(self, scale=self.scale / 64), *given),
    )


def values_alone(patch: pytest.MonkeyPatch) -> None:
    """The last place with a value up to the one that was chosen is taken for it."""
    honest = QuantileChoice._drawn

    def drawn(self: QuantileChoice, near: Any, places: Any, *given: Any) -> tuple[int, ...]:
        found = np.searchsorted(places, honest(self, near, places, *given), "right") - 1
        return tuple(places[np.maximum(found, 0)].tolist())

    patch.setattr(QuantileChoice, "_drawn", drawn)


def noise_in_common(patch: pytest.MonkeyPatch) -> None:
    """Two numbers get the same noise, which a difference of them then has no more."""
    kept: dict[int, np.ndarray] = {}
    noise_of(lambda noise, call: kept.setdefault(call // 2, noise))(patch)
