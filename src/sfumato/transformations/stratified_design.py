"""Stratified designs: strata's sample sizes, yes-counts, estimators of a proportion and its variance."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import as_fraction, at_least_0, positive_int
from sfumato.framework import (
    AbsoluteDistance,
    AtomDomain,
    ChangeOneDistance,
    Domain,
    L1Distance,
    L2Distance,
    Linear,
    Metric,
    ProductDomain,
    ProductMetric,
    Transformation,
    VectorDomain,
)
from sfumato.framework.domains import check_length
from sfumato.names.suggestions import suggest_arguments

SIDE_BY_SIDE = ProductMetric(AbsoluteDistance())
PER_STRATUM = "the input, which has one entry for each stratum,"


@dataclass(frozen=True)
class StratifiedDesign:
    """The public design of a stratified sample: how many were asked in each stratum, of how many.

    Args:
        sample_sizes: whole numbers n_i of at least `least`, one for each stratum.
        strat_sizes: whole numbers N_i of at least n_i.
        where: who asks, for errors.
        least: the smallest sample that is admissible: 2 where a variance is estimated, else 1.
        names: what the strata are called, for errors; None for their places, from 0.
        called: what the two lists are called, for errors.
    Raises:
        ParameterError: another number; it names the stratum.

    >>> StratifiedDesign([10, 20], [100, 300]).weights
    (Fraction(1, 4), Fraction(3, 4))
    """

    sample_sizes: Sequence[int]
    strat_sizes: Sequence[int]
    where: str = "stratified sample"
    least: int = 2
    names: tuple[Hashable, ...] | None = None
    called: tuple[str, str] = ("sample_sizes", "strat_sizes")

    def __post_init__(self) -> None:
        samples = self._sizes(0)
        strata = self._sizes(1)
        asked, population = self.called
        if len(samples) != len(strata):
            expected = f"as many as there are {asked}, {len(samples)}"
            raise ParameterError(f"{self.where}: number of {population}", len(strata), expected)
        for i, (n, size) in enumerate(zip(samples, strata, strict=True)):
            if n < self.least:
                why = " (a variance takes two)" if self.least > 1 else ""
                raise ParameterError(self._label(asked, i), n, f"at least {self.least}{why}")
            if n > size:
                expected = f"at most {population}, the {size} that there are"
                raise ParameterError(self._label(asked, i), n, expected)

    def _sizes(self, which: int) -> tuple[int, ...]:
        field, name = ("sample_sizes", "strat_sizes")[which], self.called[which]
        given = getattr(self, field)
        if isinstance(given, (str, bytes)) or not hasattr(given, "__len__") or len(given) == 0:
            raise ParameterError(f"{self.where}: {name}", given, "a list with one whole number per stratum")
        if any(isinstance(n, (str, bytes)) for n in given):  # a column of something else
            raise ParameterError(f"{self.where}: {name}", given, "a list with one whole number per stratum")
        sizes = tuple(positive_int(n, self._label(name, i)) for i, n in enumerate(given))
        object.__setattr__(self, field, sizes)
        return sizes

    def _label(self, name: str, i: int) -> str:
        return f"{self.where}: {name}[{self.names[i]!r}]" if self.names else f"{self.where}: {name}[{i}]"

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """The share c_i of each stratum of the design in the population."""
        total = sum(self.strat_sizes)
        return tuple(Fraction(size, total) for size in self.strat_sizes)

    @property
    def steps(self) -> tuple[Fraction, ...]:
        """What one yes in each stratum of the design adds to the estimated proportion: c_i / n_i."""
        return tuple(c / n for c, n in zip(self.weights, self.sample_sizes, strict=True))

    @property
    def variance_weights(self) -> tuple[Fraction, ...]:
        """The factors of p_i (1 - p_i) in the design's variance, for n_i above 1.

        They are c_i^2 (N_i - n_i) / (N_i (n_i - 1)).
        """
        sizes = zip(self.weights, self.sample_sizes, self.strat_sizes, strict=True)
        return tuple(c * c * Fraction(size - n, size * (n - 1)) for c, n, size in sizes)

    def checked(self, values: Sequence[Any]) -> list[Fraction]:
        """Take one public number for each stratum of the design exactly; an error may show it."""
        numbers = check_length(values, len(self.sample_sizes), self.where, PER_STRATUM)
        return [as_fraction(_plain(v), self._label("sums", i)) for i, v in enumerate(numbers)]

    def counts(self, values: Sequence[Any]) -> list[Fraction]:
        """Take one private number from 0 to n_i for each stratum of the design; no error shows it."""
        found = []
        numbers = check_length(values, len(self.sample_sizes), self.where, PER_STRATUM)
        for i, (value, n) in enumerate(zip(numbers, self.sample_sizes, strict=True)):
            try:
                number = as_fraction(_plain(value), "sums")
            except ParameterError:
                number = Fraction(-1)
            if not 0 <= number <= n:
                expected = f"a number from 0 to sample_sizes, the {n} that were asked"
                raise ParameterError(self._label("sums", i), _OUTSIDE, expected)
            found.append(number)
        return found


@suggest_arguments
def stratum_sums(sample_sizes: Sequence[int], metric: Metric = SIDE_BY_SIDE) -> Transformation:
    """Count the yes-answers of each stratum of a design.

    Args:
        sample_sizes: the public number of people asked in each stratum, at least 1.
        metric: the distance of counts: `ProductMetric(AbsoluteDistance())` for the constructors below,
            `L1Distance()` for Laplace noise, `L2Distance()` for Gaussian noise.
    Returns:
        A Transformation from one vector of answers per stratum (True, False, or None for a missing answer,
        which counts as no) to whole numbers from 0 to n_i. The distance of inputs is the number of changed
        answers. Map: d_in.
    Raises:
        ParameterError: a size is not a whole number of at least 1, or the metric is another; from a call, for
            a wrong number of strata.

    >>> count = stratum_sums([3, 2])
    >>> count([[True, None, True], [False, True]]), count.map(1)
    ([2, 1], Fraction(1, 1))

    Source:
        Proof: docs/proofs/stratum_sums.md.
    """
    design = StratifiedDesign(sample_sizes, sample_sizes, "stratum_sums", least=1)
    sizes = design.sample_sizes
    if isinstance(metric, ProductMetric) and metric == SIDE_BY_SIDE:
        counts: Domain = _counts(int, sizes)
    elif isinstance(metric, (L1Distance, L2Distance)) and not metric.scales:
        counts = VectorDomain(AtomDomain(int, Fraction(0), Fraction(max(sizes))), len(sizes))
    else:
        expected = "ProductMetric(AbsoluteDistance()), L1Distance() or L2Distance()"
        raise ParameterError("stratum_sums: metric", metric, expected)

    def function(answers: Sequence[Sequence[bool | None]]) -> list[int]:
        strata = check_length(answers, len(sizes), "stratum_sums", PER_STRATUM)
        return [sum(answer is True for answer in stratum) for stratum in strata]

    return Transformation(
        "stratum_sums",
        ProductDomain(tuple(VectorDomain(AtomDomain(bool, null=True), n) for n in sizes)),
        counts,
        ProductMetric(ChangeOneDistance()),
        metric,
        function,
        Linear(Fraction(1)),
    )


@suggest_arguments
def make_lipschitz_sized_proportion_ci_mean(
    sample_sizes: Sequence[int], strat_sizes: Sequence[int]
) -> Transformation:
    """Estimate a proportion from the yes-counts of a stratified design: sum(c_i v_i / n_i).

    Args:
        sample_sizes: n_i, the number of people asked in each stratum: whole numbers of at least 1.
        strat_sizes: N_i, the number of people in each stratum, at least n_i; c_i is N_i / sum(N_i).
    Returns:
        A Transformation from exact numbers v_i in [0, n_i], one for each stratum, to an exact number
        (Fraction). Map: d_in * max(c_i / n_i), exact.
    Raises:
        ParameterError: a size is out of range (the error names the stratum), or lists differ in length; from
            a call, for a wrong number of sums or one outside its range.

    >>> mean = make_lipschitz_sized_proportion_ci_mean([10, 20], [100, 300])
    >>> mean([5, 20]), mean.map(1)
    (Fraction(7, 8), Fraction(3, 80))

    Source:
        Cochran 1977, "Sampling techniques", section 5.10.
        Proof: docs/proofs/make_lipschitz_sized_proportion_ci_mean.md.
    """
    name = "make_lipschitz_sized_proportion_ci_mean"
    design = StratifiedDesign(sample_sizes, strat_sizes, name, least=1)
    steps = design.steps

    def function(sums: Sequence[Any]) -> Fraction:
        parts = zip(steps, design.counts(sums), strict=True)
        return sum((step * v for step, v in parts), Fraction(0))

    return _estimator(name, design, function, max(steps))


@suggest_arguments
def make_lipschitz_sized_proportion_ci_variance(
    sample_sizes: Sequence[int], strat_sizes: Sequence[int], mean_scale: Any
) -> Transformation:
    """Estimate the variance of a stratified proportion whose mean is released with noise.

    The function is sum(c_i^2 (N_i - n_i) / N_i * p_i (1 - p_i) / (n_i - 1)) + mean_scale^2 with p_i = v_i /
    n_i. A stratum in which everybody was asked (n_i = N_i) adds nothing.

    Args:
        sample_sizes: n_i, the number of people asked in each stratum: whole numbers of at least 2.
        strat_sizes: N_i, the number of people in each stratum, at least n_i; c_i is N_i / sum(N_i).
        mean_scale: the standard deviation of the noise on the mean: a finite number of at least 0.
    Returns:
        A Transformation from exact numbers v_i in [0, n_i], one for each stratum, to an exact number
        (Fraction). Map: d_in * max(c_i^2 (N_i - n_i) / (N_i (n_i - 1) n_i)), exact.
    Raises:
        ParameterError: a size or the scale is out of range (the error names the stratum), or lists differ in
            length; from a call, for a wrong number of sums or one outside its range.

    >>> variance = make_lipschitz_sized_proportion_ci_variance([10] * 10, [100] * 10, mean_scale=1)
    >>> float(variance([5] * 10)), variance.map(1)
    (1.0025, Fraction(1, 10000))

    Source:
        "Lipschitz sized variance for proportion CI", 2022, theorem 2.1, on the domain that its proof assumes.
        Proof: docs/proofs/make_lipschitz_sized_proportion_ci_variance.md.
    """
    name = "make_lipschitz_sized_proportion_ci_variance"
    design = StratifiedDesign(sample_sizes, strat_sizes, name)
    scale = at_least_0(mean_scale, f"{name}: mean_scale")
    weights, sizes = design.variance_weights, design.sample_sizes

    def function(sums: Sequence[Any]) -> Fraction:
        parts = zip(weights, sizes, design.counts(sums), strict=True)
        return sum((w * (v / n) * (1 - v / n) for w, n, v in parts), scale * scale)

    constant = max(w / n for w, n in zip(weights, sizes, strict=True))
    return _estimator(name, design, function, constant)


class _Outside:
    """A stand-in for a stratum's private number in an error."""

    def _in_messages(self) -> str:
        return "something else"


_OUTSIDE = _Outside()


def _plain(value: Any) -> Any:
    """Refuse a text as a stratum's number, by None."""
    return None if isinstance(value, (str, bytes)) else value


def _counts(kind: type[int] | type[Fraction], sizes: Sequence[int]) -> ProductDomain:
    return ProductDomain(tuple(AtomDomain(kind, Fraction(0), Fraction(n)) for n in sizes))


def _estimator(
    name: str, design: StratifiedDesign, function: Callable[[Sequence[Any]], Fraction], constant: Fraction
) -> Transformation:
    return Transformation(
        name,
        _counts(Fraction, design.sample_sizes),
        AtomDomain(Fraction),
        SIDE_BY_SIDE,
        AbsoluteDistance(),
        function,
        Linear(constant),
    )
