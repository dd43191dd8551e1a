"""What may be done with the values of DuckDB's types."""

from __future__ import annotations

from sfumato.query.schema import FLOATS, INTEGERS, Column, Kind

_OPAQUE = (
    "STRUCT", "MAP", "UNION", "JSON", "VARIANT", "INTERVAL", "BLOB", "BIT", "UHUGEINT", "BIGNUM", "GEOMETRY",
    "TIME WITH TIME ZONE",
)  # fmt: skip


def column_of(type_name: str, missing: bool) -> Column:
    """Return a column of a type of DuckDB."""
    if type_name.endswith("]") or type_name.startswith(_OPAQUE):  # also DECIMAL(9,2)[]
        kind = Kind.OPAQUE
    elif type_name in INTEGERS:
        kind = Kind.INTEGER
    elif type_name in FLOATS or type_name.startswith("DECIMAL"):
        kind = Kind.REAL
    elif type_name == "BOOLEAN":
        kind = Kind.BOOLEAN
    else:
        kind = Kind.OTHER
    return Column(kind, type_name, missing)
