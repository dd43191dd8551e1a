"""The auditor: bets against a claim until their wealth rejects it or the samples are spent."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.audit.audit_task import Progress, Task
from sfumato.audit.bets import best_bet, estimate_probabilities, growth, log_factors
from sfumato.audit.claims import Claim, Pair, make_claim
from sfumato.audit.datasets import edges, numbers, parse_edges
from sfumato.audit.histogram_method import HistogramMethod
from sfumato.audit.mechanisms import Mechanism
from sfumato.audit.output_columns import Floats
from sfumato.audit.pair_audit import MIN_BATCH, PairTest, witness
from sfumato.audit.report import Excluded, Point, Report
from sfumato.display.progress import notebook_bar
from sfumato.errors import ParameterError
from sfumato.exact.root_finding import halve

_CHUNK = 8
# Numbers of draws that a band is made for: so many from one power of two to the next.
_GRID = 4


def list_epsilons(epsilon: float) -> list[float]:
    """Return the epsilons that the auditor tries in turn for its lower bound, fixed before any draw.

    >>> list_epsilons(1.0)[:3], list_epsilons(1.0)[-1]
    ([0.025, 0.05, 0.075], 20.0)
    """
    unit = epsilon if 0 < epsilon < math.inf else 1.0
    fine = [k / 40 for k in range(1, 81)]
    steps = fine + [2 + k / 10 for k in range(1, 31)] + [5.5 + k / 2 for k in range(30)]
    return [unit * step for step in steps]


def epsilon_lower(tests: Sequence[PairTest], confidence: float) -> tuple[Pair, float]:
    """Return the auditor's lower bound on the true epsilon, from the bets of an audit.

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
    found = [(pair, _find_largest_rejected(tests, j, needed)) for j, pair in enumerate(pairs)]
    return max(found, key=lambda item: item[1] - item[0].epsilon)


def _find_largest_rejected(tests: Sequence[PairTest], j: int, needed: float) -> float:
    """Return the largest epsilon of the auditor's ladder up to which all are rejected; 0 for none."""
    claim = tests[0].claim.pairs[j]
    steps = list_epsilons(claim.epsilon)
    reached = 0.0
    for start in range(0, len(steps), _CHUNK):
        chunk = steps[start : start + _CHUNK]
        wealth = _replay_wealth(tests, j, [Pair(e, claim.delta) for e in chunk])
        for epsilon, log_wealth in zip(chunk, wealth, strict=True):
            if log_wealth < needed:
                return reached
            reached = epsilon
    return reached


def _replay_wealth(tests: Sequence[PairTest], j: int, claims: list[Pair]) -> Floats:
    """Replay all bets of an audit against other claims, and return the highest log wealth of each."""
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
    """The replayed bets of an audit on one pair of datasets, against several claims at once."""

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
        p, q = estimate_probabilities(past_x, past_y, before)
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
        """Replay the i-th batch of an audit, and return the log wealth against each claim."""
        for to, taken in self.moves.get(i, []):
            self.balance[:, to] += self.gained[:, taken]
        return np.asarray(self.log_share + np.logaddexp.reduce(self.balance + self.weights, axis=1))


def half_line_excess(tests: Sequence[PairTest], confidence: float) -> float:
    """Bound how much any half-line of an audit's outputs may break the claim where nothing was found.

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
    """Return the empirical distribution functions of both sides of an audited pair, at all their jumps."""
    points = np.unique(np.concatenate([x[~np.isnan(x)], y[~np.isnan(y)]]))
    found = []
    for values in (np.sort(x), np.sort(y)):
        upto = np.searchsorted(values[: len(values) - int(np.isnan(values).sum())], points, side="right")
        found.append(np.concatenate([[0.0], upto / len(values), [1.0]]))
    return found[0], found[1]


def visible_epsilon(claim: Pair, samples: int, needed: float) -> float:
    """Return the smallest true epsilon that an audit with so many draws can be expected to find.

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


_LN10 = math.log(10)
# A batch should not take longer than this share of the time that is left.
_SHARE_OF_TIME = 0.25
# The first batch of all tells how long a draw takes.
_FIRST_BATCH = 12
# A mechanism that did nothing but raise up to here is not audited further.
_CHECKED_AT = 1000


def audit(
    mechanism: Callable[..., Any] | Mechanism,
    *,
    epsilon: Any = None,
    delta: Any = 0.0,
    claim: Claim | None = None,
    neighbors: str = "add-remove",
    data: Iterable[Any] | None = None,
    pairs: Iterable[Any] | None = None,
    alpha: float = 1e-6,
    confidence: float = 0.95,
    max_samples: int = 1_000_000,
    seconds: float = 60.0,
    method: Any = "betting",
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Audit a mechanism: search for neighbours and an event that violate its privacy claim.

    Args:
        mechanism: `(dataset, size) -> outputs`, or `(dataset) -> output`; see `Mechanism`.
        epsilon: the claimed epsilon, at least 0; or give `claim`.
        delta: the claimed delta, from 0 to less than 1.
        claim: a claim in place of epsilon and delta: `zcdp(rho)`, `gaussian(mu)` or `curve(pairs)`.
        neighbors: "add-remove" or "change-one".
        data: the datasets from which to make pairs of neighbours; None for `numbers()`.
        pairs: pairs (dataset, neighbour) in place of data, or `Edge`s such as those from `units(...)`. A note
            lists pairs that differ in more than one record, because a claim may be about one.
        alpha: a bound on the probability of calling a correct mechanism violated, over the whole audit.
        confidence: the confidence of `epsilon_lower` and of what a pass excludes.
        max_samples: the most draws per side, over all pairs of datasets.
        seconds: the time limit, in seconds; the audit ends after the batch that exceeds it.
        method: "betting", "histogram" (a `HistogramMethod` with defaults), or another object with `run(task:
            Task) -> Report`. Its `data()`, if it has one, supplies datasets when data and pairs are None.
        progress: a function called with a `Progress` after each batch.
    Returns:
        A Report.
    Raises:
        ParameterError: a parameter is not valid.
        MechanismError: the mechanism cannot be judged.

    >>> from sfumato.noise import Laplace, SeededWords
    >>> words = SeededWords(1)
    >>> def count(dataset, size):
    ...     return len(dataset) + Laplace(scale="1/2").rounded(size, words)
    >>> report = audit(count, epsilon=1)
    >>> report.violated, report.epsilon_lower > 1
    (True, True)

    Source:
        docs/proofs/audit.md; the specification's stochastic tester, for the search over datasets.
    """
    chosen = _method(method)
    if data is None and pairs is None and hasattr(chosen, "data"):
        data = chosen.data()
    if data is not None and pairs is not None:
        raise ParameterError("pairs", "given", "left out where data is given")
    roots = [] if pairs is not None else numbers() if data is None else list(data)
    task = Task(
        mechanism=mechanism if isinstance(mechanism, Mechanism) else Mechanism(mechanism),
        claim=make_claim(epsilon, delta, claim),
        datasets=tuple(roots),
        neighbors=neighbors,
        pairs=tuple(edges(roots, neighbors) if pairs is None else parse_edges(pairs)),
        alpha=alpha,
        confidence=confidence,
        max_samples=max_samples,
        seconds=seconds,
        progress=progress,
    )
    followed = _ProgressFollower(task.progress)
    with notebook_bar(f"Auditing {task.mechanism.name}", followed.share):
        report: Report = chosen.run(replace(task, progress=followed))
    return replace(report, notes=(*task.notes, *report.notes)) if task.notes else report


class _ProgressFollower:
    """Follows the progress of an audit, and passes it on to the caller's function."""

    def __init__(self, told: Callable[[Progress], None] | None) -> None:
        self._told, self._share = told, 0.0

    def __call__(self, so_far: Progress) -> None:
        self._share = max(so_far.samples / so_far.max_samples, so_far.seconds / so_far.max_seconds)
        if self._told is not None:
            self._told(so_far)

    def share(self) -> float:
        return self._share


def _method(method: Any) -> Any:
    if isinstance(method, str) and method in ("betting", "histogram"):
        return Betting() if method == "betting" else HistogramMethod()
    if not hasattr(method, "run"):
        raise ParameterError("method", method, "'betting', 'histogram', or an object with run(task)")
    return method


class Betting:
    """The default method of the auditor: bet on each pair of datasets, and average their wealth.

    Every second batch goes to the pair that was drawn from least, the others to the most promising one.

    Source:
        Shafer and Vovk 2019 (testing by betting); Ville 1939; docs/proofs/audit.md.
    """

    @np.errstate(all="ignore")
    def run(self, task: Task) -> Report:
        """Audit by betting, and return the report."""
        started = time.monotonic()
        tests = [PairTest(edge, task.mechanism, task.claim) for edge in task.pairs]
        needed = task.log_needed
        trace: list[Point] = []
        log_wealth = 0.0
        spent, unchecked = 0, True
        for batch in range(task.max_samples):
            elapsed = time.monotonic() - started
            if unchecked and spent >= _CHECKED_AT:
                unchecked = False
                _check_outputs(tests, task.mechanism)
            if spent >= task.max_samples or (elapsed >= task.seconds and spent):
                break
            edge = batch if batch < len(tests) else _choose_pair(tests, batch)
            test = tests[edge]
            chased = len(tests) == 1 or batch % 2 == 1
            affordable = _SHARE_OF_TIME * (task.seconds - elapsed) * spent / max(elapsed, 1e-9)
            size = min(_size(test, chased), max(int(affordable), _FIRST_BATCH), task.max_samples - spent)
            test.advance(size, batch)
            spent += size
            log_wealth = float(np.logaddexp.reduce([t.log_wealth for t in tests])) - math.log(len(tests))
            trace.append(Point(spent, log_wealth / _LN10, edge))
            task._show_progress(spent, time.monotonic() - started, test.edge.name, log_wealth / _LN10)
            if log_wealth >= needed:
                break
        violated = log_wealth >= needed
        if not violated:
            _check_outputs(tests, task.mechanism)
        pair, lower = epsilon_lower(tests, task.confidence)
        told = [t for t in tests if t.wagered]
        most = max(told, key=lambda t: t.log_wealth if violated else t.samples, default=None)
        found = None if most is None else witness(most)
        excluded = None if violated else _exclude_epsilons(tests, task, lower, needed)
        return Report(
            mechanism=task.mechanism.name,
            claim=task.claim.text,
            violated=violated,
            epsilon_lower=lower,
            delta=pair.delta,
            confidence=task.confidence,
            alpha=task.alpha,
            witness=found if violated else None,
            samples=spent,
            seconds=time.monotonic() - started,
            edges=tuple((t.edge.name, t.samples) for t in tests),
            excluded=excluded,
            trace=tuple(trace),
            notes=_notes(tests),
            closest=None if violated else found,
            settings=task.settings,
        )


def _choose_pair(tests: list[PairTest], batch: int) -> int:
    """Choose the pair of datasets that the auditor draws from next, by past draws alone."""
    if batch % 2:
        return max(range(len(tests)), key=lambda e: tests[e].promise)
    # A pair whose two sides always gave one and the same output is looked at less.
    return min(range(len(tests)), key=lambda e: tests[e].samples * (16 if tests[e].silent else 1))


def _size(test: PairTest, chased: bool) -> int:
    """Choose the batch size of the auditor's next draws, which grows with the draws so far."""
    return max(MIN_BATCH, test.samples // (4 if chased else 2))


def _check_outputs(tests: list[PairTest], mechanism: Mechanism) -> None:
    raising = [t.only_raised for t in tests if t.samples]
    if raising and None not in raising:
        kinds = ", ".join(sorted({str(r) for r in raising}))
        raise mechanism._raises_always(kinds, f"{len(raising)} pairs of datasets")


def _notes(tests: list[PairTest]) -> tuple[str, ...]:
    found = [note for t in tests for note in t.notes]
    # Pairs of one mechanism have the same parts, most often: each note once.
    found += dict.fromkeys(note for t in tests for note in t.reader.notes)
    raising = [t for t in tests if t.samples and t.only_raised is not None]
    if raising:
        found.append(
            f"{len(raising)} of {len(tests)} pairs: both sides always raise ({raising[0].only_raised})"
        )
    unseen = sum(1 for t in tests if not t.samples)
    if unseen:
        found.append(f"{unseen} of {len(tests)} pairs were not tested: the samples or the time ran out")
    return tuple(found)


def _exclude_epsilons(tests: list[PairTest], task: Task, lower: float, needed: float) -> Excluded:
    excess = half_line_excess(tests, task.confidence)
    most = max(tests, key=lambda t: t.samples)
    # What one bet must make: the others on its pair and the other pairs hold the rest of the capital.
    share = math.log(len(tests)) - min((w.log_weight - math.log(w.bets) for w in most.wagers), default=0.0)
    visible = visible_epsilon(task.claim.pairs[0], most.samples, needed + share)
    return Excluded(excess=excess, visible_epsilon=visible, epsilon_lower=lower)


def assert_private(mechanism: Callable[..., Any] | Mechanism, **options: Any) -> Report:
    """Audit a mechanism, and fail if its claim is violated.

    Args:
        mechanism: as for `audit`.
        options: as for `audit`, including `epsilon` or `claim`.
    Returns:
        The report, if no violation was found.
    Raises:
        AssertionError: the claim is violated; the text is the report. For a correct mechanism the probability
            is at most `alpha`.
        ParameterError: an option is not valid.

    >>> assert_private(lambda dataset: 0.0, epsilon=0.1, max_samples=1000).violated
    False
    """
    report = audit(mechanism, **options)
    if report.violated:
        raise AssertionError(str(report))
    return report
