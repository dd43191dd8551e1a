"""Stratified surveys: private proportions, their estimates and intervals from noisy counts of strata.

With T = sum(c_i S_i / n_i), S_i a stratum's noisy count, a proportion P is too large to be believed when a T
this small is improbable under *every* population of proportion P. For each l > 0 and v > 0

    P(T <= t) <= exp(l t - v P + F(l, v)),
    F(l, v) = sum over strata of  max over p of (log E e^(-l a X_p) + v c p)  +  log E e^(l a R),

where X_p is a stratum's sample count when its proportion is p, R its noise, and a = c/n: Markov's
inequality, and a maximum over what the strata's proportions may be. So (g + l t + F(l, v)) / v with
g = -log(miss) is an upper confidence limit whatever l and v are; the smallest over a grid is taken.
`docs/surveys.md` tells the rest, in `limits`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.budget import gaussian_mu
from sfumato.budget.calibration import ROOM
from sfumato.budget.epsilon_delta import admissible_delta, admissible_epsilon
from sfumato.budget.loss import certify_loss
from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Facts, Rows
from sfumato.display.result_table import ResultTable
from sfumato.errors import ColumnError, EngineError, ParameterError, QueryError, in_own_words, with_article
from sfumato.exact import Number, as_fraction, one_of, written_up
from sfumato.exact.library_settings import Isolated
from sfumato.framework import AtomDomain, L1Distance, L2Distance, Measurement, VectorDomain
from sfumato.measurements.independent_noise import NOISES, Law, NoiseKind
from sfumato.names.suggestions import suggest_arguments
from sfumato.noise import Gaussian
from sfumato.noise.law_tails import Floats
from sfumato.noise.laws import RoundedNoise
from sfumato.transformations import Norm
from sfumato.transformations.stratified_design import StratifiedDesign, stratum_sums


def noisy_stratum_sums(sample_sizes: Sequence[int], noise: NoiseKind, scale: Any) -> Measurement:
    """Count the yes-answers of each stratum of a survey and add noise of one scale to each count.

    >>> from sfumato.measurements import NOISES
    >>> noisy_stratum_sums([10, 20], NOISES["laplace"], 2).map(1)
    Fraction(1, 2)
    """
    metric = L1Distance() if noise.norm is Norm.L1 else L2Distance()
    return stratum_sums(sample_sizes, metric) >> noise.measurement(scale, VectorDomain(AtomDomain(int)))


@suggest_arguments
def stratified_estimate(
    sums: Sequence[Any], sample_sizes: Sequence[int], strat_sizes: Sequence[int], noise_variance: Any
) -> tuple[Fraction, Fraction]:
    """Estimate a survey's mean and its variance, the noise's own included, from noisy yes-counts of strata.

    The mean is sum(c_i S_i / n_i) and has no bias. Its variance has two parts:

    - of the noise: sum((c_i / n_i)^2) * noise_variance: a variance, never a scale;
    - of the sample: sum(c_i^2 (N_i - n_i) / (N_i (n_i - 1)) * u_i), where u_i estimates p_i (1 - p_i). With
      noise, S_i/n_i (1 - S_i/n_i) is too small by noise_variance / n_i^2 on average, which u_i gets back;
      then u_i is clamped to [0, 1/4], where p_i (1 - p_i) lies.

    Args:
        sums: noisy counts S_i, one for each stratum; they may lie outside [0, n_i].
        sample_sizes, strat_sizes: n_i of at least 2, and N_i of at least n_i.
        noise_variance: variance of the noise on each count, at least 0, or one for each stratum.
    Returns:
        (mean, variance), exact; the mean may lie outside [0, 1].
    Raises:
        ParameterError: a size or variance out of range; lists of different length.

    >>> mean, variance = stratified_estimate([5] * 10, [10] * 10, [100] * 10, noise_variance=2)
    >>> mean, variance == Fraction(25, 10000) + Fraction(2, 1000)
    (Fraction(1, 2), True)

    Source:
        Cochran 1977, sections 5.10 and 5.11; docs/surveys.md for the correction.
    """
    design = StratifiedDesign(sample_sizes, strat_sizes, "stratified_estimate")
    noises = _variances(noise_variance, len(design.sample_sizes))
    values = design.checked(sums)
    mean = sum((step * v for step, v in zip(design.steps, values, strict=True)), Fraction(0))
    variance = sum((a * a * noise for a, noise in zip(design.steps, noises, strict=True)), Fraction(0))
    parts = zip(design.variance_weights, design.sample_sizes, values, noises, strict=True)
    for weight, n, v, noise in parts:
        unbiased = v / n * (1 - v / n) + noise / n**2
        variance += weight * min(max(unbiased, Fraction(0)), Fraction(1, 4))
    return mean, variance


def _variances(value: Any, count: int) -> list[Fraction]:
    listed = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value] * count
    if len(listed) != count:
        expected = f"one number, or {count}, one for each stratum"
        raise ParameterError("stratified_estimate: number of noise variances", len(listed), expected)
    found = [as_fraction(v, "stratified_estimate: noise_variance") for v in listed]
    if min(found) < 0:
        raise ParameterError("stratified_estimate: noise_variance", value, "at least 0")
    return found


TILTS, PRICES = 128, 49  # the grid of l and of v / l
SATURATED = 60.0  # e^-60 is nothing: a larger l gains nothing
SLACK = 1e-11  # for float64, outward


@dataclass(frozen=True)
class ProportionLimits:
    """Confidence limits of the proportion of a stratified population.

    Args:
        design: sample and population sizes.
        noise: what was added to each stratum's count.

    >>> limits = ProportionLimits(StratifiedDesign([100], [10**6]), RoundedNoise(None))
    >>> [x.round(3) for x in limits.limits([0.0, 0.5], "0.95")]
    [array([0.   , 0.393]), array([0.036, 0.607])]
    """

    design: StratifiedDesign
    noise: RoundedNoise

    def limits(self, estimates: ArrayLike, confidence: Number) -> tuple[Floats, Floats]:
        """Return lower and upper confidence limits of the survey's proportion.

        A limit is missed with probability (1 - confidence) / 2 on each side. Two bounds hold the
        probability of T <= t: exp(-G(t)), with G the exponent above at its best, which is proved; and
        Phi(-sqrt(2 G(t + one step))), the step being the largest that one answer moves T, which is
        proved for one stratum of a large population without noise, and measured elsewhere. The
        smaller limit is taken. The lower limit is one less the upper limit of the proportion of no.

        Args:
            estimates: float64 of shape (k,): values of T, before any clamping.
            confidence: between 0 and 1, taken exactly.
        Returns:
            (low, high), float64 of shape (k,), in [0, 1], low <= T <= high where T is in [0, 1].
        Raises:
            ParameterError: confidence is not between 0 and 1.
        Source:
            Hoeffding 1963, theorem 4; Serfling 1974; Zubkov and Serov 2013, theorem 1.
        """
        level = as_fraction(confidence, "confidence")
        if not 0 < level < 1:
            raise ParameterError("confidence", confidence, "greater than 0 and less than 1")
        miss = (1 - level) / 2
        t = np.asarray(estimates, np.float64)
        return 1 - self._upper(1 - t, miss), self._upper(t, miss)

    def _upper(self, t: Floats, miss: Fraction) -> Floats:
        slopes, prices, exponents = self._grid
        # Noise can push T out of [0, 1]; a limit for a T that is nearer is a limit too.
        inside = np.maximum(t, 0.0)
        proved = (exponents - math.log(miss)) / prices
        normal = max(0.0, Gaussian(1).tail_quantile(miss))
        measured = (exponents + normal**2 / 2) / prices + slopes * self._step
        lines = np.minimum(proved, measured)
        limits = np.array([np.min(lines + slopes * x) for x in inside.ravel()]).reshape(t.shape)
        return np.minimum(1.0, limits + SLACK)

    @cached_property
    def _step(self) -> float:
        """The largest step of the estimate T when one answer changes, over strata that can vary."""
        random = zip(self.design.steps, self.design.sample_sizes, self.design.strat_sizes, strict=True)
        return float(max((a for a, n, size in random if n < size or self.noise.law), default=Fraction(0)))

    @cached_property
    def _grid(self) -> tuple[Floats, Floats, Floats]:
        """Return l / v, v and F(l, v) of the survey's confidence limits, flat, where F is finite."""
        design = self.design
        steps = np.array([float(a) for a in design.steps])
        sizes = np.array(design.sample_sizes, float)
        spread = math.sqrt(float((steps**2 * (sizes / 4 + self.noise.variance)).sum()))
        most = min(SATURATED / steps.min(), 0.98 * self.noise.reach / steps.max())
        tilt = np.geomspace(min(0.3 / spread, most / 10), most, TILTS)[:, None]
        # v is worth between what a yes costs where p is near 1 and where p is near 0.
        strongest = np.minimum(tilt * steps.max(), 30.0)
        side = np.linspace(-1.0, 1.0, PRICES)
        low, high = -np.log(-np.expm1(-strongest) / strongest), np.log(np.expm1(strongest) / strongest)
        price = tilt * np.exp(side * np.where(side < 0, low, high))
        strata = Counter(zip(design.sample_sizes, design.strat_sizes, strict=True))
        total, exponent = sum(design.strat_sizes), np.zeros_like(price)
        for (n, size), count in strata.items():
            weight = size / total
            s = tilt * (weight / n)
            sampling = sampling_exponent(s, price * weight, n, size)
            exponent += count * (sampling + self.noise.exponent(s))
        finite = np.isfinite(exponent)
        tilts = np.broadcast_to(tilt, price.shape)[finite]
        return tilts / price[finite], price[finite], exponent[finite]


def sampling_exponent(s: Floats, price: Floats, n: int, size: int) -> Floats:
    """Return a bound of max over p of (log E e^(-s X) + price * p), X a survey's sample count.

    X is the yes-count of a sample of n, without replacement, from `size` of whom a share p says yes. The
    least of three bounds is taken: of sampling with replacement, of the same for those that
    were *not* asked, and of a normal variable with the finite population's correction.

    Args:
        s: greater than 0, of a shape that broadcasts with price.
        price: greater than 0.
        n, size: 1 <= n <= size.
    Source:
        Hoeffding 1963, theorem 4; Serfling 1974.
    """
    rest = size - n
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        # n log(1 - p (1 - e^-s)) + price p is concave in p: its top, or the nearest end.
        drop = -np.expm1(-s)
        p = np.clip(1 / drop - n / price, 0.0, 1.0)
        asked = n * np.log(np.maximum(1 - p * drop, 1e-300)) + price * p
        # X is all yes, size * p, less those not asked: their binomial has e^(+s).
        slope = size * s - price
        p = np.where(slope > 0, np.clip(rest / slope - 1 / np.expm1(s), 0.0, 1.0), 1.0)
        unasked = -slope * p
        if rest:
            unasked += rest * np.logaddexp(np.log1p(-p), s + np.log(p))
        half = min(Fraction(n * (rest + 1), size), Fraction(rest * (n + 1), size))
        normal = np.maximum(0.0, price - s * n) + s * s * (float(half) / 8)
    return np.minimum(np.minimum(asked, unasked), normal)


WHERE = "stratified_proportion"


def _unreadable(error: Exception) -> EngineError:
    kind = type(error).__name__
    return EngineError(
        f"{WHERE}: the table cannot be read: {kind} (its text is left out, as it may quote rows)"
    )


@in_own_words(_unreadable, Exception)
def read_answers(table: Any, stratum: str, answer: str, yes: Any) -> dict[Hashable, list[bool | None]]:
    """Return, for each stratum of the survey's table, its answers: True, False, or None where missing.

    Raises:
        ColumnError: a column is unknown, or of a declared type that holds no answers.
        ParameterError: `yes` does not fit the declared type, or is missing where it is not boolean.
        EngineError: the table is of an unknown kind, or cannot be read, or its columns differ in length.

    >>> read_answers({"s": [1, 1, 2], "a": ["y", None, "n"]}, "s", "a", "y")
    {1: [True, None], 2: [False]}
    """
    columns = _columns(table)
    for name in (stratum, answer):
        if name not in columns:
            raise ColumnError._unknown(name, map(str, columns), WHERE)
    places, answers = _column(table, stratum), _column(table, answer)
    value = _yes(answer, _get_arrow_type(answers), yes)
    pairs = _values(places), _values(answers)
    if len(pairs[0]) != len(pairs[1]):
        raise EngineError(
            f"{WHERE}: {stratum!r} has {len(pairs[0])} rows, but {answer!r} has {len(pairs[1])}"
        )
    found: dict[Hashable, list[bool | None]] = {}
    for place, said in zip(*pairs, strict=True):
        found.setdefault(place, []).append(None if said is None else _same(said, value))
    return found


def _columns(table: Any) -> list[Any]:
    if _home(table) in ("pandas", "polars"):
        frame = table.collect_schema() if hasattr(table, "collect_schema") else table
        return list(frame.names() if hasattr(frame, "names") else frame.columns)
    if _home(table) == "pyarrow" and hasattr(table, "column_names"):
        return list(table.column_names)
    if isinstance(table, Mapping):
        return list(table)
    if isinstance(table, list) and all(isinstance(row, Mapping) for row in table):
        return list(dict.fromkeys(name for row in table for name in row))
    raise EngineError(
        f"{WHERE}: cannot read {with_article(type(table).__name__)}. Pass an Arrow table, a "
        "pandas or Polars data frame, a mapping of columns, or a list of mappings; on a table of "
        "sf.scan write agg(share=sf.proportion(..., stratum=..., asked=..., population=...))"
    )


def _column(table: Any, name: str) -> Any:
    if isinstance(table, list):
        return [row.get(name) for row in table]
    if _home(table) == "polars":
        return (table.lazy().select(name).collect())[name]
    return table.column(name) if _home(table) == "pyarrow" else table[name]


def _get_arrow_type(column: Any) -> Any:
    """Return the Arrow type that a column of the survey declares; None where values decide it."""
    import pyarrow as pa

    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column.type
    if _home(column) == "polars" and str(column.dtype) != "Object":
        return column.head(0).to_arrow().type
    dtype = getattr(column, "dtype", None)
    if _home(column) in ("pandas", "numpy") and str(dtype) not in ("object", "category"):
        return pa.array(column[:0], from_pandas=True).type
    return None


def _values(column: Any) -> list[Any]:
    if hasattr(column, "to_pylist"):
        return list(column.to_pylist())
    return list(column.tolist() if hasattr(column, "tolist") else column)


def _same(said: Any, yes: Any) -> bool:
    said = said.item() if hasattr(said, "item") else said
    return isinstance(said, (bool, int, float, str)) and said == yes


def _yes(answer: str, value: Any, yes: Any) -> Any:
    """Return the survey's value for yes, from the column's declared type alone, never from answers."""
    import pyarrow as pa

    types = pa.types
    yes = yes.item() if getattr(yes, "shape", None) == () else yes
    if value is None or types.is_null(value):
        if yes is None:
            expected = (
                f"the value that counts as yes: {answer!r} declares no type (write yes=True for booleans)"
            )
            raise ParameterError("yes", yes, expected)
        return yes
    kind = value.value_type if types.is_dictionary(value) else value
    fits: tuple[type, ...]
    if types.is_boolean(kind):
        fits, expected, yes = (bool,), "True or False, the one", True if yes is None else yes
    elif types.is_integer(kind) or types.is_floating(kind):
        fits, expected = (int, float), "a number, the one"
    elif types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        fits, expected = (str,), "a text, the one"
    else:
        raise ColumnError(
            f"{WHERE}: {answer!r} is of type {kind}, but answers must be booleans, numbers or texts"
        )
    if not isinstance(yes, fits) or (isinstance(yes, bool) and bool not in fits):
        raise ParameterError("yes", yes, f"{expected} that counts as yes: {answer!r} is of type {kind}")
    return yes


def _home(thing: Any) -> str:
    return type(thing).__module__.partition(".")[0]


_MAX = 20  # strata that are shown


@dataclass(frozen=True, repr=False)
class StratifiedProportion(Isolated, ResultTable):
    """A private proportion of a stratified population, from a survey; everything in it is safe to publish.

    Made by `stratified_proportion`.

    Args:
        strata: the names of the strata.
        design: the number of people asked in each stratum and the number that it has.
        counts: the noisy number of yes-answers in each stratum.
        law: the distribution of the noise on each count, before rounding to a whole number.
        spent: (epsilon, delta).
        description: the noise drawn, as the certificate reads it (docs/certificate.md).

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
        """The survey's estimated share of yes in the population, in [0, 1]."""
        return float(min(1.0, max(0.0, self._mean)))

    @property
    def standard_error(self) -> float:
        """The standard error of the proportion, from the sample and the noise."""
        return math.sqrt(self._estimate[1])

    def interval(self, confidence: Number = 0.95) -> tuple[float, float]:
        """Return the confidence interval of the population's share of yes.

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
        """Return an Arrow table of the survey with a row for each stratum.

        The columns are stratum, population, asked, yes (noisy), proportion, low and high. The confidence
        holds for each stratum's interval alone, not for all of them together.

        Args:
            confidence: the confidence of the intervals, in (0, 1).
        Returns:
            An Arrow table.
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

    def explain(self) -> str:
        """Explain the survey: the method, what is protected, and what counts as public.

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
                f"2. Add {self.law.title} noise of standard deviation "
                f"{self.law.standard_deviation:.4g} to each count.",
                "3. Weigh each stratum's noisy share of yes by its population.",
                "4. Interval: exclude proportions under which a result this far off would be too "
                "improbable, whatever the proportions of the strata are. The noise is part of this.",
            ]
        )

    def _card(self) -> Card:
        (low, high), (epsilon, delta) = self.interval(), self.spent
        facts = [
            ("95% interval", f"{low:.4f} to {high:.4f}, of the sample and of the noise"),
            ("standard error", f"{self.standard_error:.4f}"),
            ("spent", f"epsilon {epsilon:g}, delta {delta:g}, for the answer of each respondent"),
            ("noise", f"{self.law.title}, exactly rounded, on the yes-answers of each stratum"),
        ]
        sizes = zip(self.design.sample_sizes, self.design.strat_sizes, self.counts, strict=True)
        rows = [
            [str(name), f"{size:,}", f"{asked:,}", f"{yes:,}"]
            for name, (asked, size, yes) in zip(self.strata, sizes, strict=True)
        ]
        more = f"The first {_MAX} of {len(rows):,} strata; to_pandas() has all." if len(rows) > _MAX else ""
        names = ["stratum", "population", "asked", "yes (noisy)"]
        title = f"Private proportion: {self.proportion:.4f}"
        return Card(title, [Facts(facts), Rows(names, rows[:_MAX], beyond=more)])

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


@suggest_arguments
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
    """Estimate the share of yes in a population from a stratified survey, privately.

    It protects each respondent's answer: neighbours are samples of the same respondents in which one answer
    differs. The respondents, their strata and the population sizes count as public.

    Args:
        table: a row for each respondent: an Arrow table, a pandas or Polars data frame, a mapping of columns,
            or a list of mappings. A respondent with two rows is protected as two.
        stratum: the name of the column with each respondent's stratum.
        answer: the name of the column with the answer.
        population: the number of people in each sampled stratum.
        epsilon: the privacy budget of an answer, greater than 0.
        delta: for Gaussian noise, greater than 0 and less than 1; not for Laplace noise.
        noise: "laplace" or "gaussian".
        yes: the value that counts as yes; not needed for a boolean column. All other values, and NULL, count
            as no.
    Returns:
        A `StratifiedProportion`: proportion, standard_error, interval(confidence), to_arrow(), explain().
    Raises:
        ParameterError, QueryError: an option is out of range; or a stratum is missing on one side, has fewer
            than two respondents, or has more than its population. Never because of an answer.
        BudgetError: epsilon or delta is out of range.
        EngineError: the type of the table is unknown, or its columns differ in length.
        RefusalError: the certificate is refused, which is a bug in sfumato.

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
    drawn = _describe(len(strata), budget, share, kind.law(scale))
    certify_loss(drawn)
    groups = read_answers(table, stratum, answer, yes)
    _check_strata(strata, groups)
    asked = [len(groups[name]) for name in strata]
    design = StratifiedDesign(asked, list(population.values()), WHERE, names=strata)
    measurement = noisy_stratum_sums(asked, kind, scale)
    counts = tuple(measurement([groups[name] for name in strata]))
    return StratifiedProportion(
        strata, design, counts, kind.law(scale), (written_up(budget), written_up(share)), drawn
    )


def _describe(strata: int, epsilon: Fraction, delta: Fraction, law: Law) -> dict[str, Any]:
    """Return the description of a survey's noise for the certificate."""
    claim = {"epsilon": str(epsilon), "delta": str(delta)}
    noise = {"law": law.name, "scale": str(law.unit)}
    part = {"kind": "survey", **claim, "one": "1", "strata": strata, **noise}
    return {"version": 1, "unit": "respondent", "neighbours": "one_answer", **claim, "parts": [part]}


def _check_strata(strata: tuple[Hashable, ...], groups: Mapping[Hashable, Any]) -> None:
    # Strata are public; what stands in a column that was taken for theirs may not be.
    if any(name not in strata for name in groups):
        raise QueryError(
            f"{WHERE}: population lacks strata that are in the table; it has "
            f"{list(strata)[:10]!r}. Name all values of the column, and check that it is the right "
            "column"
        )
    absent = [name for name in strata if name not in groups]
    if absent:
        raise QueryError(
            f"{WHERE}: nobody was asked in the strata {absent[:10]!r}. Merge them with others, or "
            "leave them out and estimate the proportion of the rest"
        )
