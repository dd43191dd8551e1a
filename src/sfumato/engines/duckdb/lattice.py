"""The SQL of the places of a lattice."""

from __future__ import annotations

from sfumato.engines.duckdb.text import double
from sfumato.transformations.lattice import Lattice


def nearest(value: str, lattice: Lattice) -> str:
    """Write `Lattice.nearest`: the same operations on float64, in the same order."""
    number = f"least(greatest({value}, {double(lattice.lower)}), {double(lattice.upper)})"

    def whole_steps(exponent: int) -> str:
        return f"floor({number} * {double(2.0**-exponent)} + 0.5::DOUBLE) * {double(2.0**exponent)}"

    small = f"({number} * {double(lattice.shrunk)})"
    shifted = f"({small} * {double(lattice.splitter)})"
    return (
        f"(CASE WHEN abs({number}) < {double(lattice.near)} THEN {whole_steps(lattice.finest)} "
        f"WHEN abs({number}) >= {double(lattice.far)} THEN {whole_steps(lattice.coarsest)} "
        f"ELSE ({shifted} - ({shifted} - {small})) / {double(lattice.shrunk)} END + 0.0::DOUBLE)"
    )
