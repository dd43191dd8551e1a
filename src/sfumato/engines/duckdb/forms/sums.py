"""Sums of values within bounds, and of what units have within bounds."""

from sfumato.engines.duckdb.forms.values import Part, Values
from sfumato.engines.duckdb.scaled import scaled
from sfumato.engines.duckdb.text import identifier
from sfumato.transformations import Moments, Role, UnitSum
from sfumato.transformations.statistics.unit_sum import HUGE_STEPS


def unit_sum(values: Values, s: UnitSum) -> list[Part]:
    """Add up what each unit has in a group, within bounds."""
    name = s.names[0]
    if s.integer:
        value = values.column(s.column)
        if values.schema[s.column].type_name == "UHUGEINT":
            value = f"least({value}, {HUGE_STEPS}::UHUGEINT)"
        value = f"CAST({value} AS HUGEINT)"
        clamped = f"least(greatest({value}, {-HUGE_STEPS}), {HUGE_STEPS})"
        row = f"CASE WHEN {value} IS NOT NULL THEN {clamped} END"
    else:
        row = values.steps(s.column, -HUGE_STEPS, HUGE_STEPS, s.exponent)
    total = f"least(greatest({identifier(name)}, {s.lower}), {s.upper})"
    nothing = 0 if s.missing else min(max(0, s.lower), s.upper)
    total = f"CASE WHEN {identifier(name)} IS NULL THEN {nothing} ELSE {total} END"
    value = values.value(f"CAST({row} AS BIGINT)", "BIGINT")
    added = scaled(f"({total} - {s.centre})::HUGEINT", None, values.most(s))
    return [Part(name, f"sum({value})", f"sum({added})")]


def moments(values: Values, s: Moments) -> list[Part]:
    """Add up values within bounds, and their squares."""
    grid = s.grid
    offset = grid.centre if s.centred else 0
    # NULL where the row has no value.
    steps = values.steps(s.column, grid.lower, grid.upper, grid.exponent)
    x = values.value(f"{steps} - {offset}", "BIGINT")
    parts = []
    for coordinate in s.coordinates:
        name, quoted = coordinate.name, identifier(coordinate.name)
        total, pair_type = f"coalesce({quoted}, 0)::HUGEINT", "HUGEINT"
        if coordinate.role is Role.NULL_COUNT:
            pair, pair_type = f"count(*) - {values.counted(s.column)}", "BIGINT"
            total = f"({quoted}::HUGEINT * {1 << -(s.null_count_exponent or 0)})"
        elif coordinate.role is Role.SQUARES:  # of values from the centre
            bits = s.square_bits or 0
            half = (1 << bits) >> 1
            pair = f"sum(((({x} * {x}) + {half}) >> {bits}) - {s.square_centre})"
        else:
            pair = f"sum({x})"
        added = f"sum({scaled(total, s.rows, values.most(s))})"
        parts.append(Part(name, pair, added, pair_type=pair_type))
    return parts
