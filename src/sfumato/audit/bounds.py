"""What draws exclude: a lower bound on epsilon, a bound on the excess of half-lines, what was in sight."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sfumato.audit.betting import Floats, best_bet, growth, log_factors
from sfumato.audit.claims import Pair
from sfumato.audit.events import estimates
from sfumato.audit.pair_test import PairTest
from sfumato.exact.roots import halve

_CHUNK = 8
# Numbers of draws that a band is made for: so many from one power of two to the next.
_GRID = 4


def ladder(epsilon: float) -> list[float]:
    """Return the epsilons that are tried in turn for a lower bound: fixed before any draw.

    >>> ladder(1.0)[:3], ladder(1.0)[-1]
    ([0.025, 0.05, 0.075], 20.0)
    """
    unit = epsilon if 0 < epsilon < math.inf else 1.0
    fine = [k / 40 for k in range(1, 81)]
    steps = fine + [2 + k / 10 for k in range(1, 31)] + [5.5 + k / 2 for k in range(30)]
    return [unit * step for step in steps]


def epsilon_lower(tests: Sequence[PairTest], confidence: float) -> tuple[Pair, float]:
    """Return a lower bound on the true epsilon, by testing greater and greater ones until one stands.

    Each epsilon of the ladder is tested by the same events, with bets of its own, at level 1 - confidence;
    since they are tried in a fixed order up to the first that stands, no correction is needed. The pairs of
    a curve share the level.

    Args:
        tests: all pairs of datasets, after their draws.
        confidence: in (0, 1).
    Returns:
        The pair of the claim where the bound exceeds the claimed epsilon most, and the bound at its delta.
    """
    pairs = tests[0].claim.pairs
    needed = math.log(len(pairs) / (1 - confidence))
    found = [(pair, _climb(tests, j, needed)) for j, pair in enumerate(pairs)]
    return max(found, key=lambda item: item[1] - item[0].epsilon)


def _climb(tests: Sequence[PairTest], j: int, needed: float) -> float:
    """Return the greatest epsilon of the ladder up to which all are rejected; 0 for none."""
    claim = tests[0].claim.pairs[j]
    steps = ladder(claim.epsilon)
    reached = 0.0
    for start in range(0, len(steps), _CHUNK):
        chunk = steps[start : start + _CHUNK]
        wealth = _highest(tests, j, [Pair(e, claim.delta) for e in chunk])
        for epsilon, log_wealth in zip(chunk, wealth, strict=True):
            if log_wealth < needed:
                return reached
            reached = epsilon
    return reached


def _highest(tests: Sequence[PairTest], j: int, claims: list[Pair]) -> Floats:
    """Replay all bets against other claims, and return the highest log wealth of each."""
    moments = sorted((time, e, i) for e, t in enumerate(tests) for i, (time, _) in enumerate(t.history))
    # Before its first bet a pair has what was kept for it: less than 1 if calls raised and were forgotten.
    of_edge = np.repeat([[t.log_share] for t in tests], len(claims), axis=1)
    of_bets = [_Accounts(t, j, claims) for t in tests]
    best = np.zeros(len(claims))
    for _, e, i in moments:
        of_edge[e] = of_bets[e].after(i)
        best = np.maximum(best, np.logaddexp.reduce(of_edge, axis=0) - math.log(len(tests)))
    return best


class _Accounts:
    """The bets on one pair of datasets, against several claims at once."""

    def __init__(self, test: PairTest, j: int, claims: list[Pair]) -> None:
        self.log_share = test.log_share
        self.moves: dict[int, list[tuple[slice, slice]]] = {}
        self.balance = np.zeros((len(claims), 1))
        self.weights = np.zeros(1)
        steps = [(i, s) for i, (_, group) in enumerate(test.history) for s in group]
        if not steps:
            return
        flat = [[a[..., j].ravel() for a in (*s.past, *s.inside)] for _, s in steps]
        sizes = np.array([len(f[0]) for f in flat])
        past_x, past_y, x, y = (np.concatenate([f[k] for f in flat]) for k in range(4))
        before = np.repeat([s.past_samples for _, s in steps], sizes)
        samples = np.repeat([s.samples for _, s in steps], sizes)
        p, q = estimates(past_x, past_y, before)
        gained = []
        for claim in claims:
            gained.append(log_factors(*best_bet(p, q, claim), claim, (x, y), samples))
        self.gained = np.stack(gained)
        ends = np.cumsum(sizes)
        # Each wager has its own row of accounts.
        width = {s.wager: int(size) for (_, s), size in zip(steps, sizes, strict=True)}
        first, total = {}, 0
        for wager, size in width.items():
            first[wager], total = total, total + size
        self.balance = np.zeros((len(claims), total))
        self.weights = np.zeros(total)
        pairs = len(test.claim.pairs)
        for _, s in steps:
            # A bet's weight was shared by all pairs of the claim; here one pair has all of it.
            where = slice(first[s.wager], first[s.wager] + width[s.wager])
            self.weights[where] = s.log_weight + math.log(pairs)
        for (i, s), end, size in zip(steps, ends.tolist(), sizes.tolist(), strict=True):
            to = slice(first[s.wager], first[s.wager] + size)
            self.moves.setdefault(i, []).append((to, slice(end - size, end)))

    def after(self, i: int) -> Floats:
        """Book the i-th batch, and return the log wealth against each claim."""
        for to, taken in self.moves.get(i, []):
            self.balance[:, to] += self.gained[:, taken]
        return np.asarray(self.log_share + np.logaddexp.reduce(self.balance + self.weights, axis=1))


def half_line_excess(tests: Sequence[PairTest], confidence: float) -> float:
    """Bound the largest P(A) - e^epsilon Q(A) - delta over half-lines A of all numbers in the outputs.

    By the Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant, on the first 2^(k/4) draws of each
    pair after those that settled a column's number, with an error probability for each k and number, so that
    it holds whenever the audit stopped; and for both samples that a vectorised mechanism may give, by large
    calls and, if one raised, by single draws. What is not a number counts as the largest. It is a bound over
    the pairs that were drawn from; the others have their share of the error probability all the same.

    Args:
        tests: all pairs of datasets of the audit, those without a draw too.
        confidence: in (0, 1).
    Returns:
        The bound, with probability at least `confidence`; infinity where there are no numbers.
    """
    worst = -math.inf
    for test in tests:
        if not test.samples:
            continue
        x, y = test.past
        for column, start in enumerate(test.known):
            if not (np.isfinite(x.numbers[:, column]).any() or np.isfinite(y.numbers[:, column]).any()):
                continue
            if len(x) <= start:
                return math.inf
            k = int(_GRID * math.log2(len(x) - start))
            n = int(2 ** (k / _GRID))
            samples = 2 if test.mechanism.vectorised else 1
            shares = len(tests) * samples * (column + 1) * (column + 2) * (k + 1) * (k + 2)
            level = (1 - confidence) / (2 * shares)
            error = math.sqrt(math.log(2 / level) / (2 * n))
            drawn = slice(start, start + n)
            below_x, below_y = _cdfs(x.numbers[drawn, column], y.numbers[drawn, column])
            for pair in test.claim.pairs:
                for p, q in ((below_x, below_y), (below_y, below_x)):
                    seen = max((p - pair.factor * q).max(), ((1 - p) - pair.factor * (1 - q)).max())
                    worst = max(worst, seen - pair.delta + (1 + pair.factor) * error)
    return float(worst) if worst > -math.inf else math.inf


def _cdfs(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return both empirical distribution functions at all points where one jumps, and just before."""
    points = np.unique(np.concatenate([x[~np.isnan(x)], y[~np.isnan(y)]]))
    found = []
    for values in (np.sort(x), np.sort(y)):
        upto = np.searchsorted(values[: len(values) - int(np.isnan(values).sum())], points, side="right")
        found.append(np.concatenate([[0.0], upto / len(values), [1.0]]))
    return found[0], found[1]


def visible_epsilon(claim: Pair, samples: int, needed: float) -> float:
    """Return the least epsilon whose best possible event would, on average, make the wealth that is needed.

    Args:
        claim: what is bet against.
        samples: draws a side on one pair of datasets.
        needed: natural logarithm of the wealth, the share of one bet included.
    Returns:
        An epsilon above the claimed one; infinity if none would do.

    >>> round(visible_epsilon(Pair(1.0), 20_000, 13.8), 2)
    1.05
    """
    shares = 0.5 ** np.linspace(0.1, 20, 200)

    def best(epsilon: float) -> float:
        p = shares * (1 - 1e-9)
        q = (p - claim.delta) * math.exp(-epsilon)
        usable = q > 1e-300
        return float(growth(p[usable], q[usable], claim).max(initial=0.0)) * samples

    low, high = claim.epsilon, claim.epsilon + 50
    if not math.isfinite(low) or best(high) < needed:
        return math.inf
    return float(halve(lambda epsilon: best(epsilon) >= needed, low, high, 40)[1])
