"""Requested error bars and bias: sentences on what error bars cover and what they do not."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Literal, get_args

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, QueryError
from sfumato.exact import one_of, truth_value

NO_BIAS = "does not include bias from contribution limits and bounds"
REMEDY = "diagnostics=0.05"
BarKind = Literal["half_width", "standard"]
HALF_WIDTH, STANDARD = get_args(BarKind)
Errors = bool | Literal["standard"]  # which error bars stand beside the numbers
NO_STANDARD_ERROR = (
    "errors: {} has no standard error; counts, sums, means, ratios and variances have one, quantiles "
    "and proportions in strata do not. Leave kind out, for half-widths"
)


@dataclass(frozen=True)
class Bars:
    """Error bars as requested: confidence, individual or simultaneous, with or without sampling error.

    Args:
        confidence: in (0, 1), the chance that a number is within its error bar of the truth.
        simultaneous: whether the confidence is that all numbers are within their error bars.
        sampling: whether the truth is a population of which the units are a random sample, rather than the
            rows.
        standard: whether these are standard errors, which have no confidence.
        selected: whether noisy numbers decide which rows are shown. The confidence is then that each output
            is within its error bars in all rows from which these are selected.

    >>> Bars(0.9).describe(Bias())
    '90% error bar, for each number by itself. It covers the noise, not sampling error.'
    """

    confidence: float = 0.95
    simultaneous: bool = False
    sampling: bool = False
    standard: bool = False
    selected: bool = False

    @classmethod
    def _check(
        cls,
        confidence: object,
        simultaneous: object = False,
        sampling: object = False,
        kind: object = HALF_WIDTH,
    ) -> Bars:
        """Return valid error bars of a caller's confidence and options.

        Raises:
            ParameterError: the confidence is not in (0, 1), or one of the others is not admissible.
            QueryError: a standard error is requested for all numbers at once, or with the sampling error.
        """
        every, both = truth_value(simultaneous, "simultaneous"), truth_value(sampling, "sampling")
        standard = one_of(kind, "kind", (HALF_WIDTH, STANDARD)) == STANDARD
        if standard and (every or both):
            raise QueryError(
                "errors: a standard error is for the noise in one number. Leave out simultaneous and "
                "sampling, or kind"
            )
        return cls(check_confidence(confidence), every, both, standard)

    def _widths(self, release: Any) -> Any:
        """Return these error bars of a release."""
        return release._errors(self)

    @property
    def suffix(self) -> str:
        """The suffix of the error-bar columns, after the name of the output."""
        return "_standard_error" if self.standard else "_error"

    def _covers(self, bias: Bias) -> str:
        """Return what the error bars cover and, where that is easily confused, what they do not.

        Args:
            bias: what limits and bounds can change in the numbers.
        """
        around = f" around statistics {bias.basis}" if bias.basis else ""
        if self.sampling:
            return f"the noise and the sampling error{around}"
        return f"the noise{around}, not sampling error"

    @property
    def _numbers(self) -> str:
        """Whether the confidence of the error bars is for each number, in words."""
        if self.selected and not self.simultaneous:
            return "for each output, in all rows that these are selected from"
        return "for all numbers at once" if self.simultaneous else "for each number by itself"

    def describe(self, bias: Bias) -> str:
        """Return a sentence that says what the error bars cover.

        Args:
            bias: the bias from limits and bounds.
        Returns:
            The sentence.

        >>> Bars(sampling=True).describe(Bias(bounds=True))[40:]
        '. It covers the noise and the sampling error around statistics of the clamped values.'
        """
        what = "Standard error" if self.standard else f"{self.confidence * 100:g}% error bar, {self._numbers}"
        return f"{what}. It covers {self._covers(bias)}."


@dataclass(frozen=True)
class Bias:
    """The bias that contribution limits and bounds can cause, which error bars do not include.

    Args:
        limits: whether a unit may have more groups, rows or values than the limits allow.
        bounds: whether values may be clamped.
        remedy: what to write to get an estimate; "" if nothing gives one.
        estimated: whether the release has diagnostics, which estimate the bias.

    >>> bool(Bias()), Bias(bounds=True).basis
    (False, 'of the clamped values')
    """

    limits: bool = False
    bounds: bool = False
    remedy: str = REMEDY
    estimated: bool = False

    def __bool__(self) -> bool:
        return self.limits or self.bounds

    def __or__(self, other: Bias) -> Bias:
        """Return the bias of either of two releases."""
        if not (self and other):
            return self or other
        remedy = self.remedy if self.remedy == other.remedy else ""
        estimated = self.estimated and other.estimated
        return Bias(self.limits or other.limits, self.bounds or other.bounds, remedy, estimated)

    @property
    def basis(self) -> str:
        """The data that the exact statistics under the error bars describe, if it is not simply the rows."""
        return (
            "of the clamped values" if self.bounds else "of the rows within the limits" if self.limits else ""
        )

    def describe(self, option: str = REMEDY) -> str:
        """Return a sentence that error bars exclude the bias and what estimates it, or an empty text.

        Args:
            option: how to write `diagnostics=0.05` in this interface.
        Returns:
            The sentence, or "" if there can be no bias.

        >>> Bias(limits=True).describe()
        'Does not include bias from contribution limits and bounds; diagnostics=0.05 estimates it.'
        """
        if not self:
            return ""
        how = ""
        if self.estimated:
            how = "; the diagnostics estimate it"
        elif self.remedy:
            how = f"; {option if self.remedy == REMEDY else self.remedy} estimates it"
        return f"D{NO_BIAS[1:]}{how}."


UNBIASED = Bias()


def check_error_names(measured: Iterable[str], columns: Iterable[str], suffix: str = "_error") -> None:
    """Check that the columns `<output>_error` of error bars have names of their own.

    Args:
        measured: the outputs with error bars.
        columns: all columns that stand beside them.
        suffix: of their names.
    Raises:
        QueryError: a name is taken.
    """
    taken = {column.casefold() for column in columns}
    for name in measured:
        if f"{name}{suffix}".casefold() in taken:
            raise QueryError(
                f"confidence: the error bars of {name!r} need the name {name + suffix!r}, which "
                "is taken. Rename that column"
            )


def requested_kind(errors: object) -> BarKind | None:
    """Return the kind of error bars that stand beside the numbers; None without any.

    Raises:
        ParameterError: errors is neither a truth value nor "standard".
    """
    if isinstance(errors, str) and errors == STANDARD:
        return "standard"
    with suppress(ParameterError):
        return "half_width" if truth_value(errors, "errors") else None
    raise ParameterError("errors", errors, "True, False or 'standard'")


def check_confidence(confidence: object) -> float:
    """Return a valid confidence of error bars.

    Raises:
        ParameterError: it is not between 0 and 1.
    """
    if not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
        raise ParameterError("confidence", confidence, "between 0 and 1, such as 0.95")
    return confidence
