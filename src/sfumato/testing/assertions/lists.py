"""Outputs that are lists, as one output for each entry: each has a noise of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import ParameterError
from sfumato.testing.assertions.cells import Cells, label

if TYPE_CHECKING:
    from sfumato.query.aggregates import Estimate


def by_entry(estimates: Iterable[Estimate]) -> dict[str, Estimate]:
    """Return estimates by name; of a list one for each entry, by names such as `total[0]`."""
    found: dict[str, Estimate] = {}
    for e in estimates:
        names = [f"{e.name}[{i}]" for i in range(e.entries)] or [e.name]
        found |= {name: replace(e, name=name) for name in names}
    return found


def written_out(cells: Cells, estimates: Iterable[Estimate], name: str) -> Cells:
    """Return cells with an output for each entry of those that are lists.

    Args:
        cells: values by group and output.
        estimates: of the outputs.
        name: of the argument, for messages.
    Raises:
        ParameterError: a list has another length.
    """
    lists = {e.name: e.entries for e in estimates if e.entries}
    if not lists:
        return cells

    def of_row(group: Any, row: Mapping[str, object]) -> dict[str, object]:
        found: dict[str, object] = {}
        for output, value in row.items():
            length = lists.get(output)
            if length is None:
                found[output] = value
                continue
            given: Any = value
            if isinstance(given, str) or not hasattr(given, "__len__") or len(given) != length:
                raise ParameterError(
                    f"{name} of {label(group)} {output}", value, f"a list of {length} numbers"
                )
            found |= {f"{output}[{i}]": entry for i, entry in enumerate(given)}
        return found

    return replace(cells, values={group: of_row(group, row) for group, row in cells.values.items()})
