"""A proportion of a population, from a stratified sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from sfumato.engines.beam.aggregations.aggregation import Aggregation, Extract, several
from sfumato.engines.beam.callables import checked
from sfumato.engines.beam.plain import plain
from sfumato.engines.beam.values import KINDS, NAN, NONE, written
from sfumato.errors import ParameterError, QueryError
from sfumato.query import aggregates
from sfumato.query.aggregates import Aggregate, Number


class StratifiedProportion(Aggregation):
    """Return a tuple of the proportion of yes, its standard error, and the ends of its interval.

    Applied to what `MakePrivate` gives.

    Args:
        answer: the answer of a row, True or False; what is neither does not count.
        stratum: the stratum of a row, of the kinds that a key has.
        asked, population: by stratum, how many were asked and how many there are, as of `sfumato.proportion`.
        confidence: of the interval.
        options: as for `Aggregation`, but for keys: of a group the design is another one.
    Raises:
        QueryError: a key is given.
        ParameterError: sizes are not there for the same strata, or out of range.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> design = {"stratum": lambda row: row[1], "asked": {"pool": 40}, "population": {"pool": 90}}
    >>> share = private | StratifiedProportion(lambda row: row[2] > 20, rows=1, epsilon=1, **design)
    """

    _value_type = pa.bool_()
    _result = staticmethod(several)

    def __init__(
        self,
        answer: Extract,
        *,
        stratum: Extract,
        asked: Mapping[Any, int],
        population: Mapping[Any, int],
        confidence: Number = "0.95",
        **options: Any,
    ) -> None:
        if options.get("key") is not None:
            raise QueryError(
                "StratifiedProportion is of all rows: of a group the design is another; leave key out"
            )
        self._value, self._stratum = checked("answer", answer), checked("stratum", stratum)
        self._sizes: dict[str, Any] = {
            "asked": _by_text("asked", asked),
            "population": _by_text("population", population),
            "confidence": confidence,
        }
        super().__init__(**options)

    @staticmethod
    def _as_value(value: Any) -> Any:
        return plain(value, pa.bool_())

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.proportion("value", stratum="stratum", **self._sizes)}


def _by_text(name: str, sizes: object) -> object:
    """Return sizes by the texts of strata; what is no mapping is refused where the aggregate is made."""
    if not isinstance(sizes, Mapping):
        return sizes
    try:
        found = {written(stratum): size for stratum, size in sizes.items()}
    except (TypeError, ValueError):
        found = {}
    if len(found) < len(sizes) or found.keys() & {NONE, NAN}:
        raise ParameterError(name, list(sizes), f"by strata, each of which is {KINDS}")
    return found
