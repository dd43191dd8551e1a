"""Numbers of units and of rows."""

from sfumato.engines.duckdb.forms.values import Part, Values
from sfumato.engines.duckdb.scaled import scaled_upwards, whole_number
from sfumato.engines.duckdb.text import identifier
from sfumato.transformations import Count, CountUnits


def units(values: Values, s: CountUnits) -> list[Part]:
    """Count units, or parts of them."""
    one = whole_number("1", s.exponent, values.in_part)
    return [Part("units", "", "count(*)" if one == "1" else f"sum({one})", pair_type="BIGINT")]


def rows(values: Values, s: Count) -> list[Part]:
    """Count rows, or rows with a value."""
    if s.column is None:
        counted = whole_number(f"least(n, {s.rows})", s.exponent, values.in_part)
        return [Part("rows", "", f"sum({counted})")]
    name, valued = s.names[0], values.value(values.valued(s.column), "BOOLEAN")
    present = f"count(*) FILTER ({valued})"
    shifted = f"({identifier(name)}::HUGEINT * {1 << -s.exponent})"
    limit = s.rows << -s.exponent
    added = f"sum({scaled_upwards(shifted, s.rows, limit, values.most(s))})"
    return [Part(name, present, added, pair_type="BIGINT")]
