"""The zoo: mechanisms that are known to be wrong, each beside the same one done right."""

from specimens import (
    accounting,
    groups,
    machine,
    means,
    noise,
    response,
    selection,
    sparse_vector,
    sums,
    units,
)
from specimens.draws import seed
from specimens.specimen import VALUES, Specimen, claimed

FAMILIES = (
    noise,
    sums,
    means,
    groups,
    units,
    selection,
    sparse_vector,
    response,
    machine,
    accounting,
)
SPECIMENS: tuple[Specimen, ...] = tuple(s for family in FAMILIES for s in family.SPECIMENS)

__all__ = ["FAMILIES", "SPECIMENS", "VALUES", "Specimen", "claimed", "seed"]
