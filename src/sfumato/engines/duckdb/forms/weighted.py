"""Sums of weights, and of values times weights."""

from sfumato.engines.duckdb.forms.values import Part, Values
from sfumato.engines.duckdb.scaled import scaled
from sfumato.engines.duckdb.text import identifier
from sfumato.transformations import WeightedSum


def weighted_sum(values: Values, s: WeightedSum) -> list[Part]:
    """Add up weights of rows with a value, and products, which are in 64 bits."""
    weight = values.steps(s.weight, 0, s.weights.most, s.weights.exponent)
    if s.column is not None:
        weight = f"CASE WHEN {values.valued(s.column)} THEN {weight} END"
    w, name = values.value(weight, "BIGINT"), identifier(s.names[0])
    total = f"coalesce({name}, 0)::HUGEINT"
    upwards = f"CASE WHEN n <= {s.rows} THEN {total} ELSE ({total} * {s.rows} + n - 1) // n END"
    found = [Part(s.names[0], f"sum({w})", f"sum({upwards})")]
    if s.grid is None or s.column is None:
        return found
    x = f"{values.steps(s.column, s.grid.lower, s.grid.upper, s.grid.exponent)} - {s.grid.centre}"
    product = f"({w} * {values.value(x, 'BIGINT')})"
    if s.bits:
        # Shifted as a number that is not negative: any other is not said to round down.
        least = s.weights.most * s.largest
        half = 1 << (s.bits - 1)
        product = f"((({product} + {(least << s.bits) + half}) >> {s.bits}) - {least})"
    total = f"coalesce({identifier(s.names[1])}, 0)::HUGEINT"
    return [*found, Part(s.names[1], f"sum({product})", f"sum({scaled(total, s.rows, None)})")]
