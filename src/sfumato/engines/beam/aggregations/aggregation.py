"""What is asked of a private collection: its keys, its plan, and what it pays."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import apache_beam as beam
import pyarrow as pa

from sfumato.budget import Budget
from sfumato.engines.beam.callables import checked, forgiving
from sfumato.engines.beam.engine import SHARDS, BeamEngine, named
from sfumato.engines.beam.once import Stays
from sfumato.engines.beam.opaque import PrivateRow
from sfumato.engines.beam.plain import plain
from sfumato.engines.beam.release import PRIVATE_KEYS, PlannedRelease, check_collection
from sfumato.engines.beam.values import KINDS, NONE, read, written
from sfumato.engines.secret import Secret
from sfumato.errors import ParameterError, QueryError
from sfumato.exact import positive_int
from sfumato.query.aggregates import Aggregate, Number
from sfumato.query.choices import Amount, NoiseChoice
from sfumato.query.payment import payment
from sfumato.query.table import Table

Extract = Callable[[Any], Any]

# Keys and units are texts that tell equal values from others; `None` is a key like others.
_UNIT, _KEY = (pa.field(name, pa.string(), nullable=False) for name in ("unit", "key"))
# The names of an aggregation's collections, where keys are one.
_ROWS, _KEYS = "rows", "keys"


class Aggregation(Stays, beam.PTransform[Any, Any], ABC):  # type: ignore[misc]
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
        weight, max_weight: of `Count`, `Sum`, `Mean`, `Histogram` and `ValueCounts`: how many of the
            population a row stands for, and the largest such number, as of `sfumato.count`. Rows without a
            weight do not count.
    Raises:
        QueryError, BudgetError: when it is made, or applied; nothing is spent then.
    """

    _value: Extract | None = None
    _value_type = pa.float64()
    _takes_weights = False
    _stratum: Extract | None = None

    def __init__(
        self,
        *,
        epsilon: Amount,
        delta: Amount = 0,
        key: Extract | None = None,
        public_keys: Iterable[Any] | beam.PCollection[Any] | None = None,
        groups: int | None = None,
        rows: int | None = None,
        noise: NoiseChoice = "auto",
        shards: int = SHARDS,
        weight: Extract | None = None,
        max_weight: Number | None = None,
    ) -> None:
        super().__init__()
        self._set_weights(weight, max_weight)
        self._key = key if key is None else checked("key", key)
        self._spends = {"epsilon": epsilon, "delta": delta}
        self._shards = positive_int(shards, "shards")
        keys = [] if self._key is None else [_KEY]
        weights = [] if self._weight is None else [("weight", pa.float64())]
        strata = [] if self._stratum is None else [("stratum", pa.string())]
        columns = pa.schema([_UNIT, *keys, ("value", self._value_type), *weights, *strata])
        self._brought = public_keys if isinstance(public_keys, beam.PCollection) else None
        if self._brought is not None:
            check_collection(self._brought)
        self._engine = BeamEngine(columns if self._brought is None else named(_ROWS, columns))
        self._plan = self._plan_of(public_keys, groups, rows, noise)
        self._budget: Budget | None = None
        self._secret: Secret | None = None

    def _set_weights(self, weight: Extract | None, max_weight: Number | None) -> None:
        if not self._takes_weights and (weight is not None or max_weight is not None):
            name = type(self).__name__
            raise QueryError(f"{name} has no weights; Count, Sum, Mean, Histogram and ValueCounts have")
        self._weight = weight if weight is None else checked("weight", weight)
        # As the functions of aggregates take them; one of two that is missing is said there.
        given = {"weight": None if weight is None else "weight", "max_weight": max_weight}
        self._weights: dict[str, Any] = {name: value for name, value in given.items() if value is not None}

    def drawing_on(self, budget: Budget, secret: Secret | None) -> Aggregation:
        """Return the aggregation as one collection pays for it; this one stays unpaid."""
        paid = copy.copy(self)
        paid._budget, paid._secret = budget, secret
        return paid

    def check_keys(self, private: Iterable[beam.PCollection[Any]]) -> None:
        """Refuse public keys that one of some private collections would bring."""
        if any(self._brought is rows for rows in private):
            raise QueryError(PRIVATE_KEYS)

    def expand(self, owned: beam.PCollection[PrivateRow]) -> beam.PCollection[Any]:
        """Spend, then aggregate."""
        if self._budget is None:
            raise QueryError(
                f"{type(self).__name__} is of private collections alone; make one first: "
                "rows | MakePrivate(budget=..., unit=...)"
            )
        check_collection(owned)
        key, value, result, as_value = self._key, self._value, self._result, self._as_value
        weight, stratum = self._weight, self._stratum

        def columns(given: PrivateRow) -> list[dict[str, Any]]:
            if given.unit == NONE:
                return []
            text = None if key is None else written(key(given.row))
            of_row = None if value is None else as_value(value(given.row))
            columns = {"unit": given.unit, "key": text, "value": of_row}
            if weight is not None:
                columns["weight"] = plain(weight(given.row), pa.float64())
            if stratum is not None:
                columns["stratum"] = written(stratum(given.row))
            return [columns]

        release = self._release()
        # What it was planned with, whatever became of the arguments since.
        release.paid = payment(self._budget, [self._plan], f"{type(self).__name__} of a collection")()
        given: Any = owned | "Keys and values" >> beam.FlatMap(forgiving(columns))
        if self._brought is not None:
            texts = self._brought | "Texts of public keys" >> beam.Map(_key_text).with_output_types(str)
            given = {_ROWS: given, _KEYS: texts}
        return given | release | "Results" >> beam.Map(result)

    def _release(self) -> PlannedRelease:
        return self._engine.release(self._plan, shards=self._shards, secret=self._secret)

    def _keys(self, public_keys: Iterable[Any] | beam.PCollection[Any] | None) -> Any:
        """Return public keys as `group_by` takes them."""
        return named(_KEYS, pa.schema([_KEY])) if self._brought is not None else _key_texts(public_keys)

    def _plan_of(
        self,
        public_keys: Iterable[Any] | beam.PCollection[Any] | None,
        groups: int | None,
        rows: int | None,
        noise: NoiseChoice,
    ) -> Any:
        table = Table(self._engine, "unit")
        if self._key is not None:
            table = table.group_by("key", keys=self._keys(public_keys))
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


def several(row: dict[str, Any]) -> Any:
    """Turn a released row into the tuple of its outputs, with its key before them."""
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
