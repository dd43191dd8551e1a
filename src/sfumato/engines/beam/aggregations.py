"""What can be asked of a private collection: `Count`, `Sum` and their kin."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa

from sfumato.engines.beam.budget import Budget
from sfumato.engines.beam.callables import checked, forgiving
from sfumato.engines.beam.engine import SHARDS, BeamEngine, named
from sfumato.engines.beam.once import Stays
from sfumato.engines.beam.opaque import PrivateRow
from sfumato.engines.beam.plain import plain
from sfumato.engines.beam.release import PRIVATE_KEYS, check_collection
from sfumato.engines.beam.values import KINDS, NAN, NONE, read, written
from sfumato.engines.secret import Secret
from sfumato.errors import ParameterError, QueryError
from sfumato.exact import positive_int
from sfumato.query import aggregates
from sfumato.query.aggregates import Aggregate, Number
from sfumato.query.choices import Amount, Bounded, DistinctMethod, NoiseChoice
from sfumato.query.plan import Plan
from sfumato.query.table import Table

Extract = Callable[[Any], Any]

# Keys and units are texts that tell equal values from others; `None` is a key like others.
_UNIT, _KEY = (pa.field(name, pa.string(), nullable=False) for name in ("unit", "key"))
# The names of an aggregation's collections, where keys are one.
_ROWS, _KEYS = "rows", "keys"


class Aggregation(Stays, beam.PTransform, ABC):  # type: ignore[misc]
    """An aggregation of a private collection: gives (key, result) pairs, or the result without a key.

    Args:
        key: the group of a row: text, an int or float, a truth value, bytes, a date, a datetime, a UUID,
            None, or a tuple of these. Rows for which it raises, or gives something else, are dropped.
            Without it there is one group.
        public_keys: the groups, where they are public knowledge: a list, or a collection, whose number need
            not be known; each is in the result. Without them, groups are chosen privately, which needs delta.
        groups: a unit counts in at most so many groups.
        rows: a unit counts as at most so many rows in a group.
        epsilon, delta: what it takes of the collection's budget, when it is applied.
        noise: "auto" (the smallest error), "laplace", "gaussian" or "k_norm".
        shards: into how many parts units, and groups, are divided.
    Raises:
        QueryError, BudgetError: when it is made, or applied; nothing is spent then.
    """

    _value: Extract | None = None
    _value_type = pa.float64()

    def __init__(
        self,
        *,
        epsilon: Amount,
        delta: Amount = 0,
        key: Extract | None = None,
        public_keys: Iterable[Any] | beam.PCollection | None = None,
        groups: int | None = None,
        rows: int | None = None,
        noise: NoiseChoice = "auto",
        shards: int = SHARDS,
    ) -> None:
        super().__init__()
        self._key = key if key is None else checked("key", key)
        self._spends = {"epsilon": epsilon, "delta": delta}
        self._shards = positive_int(shards, "shards")
        keys = [] if self._key is None else [_KEY]
        columns = pa.schema([_UNIT, *keys, ("value", self._value_type)])
        self._brought = public_keys if isinstance(public_keys, beam.PCollection) else None
        if self._brought is not None:
            check_collection(self._brought)
        self._engine = BeamEngine(columns if self._brought is None else named(_ROWS, columns))
        self._plan = self._plan_of(public_keys, groups, rows, noise)
        self._budget: Budget | None = None
        self._secret: Secret | None = None

    def drawing_on(self, budget: Budget, secret: Secret | None) -> Aggregation:
        """Return the aggregation as one collection pays for it; this one stays unpaid."""
        paid = copy.copy(self)
        paid._budget, paid._secret = budget, secret
        return paid

    def check_keys(self, private: Iterable[beam.PCollection]) -> None:
        """Refuse public keys that one of some private collections would bring."""
        if any(self._brought is rows for rows in private):
            raise QueryError(PRIVATE_KEYS)

    def expand(self, owned: beam.PCollection) -> beam.PCollection:
        """Spend, then aggregate."""
        if self._budget is None:
            raise QueryError(
                f"{type(self).__name__} is of private collections alone; make one first: "
                "rows | MakePrivate(budget=..., unit=...)"
            )
        check_collection(owned)
        key, value, result, as_value = self._key, self._value, self._result, self._as_value

        def columns(given: PrivateRow) -> list[dict[str, Any]]:
            if given.unit == NONE:
                return []
            text = None if key is None else written(key(given.row))
            of_row = None if value is None else as_value(value(given.row))
            return [{"unit": given.unit, "key": text, "value": of_row}]

        release = self._engine.release(self._plan, shards=self._shards, secret=self._secret)
        self._budget.spend(**self._spends)
        given: Any = owned | "Keys and values" >> beam.FlatMap(forgiving(columns))
        if self._brought is not None:
            texts = self._brought | "Texts of public keys" >> beam.Map(_key_text).with_output_types(str)
            given = {_ROWS: given, _KEYS: texts}
        return given | release | "Results" >> beam.Map(result)

    def _plan_of(
        self,
        public_keys: Iterable[Any] | beam.PCollection | None,
        groups: int | None,
        rows: int | None,
        noise: NoiseChoice,
    ) -> Plan:
        table = Table(self._engine, "unit")
        if self._key is not None:
            brought = self._brought is not None
            keys = named(_KEYS, pa.schema([_KEY])) if brought else _key_texts(public_keys)
            table = table.group_by("key", keys=keys)
        elif public_keys is not None or groups is not None:
            raise QueryError(
                "public_keys and groups are of the groups of a key; give key=... too, or neither"
            )
        asked = table.bound(groups=groups, rows=rows).agg(**self._aggregates())
        return asked.plan(epsilon=self._spends["epsilon"], delta=self._spends["delta"], noise=noise)

    @staticmethod
    def _as_value(value: Any) -> Any:
        """Return a row's value in a class of Python's own, as Beam may encode it."""
        return plain(value, pa.float64())

    @abstractmethod
    def _aggregates(self) -> dict[str, Aggregate]:
        """Return what is asked, as `agg` takes it."""

    @staticmethod
    def _result(row: dict[str, Any]) -> Any:
        """Turn a released row into what the aggregation gives."""
        *key, output = row.values()
        return (read(key[0]), output) if key else output


class Count(Aggregation):
    """Count rows by key."""

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.count()}


class CountUnits(Aggregation):
    """Count units (people) by key; each counts once in each of its groups."""

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.count_units()}


class CountDistinct(Aggregation):
    """Count different values by key.

    Args:
        value: what is counted of a row, of the kinds that a key has; None, NaN and others are no values.
        values: a unit counts with at most so many different values in a group.
        method: "matching" or "shares", as of `sfumato.count_distinct`.
        options: as for `Aggregation`.
    """

    _value_type = pa.string()

    def __init__(
        self, value: Extract, *, values: int, method: DistinctMethod = "matching", **options: Any
    ) -> None:
        self._value = checked("value", value)
        self._counted: dict[str, Any] = {"values": values, "method": method}
        super().__init__(**options)

    @staticmethod
    def _as_value(value: Any) -> Any:
        text = written(value)
        return None if text in (NONE, NAN) else text

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.count_distinct("value", **self._counted)}


class SelectGroups(Aggregation):
    """Choose keys that enough units have; gives the keys alone."""

    def __init__(
        self, key: Extract, *, groups: int, epsilon: Amount, delta: Amount, shards: int = SHARDS
    ) -> None:
        super().__init__(key=key, groups=groups, epsilon=epsilon, delta=delta, shards=shards)

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.count_units()}

    @staticmethod
    def _result(row: dict[str, Any]) -> Any:
        return read(row["key"])


class _Bounded(Aggregation):
    """An aggregation of values within bounds.

    Args:
        value: the number of a row; None, NaN and what is no number add nothing.
        lower, upper: bounds that are known beforehand, not read from the data.
        options: as for `Aggregation`.
    """

    def __init__(self, value: Extract, *, lower: Number, upper: Number, **options: Any) -> None:
        self._value = checked("value", value)
        self._bounds: dict[str, Any] = {"lower": lower, "upper": upper}
        super().__init__(**options)


class Sum(_Bounded):
    """Add up values by key; the bounds are of what a unit adds to a group, or with per="row" of each row."""

    def __init__(
        self, value: Extract, *, lower: Number, upper: Number, per: Bounded = "unit", **options: Any
    ) -> None:
        self._per = per
        super().__init__(value, lower=lower, upper=upper, **options)

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.sum("value", per=self._per, **self._bounds)}


class Mean(_Bounded):
    """Average values by key; each is clamped to the bounds."""

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.mean("value", **self._bounds)}


class Variance(_Bounded):
    """Return the population variance of values by key; each is clamped to the bounds."""

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.variance("value", **self._bounds)}


class Quantile(_Bounded):
    """Return the quantile of values by key, at one rank."""

    def __init__(self, value: Extract, rank: float, *, lower: Number, upper: Number, **options: Any) -> None:
        self._rank = rank
        super().__init__(value, lower=lower, upper=upper, **options)

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.quantile("value", self._rank, **self._bounds)}


class Median(_Bounded):
    """Return the median of values by key."""

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.median("value", **self._bounds)}


class Min(_Bounded):
    """Return about the smallest value by key: the quantile of rank 0.01."""

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.min("value", **self._bounds)}


class Max(_Bounded):
    """Return about the largest value by key: the quantile of rank 0.99."""

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.max("value", **self._bounds)}


class Quantiles(_Bounded):
    """Return a tuple of quantiles of values by key, at the given ranks."""

    def __init__(
        self, value: Extract, ranks: Sequence[float], *, lower: Number, upper: Number, **options: Any
    ) -> None:
        self._ranks = ranks
        super().__init__(value, lower=lower, upper=upper, **options)

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.quantiles("value", list(self._ranks), **self._bounds)}

    @staticmethod
    def _result(row: dict[str, Any]) -> Any:
        outputs = tuple(v for name, v in row.items() if name != "key")
        return (read(row["key"]), outputs) if "key" in row else outputs


def _key_texts(public_keys: Iterable[Any] | None) -> list[str] | None:
    if public_keys is None:
        return None
    if not isinstance(public_keys, Iterable) or isinstance(public_keys, (str, bytes, Mapping)):
        raise ParameterError("public_keys", public_keys, "a list of keys")
    texts = [_key_text(key) for key in public_keys]
    if not texts:
        raise QueryError("public_keys is empty; name at least one key, or leave it out")
    for text, times in Counter(texts).items():
        if times > 1:
            raise QueryError(f"public_keys names {read(text)!r} twice")
    return texts


def _key_text(key: Any) -> str:
    """Return a public key as text; an error may name it."""
    try:
        text = written(key)
    except (TypeError, ValueError):
        raise QueryError(f"public_keys holds {key!r}, but a key is {KINDS}") from None
    if key is not None and text == NONE:
        raise QueryError(f"public_keys holds {key!r}, but text must be UTF-8, and a time one")
    return text
