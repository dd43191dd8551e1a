"""An Arrow schema as DuckDB reads it, which is found once for each schema."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field
from functools import lru_cache
from typing import NamedTuple

import duckdb
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb import declared
from sfumato.engines.duckdb.connection import lent
from sfumato.engines.duckdb.harmless import described, may_become_null, within
from sfumato.engines.duckdb.resources import Resources
from sfumato.engines.duckdb.source import ROWS, no_rows
from sfumato.engines.duckdb.text import identifier
from sfumato.errors import EngineError


class ReadAs(NamedTuple):
    """What follows from an Arrow schema alone: what stands behind FROM, and its columns."""

    relation: str
    columns: tuple[tuple[str, str], ...]
    complete: frozenset[str]


@dataclass(frozen=True)
class Fields:
    """The fields of a schema, to the last difference: Arrow compares them without what their metadata says.

    Neither do all types come back from a serialized schema: of a dictionary in a dictionary one is left.
    """

    schema: pa.Schema = field(compare=False)
    serialized: bytes = field(init=False)
    kinds: tuple[pa.DataType, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "serialized", self.schema.serialize().to_pybytes())
        object.__setattr__(self, "kinds", tuple(self.schema.types))


@lru_cache(maxsize=256)
def of_fields(fields: Fields, casts: tuple[tuple[str, str], ...], resources: Resources) -> ReadAs:
    """Return how DuckDB reads rows with these fields, some of them cast.

    Raises:
        EngineError: it cannot.
    """
    schema = fields.schema
    with lent(resources=resources) as session:
        if not _readable(session, schema):
            for one in schema:
                if not _readable(session, pa.schema([one])):
                    raise EngineError(
                        f"scan: the column {one.name!r} is {one.type}, which cannot be read; cast it to "
                        "another type, such as double or string, or drop it"
                    )
        session.register(ROWS, no_rows(schema))
        relation = _cast(ROWS, schema.names, dict(casts))
        relation, columns = within(session, relation, described(session, relation))
    return ReadAs(relation, tuple(columns), _complete(schema, columns))


def _cast(relation: str, names: Sequence[str], casts: declared.Types) -> str:
    if all(kind == "VARCHAR" for kind in casts.values()):
        return relation
    columns = (
        f"{declared.cast(identifier(n), casts[n])} AS {identifier(n)}" if n in casts else identifier(n)
        for n in names
    )
    return f"(SELECT {', '.join(columns)} FROM {relation})"


def _readable(session: duckdb.DuckDBPyConnection, schema: pa.Schema) -> bool:
    with suppress(duckdb.Error, pa.ArrowException):
        session.register("declared", no_rows(schema))
        session.unregister("declared")
        return not any(_is_odd(field.type) for field in schema)
    return False


def _is_odd(kind: pa.DataType, inside: bool = False) -> bool:
    """Whether somewhere in a type is one that DuckDB takes, but not with every value."""
    if isinstance(kind, pa.BaseExtensionType):
        return _is_odd(kind.storage_type, inside)
    if _is_coded(kind):
        # Of others DuckDB takes the codes for values, or stops.
        of, in_runs = kind.value_type, pa.types.is_run_end_encoded(kind)
        return _is_coded(of) or (in_runs and (inside or of.num_fields > 0)) or _is_odd(of, True)
    return (
        pa.types.is_union(kind)  # none of its values can be NULL
        or (pa.types.is_map(kind) and kind.key_type.num_fields > 0)  # keys that nobody could compare here
        or any(_is_odd(kind.field(i).type, True) for i in range(kind.num_fields))
    )


def _is_coded(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind))


def _complete(schema: pa.Schema, kinds: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Return the columns that are declared to have a value in each row, and are read as they are."""
    # A float that is never NULL can still be NaN.
    required = {f.name for f in schema if not f.nullable and not pa.types.is_floating(f.type)}
    return frozenset(name for name, kind in kinds if name in required and not may_become_null(kind))
