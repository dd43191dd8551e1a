"""From a table of answers to a private proportion with a confidence interval, in one call."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import field
from fractions import Fraction
from functools import cached_property
from typing import Any

from sfumato.budget import gaussian_mu
from sfumato.budget.calibration import ROOM
from sfumato.budget.certified import proved
from sfumato.budget.parameters import admissible_delta, admissible_epsilon
from sfumato.dataclass import dataclass
from sfumato.display.card import Card, Facts, Rows
from sfumato.display.displayed import Displayed
from sfumato.errors import ParameterError, QueryError
from sfumato.exact import Number, one_of, written_up
from sfumato.exact.isolation import Isolated
from sfumato.measurements.noise import NOISES, Law
from sfumato.measurements.stratified.answers import read_answers
from sfumato.measurements.stratified.estimate import noisy_stratum_sums, stratified_estimate
from sfumato.measurements.stratified.interval import ProportionLimits
from sfumato.names import helpful
from sfumato.noise.rounded import RoundedNoise
from sfumato.transformations.stratified import StratifiedDesign

WHERE = "stratified_proportion"
_MOST = 20  # strata that are shown


@dataclass(frozen=True, repr=False)
class StratifiedProportion(Isolated, Displayed):
    """A private proportion of a stratified population; everything here is safe to publish.

    Made by `stratified_proportion`.

    Args:
        strata: what the strata are called.
        design: how many were asked in each, and how many there are.
        counts: the noisy number of yes-answers in each.
        law: the noise on each count, before it was rounded to a whole number.
        spent: (epsilon, delta).
        description: what was drawn, as the certificate reads it (docs/certificate.md).

    >>> import sfumato as sf
    >>> people = {"town": ["Bonn"] * 1200 + ["Ulm"] * 600, "bike": [True, True, True, False] * 450}
    >>> population = {"Bonn": 330_000, "Ulm": 128_000}
    >>> share = sf.stratified_proportion(
    ...     people, stratum="town", answer="bike", yes=True, population=population, epsilon=2
    ... )
    >>> low, high = share.interval(confidence=0.95)
    >>> round(low, 1), round(high, 1)
    (0.7, 0.8)
    >>> share.to_arrow().column_names
    ['stratum', 'population', 'asked', 'yes', 'proportion', 'low', 'high']
    >>> share.to_pandas()[["stratum", "population", "asked"]]
      stratum  population  asked
    0    Bonn      330000   1200
    1     Ulm      128000    600
    >>> print(share.explain())
    Budget: epsilon 2, for the answer of each respondent (one row).
    ...
    """

    strata: tuple[Hashable, ...]
    design: StratifiedDesign
    counts: tuple[int, ...]
    law: Law
    spent: tuple[float, float]
    description: Mapping[str, Any] = field(hash=False)

    @property
    def proportion(self) -> float:
        """The estimated share of yes in the population, in [0, 1]."""
        return float(min(1.0, max(0.0, self._mean)))

    @property
    def standard_error(self) -> float:
        """The root of the estimated variance: of the sample and of the noise."""
        return math.sqrt(self._estimate[1])

    def interval(self, confidence: Number = 0.95) -> tuple[float, float]:
        """Return an interval that holds the population's share of yes with this confidence.

        Args:
            confidence: between 0 and 1.
        Returns:
            (low, high) in [0, 1].
        Raises:
            ParameterError: confidence is not between 0 and 1.
        """
        low, high = ProportionLimits(self.design, self._noise).limits(self._mean, confidence)
        return float(low), float(high)

    def to_arrow(self, confidence: Number = 0.95) -> Any:
        """Return an Arrow table with a row for each stratum.

        Its columns: stratum, population, asked, yes (noisy), proportion, low, high. Each stratum's
        interval has the confidence on its own, not together with the others.

        Args:
            confidence: of the intervals, in (0, 1).
        Raises:
            ParameterError: confidence is not in (0, 1).
        """
        import pyarrow as pa

        rows = []
        sizes = zip(self.design.sample_sizes, self.design.strat_sizes, self.counts, strict=True)
        for name, (asked, size, yes) in zip(self.strata, sizes, strict=True):
            limits = ProportionLimits(StratifiedDesign([asked], [size]), self._noise)
            low, high = limits.limits(yes / asked, confidence)
            share = min(1.0, max(0.0, yes / asked))
            rows.append(
                {
                    "stratum": name, "population": size, "asked": asked, "yes": yes,
                    "proportion": share, "low": float(low), "high": float(high),
                }
            )  # fmt: skip
        return pa.Table.from_pylist(rows)

    def to_pandas(self, confidence: Number = 0.95) -> Any:
        """Return `to_arrow` as a pandas data frame.

        Args:
            confidence: of the intervals, in (0, 1).
        """
        return self.to_arrow(confidence).to_pandas()

    def explain(self) -> str:
        """Say what was done, what is protected and what is taken as public.

        Returns:
            Text of several lines.
        """
        epsilon, delta = self.spent
        budget = f"epsilon {epsilon:g}" + (f", delta {delta:g}" if delta else "")
        asked, population = sum(self.design.sample_sizes), sum(self.design.strat_sizes)
        return "\n".join(
            [
                f"Budget: {budget}, for the answer of each respondent (one row).",
                f"Public: who was asked ({asked:,} respondents), their strata ({len(self.strata)}) and the "
                f"strata's populations ({population:,} in all).",
                "1. Count the yes-answers in each stratum; a missing answer counts as no.",
                f"2. Add exactly rounded {type(self.law).__name__} noise of standard deviation "
                f"{self.law.standard_deviation:.4g} to each count.",
                "3. Weigh each stratum's noisy share of yes by its population.",
                "4. Interval: leave out proportions under which a result this far off would be too "
                "improbable, whatever the strata's own proportions are; the noise's law is part of it.",
            ]
        )

    def _card(self) -> Card:
        (low, high), (epsilon, delta) = self.interval(), self.spent
        facts = [
            ("95% interval", f"{low:.4f} to {high:.4f}, of the sample and of the noise"),
            ("standard error", f"{self.standard_error:.4f}"),
            ("spent", f"epsilon {epsilon:g}, delta {delta:g}, for the answer of each respondent"),
            ("noise", f"{type(self.law).__name__}, exactly rounded, on the yes-answers of each stratum"),
        ]
        sizes = zip(self.design.sample_sizes, self.design.strat_sizes, self.counts, strict=True)
        rows = [
            [str(name), f"{size:,}", f"{asked:,}", f"{yes:,}"]
            for name, (asked, size, yes) in zip(self.strata, sizes, strict=True)
        ]
        more = f"The first {_MOST} of {len(rows):,} strata; to_pandas() has all." if len(rows) > _MOST else ""
        names = ["stratum", "population", "asked", "yes (noisy)"]
        title = f"Private proportion: {self.proportion:.4f}"
        return Card(title, [Facts(facts), Rows(names, rows[:_MOST], beyond=more)])

    def __repr__(self) -> str:
        low, high = self.interval()
        return (
            f"proportion {self.proportion:.4f}, standard error {self.standard_error:.4f}, "
            f"95% interval {low:.4f} to {high:.4f}"
        )

    @cached_property
    def _noise(self) -> RoundedNoise:
        return RoundedNoise(self.law)

    @cached_property
    def _estimate(self) -> tuple[Fraction, Fraction]:
        sizes = self.design.sample_sizes, self.design.strat_sizes
        return stratified_estimate(self.counts, *sizes, self._noise.variance)

    @property
    def _mean(self) -> float:
        return float(self._estimate[0])


@helpful
def stratified_proportion(
    table: Any,
    *,
    stratum: str,
    answer: str,
    population: Mapping[Any, int],
    epsilon: Number,
    delta: Number | None = None,
    noise: str = "laplace",
    yes: Any = None,
) -> StratifiedProportion:
    """Estimate the share of yes in a population from a stratified sample, privately.

    Protected is each respondent's answer: neighbours are samples of the same respondents in which one
    answer differs. Who was asked, in which stratum, and the populations are taken as public.

    Args:
        table: a row for each respondent: an Arrow table, a pandas or Polars data frame, a mapping of
            columns, or a list of mappings. A respondent with two rows is protected as two.
        stratum: name of the column that says in which stratum a respondent is.
        answer: name of the column with the answer.
        population: how many there are in each stratum that was sampled.
        epsilon: greater than 0: how much an answer may show.
        delta: for Gaussian noise, greater than 0 and less than 1; not for Laplace noise.
        noise: "laplace" or "gaussian".
        yes: the value that counts as yes; not needed where the column is declared boolean. All else, and
            NULL, counts as no.
    Returns:
        A `StratifiedProportion`: proportion, standard_error, interval(confidence), to_arrow(), explain().
    Raises:
        ParameterError, QueryError: an option out of range; a stratum that is missing on one side, has
            fewer than two respondents, or more than its population. Never because of an answer.
        BudgetError: epsilon or delta is out of range.
        EngineError: the table is of an unknown kind, or its columns differ in length.
        RefusalError: the certificate is refused, which is a mistake in sfumato.

    >>> import sfumato as sf
    >>> sample = {"school": ["E"] * 400 + ["H"] * 200, "award": [True, False] * 300}
    >>> share = sf.stratified_proportion(
    ...     sample, stratum="school", answer="award", yes=True, population={"E": 4000, "H": 1000}, epsilon=1
    ... )
    >>> low, high = share.interval(confidence=0.95)
    >>> 0 <= low < share.proportion < high <= 1, share.spent
    (True, (1.0, 0.0))

    Source:
        "Lipschitz sized variance for proportion CI", 2022, and docs/surveys.md.
    """
    one_of(noise, "noise", NOISES)
    kind, budget = NOISES[noise], admissible_epsilon(epsilon)
    if noise == "gaussian":
        share = admissible_delta(delta, zero=False)
        scale = 1 / gaussian_mu(budget, share * (1 - ROOM))
    elif delta is not None:
        raise ParameterError("delta", delta, "left out with Laplace noise, which needs none")
    else:
        share, scale = Fraction(0), 1 / budget
    if not isinstance(population, Mapping) or not population:
        raise ParameterError(
            "population", population, "a mapping of each stratum to how many there are in it"
        )
    strata = tuple(population)
    drawn = _described(len(strata), budget, share, kind.law(scale))
    proved(drawn)
    groups = read_answers(table, stratum, answer, yes)
    _check_strata(strata, groups)
    asked = [len(groups[name]) for name in strata]
    design = StratifiedDesign(asked, list(population.values()), WHERE, names=strata)
    measurement = noisy_stratum_sums(asked, kind, scale)
    counts = tuple(measurement([groups[name] for name in strata]))
    return StratifiedProportion(
        strata, design, counts, kind.law(scale), (written_up(budget), written_up(share)), drawn
    )


def _described(strata: int, epsilon: Fraction, delta: Fraction, law: Law) -> dict[str, Any]:
    """Return what is drawn, as the certificate reads it."""
    claim = {"epsilon": str(epsilon), "delta": str(delta)}
    noise = {"law": type(law).__name__.lower(), "scale": str(law.unit)}
    part = {"kind": "survey", **claim, "one": "1", "strata": strata, **noise}
    return {"version": 1, "unit": "respondent", "neighbours": "one_answer", **claim, "parts": [part]}


def _check_strata(strata: tuple[Hashable, ...], groups: Mapping[Hashable, Any]) -> None:
    # Strata are public; what stands in a column that was taken for theirs may not be.
    if any(name not in strata for name in groups):
        raise QueryError(
            f"{WHERE}: population says nothing of strata that are in the table; it has "
            f"{list(strata)[:10]!r}. Name all that stand in the column, and look whether it is the right one"
        )
    absent = [name for name in strata if name not in groups]
    if absent:
        raise QueryError(
            f"{WHERE}: nobody was asked in the strata {absent[:10]!r}; join them to others, or "
            "leave them out, and the proportion is that of the rest"
        )
