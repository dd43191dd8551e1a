"""A score for outputs with several leaves: a logistic regression that tells the two sides apart."""

from __future__ import annotations

import numpy as np

from sfumato.audit.outputs import Codes, Draws, Floats

_RIDGE = 1.0
_MOST_COLUMNS = 200
_MOST_TOKENS = 4
_STEPS = 12
_FITTED_ON = 20_000


class Classifier:
    """Logistic regression on numbers and kinds of leaves, fitted by Newton's method with a ridge.

    Args:
        x: draws of the first side.
        y: draws of the second side, as wide.

    Its score is a log-ratio of the sides' densities, but for its misfit; nothing rests on how good it is.
    """

    def __init__(self, x: Draws, y: Draws) -> None:
        x, y = (_first(d) for d in (x, y))
        tokens = np.concatenate([x.tokens, y.tokens])[:, :_MOST_COLUMNS]
        self._tokens = [_often(column) for column in tokens.T]
        raw = np.vstack([self._raw(x), self._raw(y)])
        self._center = np.median(raw, axis=0)
        spread = np.quantile(np.abs(raw - self._center), 0.75, axis=0)
        self._scale = np.where(spread > 0, spread, 1.0)
        design = self._scaled(raw)
        side = np.concatenate([np.ones(len(x)), np.zeros(len(y))])
        self._weights = _newton(design, side)

    def score(self, draws: Draws) -> Floats:
        """Return the score of each draw: larger where the first side is more likely."""
        return np.asarray(self._scaled(self._raw(draws)) @ self._weights)

    def _raw(self, draws: Draws) -> Floats:
        columns = len(self._tokens)
        wide = draws.wide(columns)
        numbers = wide.numbers[:, :columns]
        parts = [np.clip(np.nan_to_num(numbers, nan=0.0), -1e150, 1e150)]
        for column, codes in enumerate(self._tokens):
            parts += [(wide.tokens[:, column] == code)[:, None] for code in codes]
        return np.hstack(parts)

    def _scaled(self, raw: Floats) -> Floats:
        scaled = np.clip((raw - self._center) / self._scale, -8, 8)
        return np.hstack([scaled, np.ones((len(raw), 1))])


def _newton(design: Floats, side: Floats) -> Floats:
    weights = np.zeros(design.shape[1])
    ridge = np.full(design.shape[1], _RIDGE)
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        gradient = design.T @ (side - chance) - ridge * weights
        curvature = (design * (chance * (1 - chance))[:, None]).T @ design + np.diag(ridge)
        step = np.linalg.solve(curvature, gradient)
        weights = weights + step
        if np.abs(step).max() < 1e-6:
            break
    return weights


def _often(codes: Codes) -> Codes:
    """Return the most frequent codes of a column, but for one: the rest is told by their absence."""
    values, seen = np.unique(codes, return_counts=True)
    return values[np.argsort(-seen, kind="stable")][1 : _MOST_TOKENS + 1]


def _first(draws: Draws) -> Draws:
    return Draws(draws.numbers[:_FITTED_ON], draws.tokens[:_FITTED_ON], draws.low[:_FITTED_ON])
