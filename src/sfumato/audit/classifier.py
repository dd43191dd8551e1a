"""A score for outputs with several leaves: a linear discriminant that tells the two sides apart."""

from __future__ import annotations

import numpy as np

from sfumato.audit.bits import Codes, Floats
from sfumato.audit.outputs import Draws

_RIDGE = 10.0
_MOST_COLUMNS = 200
_MOST_TOKENS = 4
_STEPS = 25
_FITTED_ON = 5_000
# Wider outputs are scored by lines alone.
_MOST_SQUASHED = 100


class Classifier:
    """Linear discriminant on numbers and kinds of leaves, fitted by least squares with a ridge.

    Args:
        x: draws of the first side.
        y: draws of the second side, as wide.

    Nothing rests on how good it is.

    Source:
        Fisher 1936; conjugate gradients (Hestenes and Stiefel 1952) in place of a factorisation, as many
        small matrices would keep all threads of the linear algebra busy with waiting for each other.
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
        side = np.concatenate([np.ones(len(x)), -np.ones(len(y))])
        self._weights = _least_squares(design, side)

    def score(self, draws: Draws) -> Floats:
        """Return the score of each draw: larger where the first side is more likely."""
        return np.asarray(np.einsum("ij,j->i", self._scaled(self._raw(draws)), self._weights))

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
        # The log-ratio of shifted Laplace noise is a clipped line, of Gaussian noise a line: offer both.
        squashed = [np.clip(scaled, -1, 1)] if scaled.shape[1] <= _MOST_SQUASHED else []
        return np.hstack([scaled, *squashed, np.ones((len(raw), 1))])


def _least_squares(design: Floats, side: Floats) -> Floats:
    """Solve (D'D + ridge) w = D' side by conjugate gradients."""
    weights = np.zeros(design.shape[1])
    residual = np.einsum("ij,i->j", design, side)
    direction, size = residual, float((residual**2).sum())
    enough = 1e-8 * size
    for _ in range(_STEPS):
        if size <= enough:
            break
        image = np.einsum("ij,j->i", design, direction)
        image = np.einsum("ij,i->j", design, image) + _RIDGE * direction
        step = size / float((direction * image).sum())
        weights = weights + step * direction
        residual = residual - step * image
        size, before = float((residual**2).sum()), size
        direction = residual + size / before * direction
    return weights


def _often(codes: Codes) -> Codes:
    """Return the most frequent codes of a column, but for one: the rest is told by their absence."""
    values, seen = np.unique(codes, return_counts=True)
    return values[np.argsort(-seen, kind="stable")][1 : _MOST_TOKENS + 1]


def _first(draws: Draws) -> Draws:
    return Draws(draws.numbers[:_FITTED_ON], draws.tokens[:_FITTED_ON], draws.low[:_FITTED_ON])
