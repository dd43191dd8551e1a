"""The odometer: one input, one budget, releases chosen on the way, and a refusal where the budget ends."""

from __future__ import annotations

from typing import Any

from sfumato.errors import BudgetError, QueryError, shown
from sfumato.framework.core import Measurement, distance_in
from sfumato.framework.domains import Domain
from sfumato.framework.measures import Filter
from sfumato.framework.metrics import Metric
from sfumato.ownership import Owned, Turn


class Odometer(Owned):
    """Release about one input until a budget is spent.

    What is asked, and for how much, may depend on everything released before. All that is ever released
    is within the budget, which holds for the measures that are a `Filter`. An ask that does not fit is
    refused before anything is drawn, and costs nothing; whether it fits depends on maps alone, never on
    the data. Several threads may ask, of the process that made it alone; there are no copies.

    Args:
        data: a member of the domain; it is not looked at but by what is asked.
        domain, metric: what inputs are, and how far apart.
        measure: `PureDP()`, `ApproximateDP()`, `ZeroConcentratedDP()` or `GaussianDP()`.
        budget: in the measure's unit: an epsilon, a pair (epsilon, delta), a rho or a mu.
        d_in: how far apart neighbouring inputs are.
    Raises:
        QueryError: the metric does not measure the domain, or the measure is no `Filter`.
        BudgetError: budget is not admissible.
        ParameterError: d_in is not a finite number of at least 0.

    >>> from sfumato.framework import AbsoluteDistance, AtomDomain, PureDP
    >>> from sfumato.measurements import laplace
    >>> odometer = Odometer(1000, AtomDomain(int), AbsoluteDistance(), PureDP(), budget=1)
    >>> 0 < odometer.ask(laplace(2)) < 2000
    True
    >>> odometer.spent, odometer.remaining
    (Fraction(1, 2), Fraction(1, 2))
    >>> odometer.ask(laplace("1.5"))
    Traceback (most recent call last):
    sfumato.errors.BudgetError: laplace would lose 2/3 ...: 1/2 is left of the budget 1

    Source:
        see `Filter`; docs/proofs/odometer.md.
    """

    _elsewhere = (
        "what is asked in two places would be counted in neither; give each place an odometer of its own"
    )
    _refusal = BudgetError

    def __init__(
        self, data: Any, domain: Domain, metric: Metric, measure: Filter, budget: Any, d_in: Any = 1
    ) -> None:
        if not metric.admits(domain):
            raise QueryError(
                f"Odometer: the metric {shown(metric)} does not measure the domain {shown(domain)}"
            )
        if not isinstance(measure, Filter):
            raise QueryError(
                f"Odometer: losses in {shown(measure)} must be fixed beforehand, with compose; measures in "
                "which they may be chosen on the way are PureDP, ApproximateDP, ZeroConcentratedDP and "
                "GaussianDP"
            )
        self._data, self._domain, self._metric, self._measure = data, domain, metric, measure
        self._budget, self._d_in = measure.budget(budget), distance_in(d_in)
        self._spent, self._turn = measure.total([]), Turn()

    @property
    def spent(self) -> Any:
        """The total loss of all that was released."""
        return self._spent

    @property
    def remaining(self) -> Any:
        """The largest loss that still fits, rounded down where it is not rational."""
        return self._measure.remaining(self._spent, self._budget)

    def ask(self, measurement: Measurement) -> Any:
        """Draw a release, if it fits.

        Args:
            measurement: or a chain that ends in one, from this domain and metric to this measure.
        Returns:
            The release.
        Raises:
            QueryError: its domain, metric or measure is another.
            BudgetError: it would lose more than is left, or its map gives no admissible loss, or this is
                another process than that which made the odometer.
            RefusalError: it is asked in the middle of another ask, as by a handler of a signal.
        """
        self._check_home()
        self._check_spaces(measurement)
        loss = measurement.privacy_map(self._d_in)
        with self._turn():
            total = self._measure.total([self._spent, loss])
            if not self._measure.within(total, self._budget):
                raise BudgetError(
                    f"{measurement.name} would lose {_shown(loss)} at distance {self._d_in}: "
                    f"{_shown(self.remaining)} is left of the budget {_shown(self._budget)}"
                )
            self._spent = total  # before the draw: a draw that fails has been paid
        released = measurement(self._data)
        self._check_home()  # a handler of a signal may have forked in the middle
        return released

    def _check_spaces(self, measurement: Measurement) -> None:
        if not measurement.input_domain.includes(self._domain):
            what, taken, given = "domain", measurement.input_domain, self._domain
        elif measurement.input_metric != self._metric:
            what, taken, given = "metric", measurement.input_metric, self._metric  # type: ignore[assignment]
        elif measurement.output_measure != self._measure:
            what, taken, given = "measure", measurement.output_measure, self._measure  # type: ignore[assignment]
        else:
            return
        raise QueryError(f"{measurement.name} has the {what} {taken}, but the odometer has {given}")


def _shown(loss: Any) -> str:
    if isinstance(loss, tuple):
        return f"({', '.join(map(_shown, loss))})"
    return str(loss) if len(str(loss)) <= 20 else f"{float(loss):.6g}"
