"""A private row on its way through a pipeline, of which Beam learns nothing and cannot fail.

Beam encodes elements when it likes: between stages, but also some of each step, to estimate sizes. A row that
will not be encoded (a text with half a surrogate pair, a generator, a class that raises) would fail the
pipeline, and the error would quote it.
"""

from __future__ import annotations

import pickle
from typing import Any

from apache_beam import coders

from sfumato.engines.beam.callables import attempted
from sfumato.engines.beam.values import NONE


class PrivateRow:
    """A row, and as text the unit whose it is.

    Args:
        unit: what `values.written` gave; `NONE` for a row that was lost on the way.
        row: of any class.
    """

    __slots__ = ("row", "unit")

    def __init__(self, unit: str, row: Any) -> None:
        self.unit: str = unit
        self.row: Any = row


class PrivateRowCoder(coders.Coder):  # type: ignore[misc]
    """Encodes private rows; one that will not be encoded, or decoded, is lost, and nothing is raised."""

    def encode(self, value: PrivateRow) -> bytes:
        """Return a row as bytes, none where that fails."""
        return attempted(b"", pickle.dumps, (value.unit, value.row), pickle.HIGHEST_PROTOCOL)

    def decode(self, encoded: bytes) -> PrivateRow:
        """Return the row."""
        return PrivateRow(*attempted((NONE, None), pickle.loads, encoded))

    def estimate_size(self, value: PrivateRow) -> int:
        """Return the same for every row."""
        return 1

    def is_deterministic(self) -> bool:
        """Return False: pickles of equal rows differ."""
        return False

    def to_type_hint(self) -> type[PrivateRow]:
        """Return what it encodes."""
        return PrivateRow


coders.registry.register_coder(PrivateRow, PrivateRowCoder)
