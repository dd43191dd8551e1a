"""What epsilon means: how much an attacker who knows all else learns from a release about one person."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato.budget.epsilon_delta import admissible_delta, admissible_epsilon
from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Sentences, TextCard
from sfumato.display.formatting import exact
from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, round_down, round_up
from sfumato.exact.outward_rounding import exp_bounds
from sfumato.names import suggest_arguments

PRIORS = (Fraction(1, 1000), Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))


@dataclass(frozen=True)
class Belief:
    """An attacker's belief before and after a release: what epsilon means, as probabilities.

    Args:
        before: the probability, before the release, that a statement about a person is true.
        least, most: the smallest and largest probability after it, rounded outward.

    >>> import sfumato as sf
    >>> (belief,) = sf.explain_epsilon(1, priors=["0.5"]).beliefs
    >>> f"{belief.before:.0%} before, {belief.least:.0%} to {belief.most:.0%} after"
    '50% before, 27% to 73% after'
    """

    before: float
    least: float
    most: float


@dataclass(frozen=True, repr=False)
class EpsilonMeaning(TextCard):
    """What epsilon means for one person, as `explain_epsilon` returns it.

    Args:
        epsilon, delta: the budget.
        odds: the largest factor by which the odds of any belief can change.
        guessed: the largest chance that an attacker guesses right who has an even chance without the release.
        beliefs: beliefs before and after the release.

    >>> import sfumato as sf
    >>> meaning = sf.explain_epsilon("0.5")
    >>> round(meaning.odds, 3), round(meaning.guessed, 3)
    (1.649, 0.622)
    """

    epsilon: Fraction
    delta: Fraction
    odds: float
    guessed: float
    beliefs: tuple[Belief, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return what epsilon means as plain data.

        >>> import sfumato as sf
        >>> numbers = sf.explain_epsilon("0.5", priors=["0.1"]).to_dict()
        >>> numbers["epsilon"], [round(belief["most"], 3) for belief in numbers["beliefs"]]
        ('1/2', [0.155])
        """
        return {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "odds": self.odds,
            "guessed": self.guessed,
            "beliefs": [{"before": b.before, "least": b.least, "most": b.most} for b in self.beliefs],
        }

    def plot(self, path: str | Path) -> None:
        """Draw how far epsilon lets an attacker's belief move.

        Args:
            path: where to write a .png or .svg.
        Raises:
            ImportError: matplotlib is not installed.

        >>> import os, tempfile
        >>> import sfumato as sf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sf.explain_epsilon("0.5").plot(f"{folder}/beliefs.svg")
        ...     os.listdir(folder)
        ['beliefs.svg']
        """
        from matplotlib.figure import Figure

        before = [i / 200 for i in range(201)]
        most = [self.odds * p / (1 - p + self.odds * p) for p in before]
        least = [p / (p + self.odds * (1 - p)) for p in before]
        figure = Figure(figsize=(4.5, 4.2), layout="constrained")
        axis = figure.add_subplot()
        axis.fill_between(
            before, least, most, color="#8fb3d9", label="after the release, at most and at least"
        )
        axis.plot([0, 1], [0, 1], color="#1f2933", label="without it")
        axis.set(
            xlabel="probability before", ylabel="probability after", xlim=(0, 1), ylim=(0, 1),
            title=f"that a person is in the table: epsilon {float(self.epsilon):g}",
        )  # fmt: skip
        axis.legend(fontsize=8, loc="upper left")
        svg = str(path).lower().endswith(".svg")
        figure.savefig(path, metadata={"Date": None} if svg else None)

    def _card(self) -> Card:
        title = f"What epsilon {exact(self.epsilon)} means for one person"
        return Card(title, [Sentences(str(self).split("\n"))])

    def __str__(self) -> str:
        """Return what epsilon means, in sentences."""
        lines = [
            f"With epsilon {float(self.epsilon):g}, the release changes the odds that a person is in the "
            f"table by a factor of at most {self.odds:.3g}, even for a reader who knows everybody else's "
            "rows, and whatever the person's rows are.",
            "If a fair coin decides whether the person is in the table, this reader guesses right at most "
            f"{_percent(self.guessed)} of the time, and 50% without the release.",
            *(
                "A reader who believes before the release that the person is in the table with probability "
                f"{_percent(b.before)} believes {_percent(b.least)} to {_percent(b.most)} after it."
                for b in self.beliefs
            ),
        ]
        if self.delta:
            lines.append(
                f"Delta is the probability that these limits do not hold: 1 in {float(1 / self.delta):,.0f}."
            )
        lines.append(
            "These limits are about whether the person is in the table. For which of two sets of rows the "
            "person has, double epsilon. They do not cover facts about people in general: that smoking is "
            "unhealthy is learned from other people, and also holds for smokers who are in no table."
        )
        return "\n".join(lines)


@suggest_arguments
def explain_epsilon(
    epsilon: Number, delta: Number = 0, *, priors: Sequence[Number] = PRIORS
) -> EpsilonMeaning:
    """Explain what epsilon means: the beliefs of an informed attacker before and after a release.

    Args:
        epsilon: greater than 0, at most 700.
        delta: in [0, 1).
        priors: the attacker's probabilities, in (0, 1), that a person is in the table, before the release.
    Returns:
        An `EpsilonMeaning`: `print` it for words; `to_dict()` for numbers.
    Raises:
        BudgetError, ParameterError: a number is out of range.
    Source:
        Wood et al. 2018, "Differential privacy: a primer for a non-technical audience"; Kairouz, Oh and
        Viswanath 2015, "The composition theorem for differential privacy", for delta. docs/choosing.md.

    >>> meaning = explain_epsilon(1)
    >>> round(meaning.odds, 3), round(meaning.guessed, 3)
    (2.718, 0.731)
    >>> [round(b.most, 3) for b in meaning.beliefs]
    [0.003, 0.027, 0.232, 0.731, 0.961]
    """
    eps, dlt = admissible_epsilon(epsilon), admissible_delta(delta)
    if eps > 700:
        raise ParameterError("epsilon", epsilon, "at most 700, above which nothing is protected")
    high = exp_bounds(eps, 200)[1]
    beliefs = []
    for given in priors:
        prior = as_fraction(given, "a prior")
        if not 0 < prior < 1:
            raise ParameterError("priors", given, "probabilities between 0 and 1")
        odds = prior / (1 - prior)
        most, least = odds * high, odds / high
        beliefs.append(Belief(float(prior), round_down(least / (1 + least)), round_up(most / (1 + most))))
    guessed = (high + dlt) / (1 + high)
    return EpsilonMeaning(eps, dlt, round_up(high), round_up(min(guessed, Fraction(1))), tuple(beliefs))


def _percent(value: float) -> str:
    share = 100 * value
    if share < 1:
        return f"{share:.2g}%"
    return f"{share:.3g}%" if share < 99.95 else f"{share:.6g}%"
