"""What a failing assertion says: which values are off and how far, which groups differ."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.dataclass import dataclass
from sfumato.testing.assertions.cells import ONLY, Cells, Group, label
from sfumato.testing.flakiness import probability_text

# So many values are listed in a message; the others are counted.
LISTED = 20


@dataclass(frozen=True)
class Off:
    """A value that is off, as a message tells of it."""

    group: Group
    output: str
    actual: object
    expected: object
    tolerance: float
    gap: float = math.nan
    log10: float | None = None

    def __str__(self) -> str:
        where = label(self.group) if self.output == ONLY else f"{label(self.group)} {self.output}"
        if math.isnan(self.gap):
            kind = "missing" if self.actual is None else _text(self.actual)
            return f"  {where}: {kind}, which no tolerance admits; expected {_text(self.expected)}"
        units = f" = {abs(self.gap) / self.tolerance:.3g} tolerances" if self.tolerance > 0 else ""
        chance = "" if self.log10 is None else f"; probability at most {probability_text(self.log10)}"
        return (
            f"  {where}: {_text(self.actual)}, expected {_text(self.expected)} within {self.tolerance:.6g}: "
            f"off by {self.gap:+.6g}{units}{chance}"
        )


def group_differences(got: Cells, wanted: Cells, name: str, forgiven: Sequence[Group] = ()) -> str:
    """Tell missing from extra groups; empty where there are neither."""
    missing = [g for g in wanted.values if g not in got.values and g not in forgiven]
    extra = [g for g in got.values if g not in wanted.values]
    lines = []
    if missing:
        lines.append(f"  missing, in {name} alone: {labels(missing)}")
    if extra:
        lines.append(f"  extra, in actual alone: {labels(extra)}")
    return "\n".join(lines)


def labels(groups: Sequence[Group]) -> str:
    """Write the keys of groups, the first ones of many."""
    shown = ", ".join(label(g) for g in groups[:LISTED])
    return shown + (f" and {len(groups) - LISTED} more" if len(groups) > LISTED else "")


def report(differences: str, off: Sequence[Off], wanted: Cells, stated: str) -> None:
    """Raise if anything is off, the farthest first."""
    if not off and not differences:
        return
    values = sum(len(row) for row in wanted.values.values())
    lines = []
    if off:
        lines.append(f"{len(off)} of {values} values {'is' if len(off) == 1 else 'are'} off{stated}")
        lines += [str(o) for o in sorted(off, key=_farthest)[:LISTED]]
        if len(off) > LISTED:
            lines.append(f"  and {len(off) - LISTED} more")
    else:
        lines.append("the groups differ")
    if differences:
        lines.append(differences)
    raise AssertionError("\n".join(lines))


def _farthest(off: Off) -> float:
    if math.isnan(off.gap):
        return -math.inf
    return -abs(off.gap) / off.tolerance if off.tolerance > 0 else -math.inf


def too_near(near: Sequence[Off], values: int, stated: str) -> str:
    """Say which values are too near to their raw ones."""
    lines = [f"noise is missing or too narrow in {len(near)} of {values} values{stated}"]
    for o in near[:LISTED]:
        where = label(o.group) if o.output == ONLY else f"{label(o.group)} {o.output}"
        lines.append(
            f"  {where}: {_text(o.actual)} is within {o.tolerance:.6g} of the raw {_text(o.expected)}: "
            f"{o.gap:+.6g}"
        )
    if len(near) > LISTED:
        lines.append(f"  and {len(near) - LISTED} more")
    return "\n".join(lines)


def _text(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
