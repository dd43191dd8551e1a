"""Released diagnostics: how much limits and bounds cut, with suggestions; drawn once, on first access."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Rows, Sentences
from sfumato.display.formatting import visible
from sfumato.display.result_table import ResultTable
from sfumato.guidance.contribution_distribution import Distribution, distributions
from sfumato.guidance.shifts import NoisyValues, Shift
from sfumato.noise import Words
from sfumato.noise.laws import Law
from sfumato.ownership import Owned, Turn
from sfumato.query.aggregates.vector_aggregates import VectorEstimate
from sfumato.release.payment import journaled
from sfumato.release.release import Release, check_error_columns

if TYPE_CHECKING:
    from sfumato.guidance.diagnosis_plan import Diagnosis
    from sfumato.release.payment import Charge

# A share that is less than this is no reason for another limit.
SMALL = 0.05
_MAX = 0.9  # nearly all
_WAITING = (
    "Their noise is not drawn yet, and this display does not draw it: sentences(), findings() or "
    "to_pandas() reads the rows and draws it, once."
)


@dataclass(frozen=True)
class Item:
    """A share that diagnostics measure: of rows or units beyond a limit or bound.

    Args:
        limit: as it was given, such as "groups=1".
        of: what it is a share of.
        of_rows: whether units count with their rows; else each counts once.
        name, most: the limit's name and number; none of bounds.
        distribution: what a limit that is enough follows from; none of bounds.
        output: the name of the released number.
    """

    limit: str
    of: str
    of_rows: bool
    name: str = ""
    most: int = 0
    distribution: str = ""
    output: str = ""

    def with_name(self, output: str) -> Item:
        """Return the share with the name of its released output."""
        return replace(self, output=output)


@dataclass(frozen=True)
class Finding:
    """How much one limit or bound changes.

    Args:
        limit: the limit as you wrote it, such as "groups=1".
        of: the quantity that `share` is a share of: "rows", "units", "values of x", "public keys".
        share: the noisy share over the limit, from 0 to 1.
        half_width: the half-width of its error bar.
        suggestion: what to write in place of the limit; None if it is fine.
    """

    limit: str
    of: str
    share: float
    half_width: float
    suggestion: str | None


class Diagnostics(ResultTable, Owned):
    """What limits and bounds change, with error bars: noisy numbers that are safe to publish.

    They are drawn once, on first access. `Question.diagnose` returns them, and so does a release with
    `diagnostics=`, whose `spent` includes their cost.
    """

    _elsewhere = (
        "drawn in two places, their noise would be two releases for one charge. Draw them first, and "
        "send the result of to_arrow()"
    )

    def __init__(self, diagnosis: Diagnosis, words: Words | None = None) -> None:
        self._diagnosis, self._words = diagnosis, words
        self.paid: tuple[Charge, ...] = ()  # what a ledger entered for them alone
        self._turn = Turn()
        people = diagnosis.people._engine
        self._contributions = Release(diagnosis.contributions, people, unsafe_words=words)
        self._matched: Release | None = None
        if diagnosis.matched is not None:
            table, plan = diagnosis.matched
            self._matched = Release(plan, table._engine, unsafe_words=words)
        self._parts: tuple[Release, ...] | None = None
        self._done = False

    @property
    def spent(self) -> tuple[float, float]:
        """The budget (epsilon, delta) that bounds the privacy loss of the diagnostics."""
        return float(self._diagnosis.epsilon), 0.0

    @property
    def drawn(self) -> bool:
        """Whether the noise of the diagnostics has been drawn."""
        return self._done

    def findings(self, confidence: float = 0.95) -> tuple[Finding, ...]:
        """Return what each limit and bound changes.

        Args:
            confidence: in (0, 1), the confidence of each error bar.
        Returns:
            The findings.
        Raises:
            ParameterError: confidence is not in (0, 1).
            EngineError: rows cannot be read.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2]}), privacy_unit="id").bound(rows=1).agg(n=sf.count())
        >>> diagnostics = visits.diagnose(epsilon=1)
        >>> [(one.limit, one.of) for one in diagnostics.findings()]
        [('rows=1', 'rows'), ('rows=1', 'units')]
        """
        row, bars = self._shares(confidence)
        distributions = self._distributions
        found = []
        for item in self._diagnosis.items:
            share, bar = row[item.output], min(bars[item.output], 1.0)
            suggestion = (
                _describe_limit(item, distributions) if item.name else _describe_bound(item, share, bar)
            )
            found.append(Finding(item.limit, item.of, share, bar, suggestion))
        if self._matched is not None:
            found.append(self._unmatched(self._matched, confidence))
        return tuple(found)

    def shifts(self, confidence: float = 0.95) -> tuple[Shift, ...]:
        """Return how far limits and bounds shift each output, over all groups together.

        For a sum or mean of vectors it is the shift of their lengths. A value beyond a bound by more than the
        distance between the bounds counts as if it were beyond it by that distance. `sentences` names the
        outputs without an estimate.

        Args:
            confidence: in (0, 1), the confidence of each error bar.
        Returns:
            The shifts.
        Raises:
            ParameterError: confidence is not in (0, 1).
            EngineError: rows cannot be read.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2]}), privacy_unit="id").bound(rows=1).agg(n=sf.count())
        >>> [(one.output, one.relative) for one in visits.diagnose(epsilon=1).shifts()]
        [('n', True)]
        """
        noisy = _noisy(self._draw_parts(confidence))
        return tuple(one.shift(noisy, confidence) for one in self._diagnosis.request.questions)

    @property
    def most_rows(self) -> int:
        """The largest number of rows with which a unit counts in the shares of rows."""
        self._draw_parts(0.95)
        return self._distributions["rows"].enough

    def to_arrow(self, confidence: float = 0.95) -> pa.Table:
        """Return the findings as a table: `limit`, `of`, `share`, `half_width`, `confidence`, `suggestion`.

        Args:
            confidence: in (0, 1), the confidence of each error bar.
        Returns:
            An Arrow table.
        Raises:
            ParameterError: confidence is not in (0, 1).
            EngineError: rows cannot be read.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2]}), privacy_unit="id").bound(rows=1).agg(n=sf.count())
        >>> diagnostics = visits.diagnose(epsilon=1)
        >>> diagnostics.to_arrow().column_names
        ['limit', 'of', 'share', 'half_width', 'confidence', 'suggestion']
        """
        found = self.findings(confidence)
        return pa.table(
            {
                "limit": pa.array([one.limit for one in found], pa.string()),
                "of": pa.array([one.of for one in found], pa.string()),
                "share": pa.array([one.share for one in found], pa.float64()),
                "half_width": pa.array([one.half_width for one in found], pa.float64()),
                "confidence": pa.array([float(confidence)] * len(found), pa.float64()),
                "suggestion": pa.array([one.suggestion for one in found], pa.string()),
            }
        )

    def sentences(self, confidence: float = 0.95) -> tuple[str, ...]:
        """Return a sentence for each limit, bound and shift of the diagnostics.

        Args:
            confidence: in (0, 1), the confidence of each error bar.
        Returns:
            The sentences.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2]}), privacy_unit="id").bound(rows=1).agg(n=sf.count())
        >>> diagnostics = visits.diagnose(epsilon=1)
        >>> print(diagnostics.sentences()[0])
        about ...% of rows and ...% of units were beyond rows=1...
        """
        found, lines = self.findings(confidence), []
        by_limit: dict[tuple[str, str], list[Finding]] = {}
        for one in found:
            whole = "" if one.of in ("rows", "units") else one.of
            by_limit.setdefault((one.limit, whole), []).append(one)
        for (limit, _), several in by_limit.items():
            shares = " and ".join(f"{_percent(one)} of {one.of}" for one in several)
            suggestion = several[0].suggestion
            lines.append(f"about {shares} {_where(limit)}{f': {suggestion}' if suggestion else ''}")
        lines += [*map(str, self.shifts(confidence)), *self._unestimated]
        unit, most = self._diagnosis.people.unit, self.most_rows
        lines.append(f"In these shares, each {unit} counts with at most {most:,} rows.")
        return tuple(lines)

    @property
    def _unestimated(self) -> list[str]:
        left = self._diagnosis.request.left
        return [f"The shift of {', '.join(left)} is not estimated."] if left else []

    @property
    def _distributions(self) -> dict[str, Distribution]:
        (row,) = self._contributions.to_arrow().to_pylist()
        return distributions(self._diagnosis.contributions, row)

    def _draw_parts(self, confidence: float) -> tuple[Release, ...]:
        """Return the released parts of the diagnostics, drawing each at most once, in one process."""
        if not self._done:
            self._check_home()
            check_error_columns(self._diagnosis.contributions, confidence)
            with self._turn(), journaled(self.paid):
                self._contributions.to_arrow()
                if self._matched is not None:
                    self._matched.to_arrow()
                if self._parts is None:
                    self._parts = self._rest()
                for part in self._parts:
                    part.to_arrow()
                self._check_home()
                self._done = True
        assert self._parts is not None
        return self._parts

    def _rest(self) -> tuple[Release, ...]:
        """Return the releases of the diagnostics whose limits follow from the noisy distributions."""
        made, known = self._diagnosis, self._distributions
        most = known["rows"].enough
        larger = {name: known[name].enough for name in made.request.distinct}
        plans = [
            (made.shares(most), made.people),
            *zip(made.numbers(most), (table for table, _ in made.tables), strict=True),
            (made.distinct(larger), made.pairs()),
        ]
        words = self._words
        return tuple(Release(plan, at._engine, unsafe_words=words) for plan, at in plans if plan is not None)

    def _shares(self, confidence: float) -> tuple[dict[str, float], dict[str, float]]:
        """Return the noisy shares beyond limits and bounds, and their error bars."""
        parts = self._draw_parts(confidence)
        if not self._diagnosis.items:
            return {}, {}
        (row,), (bars,) = (table.to_pylist() for table in (parts[0].to_arrow(), parts[0].errors(confidence)))
        return row, bars

    def _unmatched(self, matched: Release, confidence: float) -> Finding:
        """Return the finding about public keys that match no row."""
        (row,), (bars,) = matched.to_arrow().to_pylist(), matched.errors(confidence).to_pylist()
        (name,) = matched.plan.query.output_names
        keys = self._diagnosis.keys
        share, bar = min(max(1 - row[name] / keys, 0.0), 1.0), min(bars[name] / keys, 1.0)
        look = "check their spelling, type and time zone" if share - bar > SMALL else None
        return Finding("keys", "public keys", share, bar, look)

    def _card(self) -> Card:
        title = f"Diagnostics of {', '.join(self._diagnosis.content()['of'])}, for epsilon {self.spent[0]:g}"
        if not self.drawn:
            return Card(title, [Sentences([_WAITING])])
        rows = [[one.limit, one.of, _percent(one), one.suggestion or ""] for one in self.findings()]
        names = ["limit", "share of", "beyond it", "suggestion"]
        unit, most = self._diagnosis.people.unit, self.most_rows
        of_rows = f"In these shares, each {unit} counts with at most {most:,} rows."
        said = [*map(str, self.shifts()), *self._unestimated, f"Error bars of 95%. {of_rows}"]
        return Card(title, [Rows(names, rows, left=4), Sentences(said)])

    def __repr__(self) -> str:
        return visible(
            f"<Diagnostics of {', '.join(self._diagnosis.content()['of'])}; epsilon={self.spent[0]:g}>"
        )


def _describe_limit(item: Item, distributions: dict[str, Distribution]) -> str | None:
    found = distributions[item.distribution]
    if found.enough > item.most:
        return f"ask with {item.name}={found.enough}"
    # A smaller limit may cut, which no error bar tells: it is advised where noise is no reason for it.
    if 2 * found.surely_enough <= item.most:
        return f"{item.name}={found.surely_enough} would be enough, with less noise"
    return None


def _describe_bound(item: Item, share: float, bar: float) -> str | None:
    if share - bar <= SMALL:
        return None
    wider = "ask with a smaller lower" if item.limit.startswith("lower") else "pass a larger upper"
    return f"nearly all of them are clamped to it; {wider}" if share + bar >= _MAX else wider


def _where(limit: str) -> str:
    if limit == "keys":
        return "match no row"
    bound = {"lower": "were below", "upper": "were above"}.get(limit.partition("=")[0], "were beyond")
    return f"{bound} {limit}"


def _percent(one: Finding) -> str:
    digits = 0 if one.half_width >= 0.01 else 1
    return f"{one.share:.{digits}%} ± {one.half_width:.{digits}%}"


def _noisy(parts: Sequence[Release]) -> NoisyValues:
    """Return the noisy values of the diagnostics' releases, and the laws of their noise, for shifts."""
    values, laws, steps = dict[str, float](), dict[str, Law](), dict[str, float]()
    for part in parts:
        (row,) = part.to_arrow().to_pylist()
        for estimate in part.plan.requirements.estimates:
            linear = {estimate.total: 1.0} if isinstance(estimate, VectorEstimate) else estimate.linear
            for coordinate, weight in (linear or {}).items():
                value, law = row[estimate.name], part.plan.laws[coordinate or ""]
                entries = enumerate(value) if isinstance(value, list) else ()
                found = {f"{estimate.name}[{i}]": one for i, one in entries} or {estimate.name: value}
                values |= found
                laws |= dict.fromkeys(found, law)
                steps |= dict.fromkeys(found, weight * float(part.plan.steps[coordinate or ""]))
    return NoisyValues(values, laws, steps)
