"""What a release is, as lines beside its numbers, for those to whom the file alone is handed on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sfumato import __version__
from sfumato.display.numbers import exact
from sfumato.query.bars import Bars
from sfumato.query.canonical import canonical_digest

if TYPE_CHECKING:
    from sfumato.query.released.noisy_table import NoisyTable


def about(release: NoisyTable, bars: Bars | None) -> list[tuple[str, Any]]:
    """Return lines of what each is about, and what is said: cost, unit, bounds, error bars, plan.

    Args:
        release: that was drawn.
        bars: the error bars that stand beside the numbers; None without any.
    """
    from sfumato.query.cards.released import error_bars

    epsilon, delta = release._spent
    content: dict[str, Any] = release.explain().to_dict()
    lines: list[tuple[str, Any]] = [("released by", f"sfumato {__version__}, with differential privacy")]
    if release._engine.made_up:
        lines.append(("WARNING", "of made-up rows: an answer about nobody"))
    lines += [("epsilon", exact(epsilon)), ("delta", exact(delta))]
    for one in content.get("releases", [content]):
        lines += _of_one(one)
    if "computed" in content:
        lines.append(("computed", f"with the noisy table alone: {content['computed']}"))
    lines += [("found", str(found)) for found in release.found]
    named = {"±": ("error bars", " They are in columns that end in _error.")}
    for name, said in error_bars(release, bars):
        called, where = named.get(name, (name, ""))
        lines.append((called, f"{said}{where}"))
    notes = [note for one in content.get("releases", [content]) for note in one["notes"]]
    lines += [("note", note) for note in dict.fromkeys([*notes, *release.hints])]
    return [*lines, ("plan, SHA-256", canonical_digest(release.canonical()))]


def _of_one(content: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "privacy unit", content["privacy_unit"]
    if content["group_by"]:
        yield "groups", f"{', '.join(content['group_by'])} ({content['groups_are']})"
    if "told" in content:  # the largest groups
        yield from (("step", step) for step in content["told"])
        return
    limits = content["limits"]
    for name, what in _LIMITS.items():
        if limits.get(name) is not None:
            yield "limit", f"{what}: {limits[name]:,}"
    for statistic in content["statistics"]:
        if "lower" in statistic:
            yield "bounds", f"{statistic['what']}: {statistic['lower']:g} to {statistic['upper']:g}"
    yield "noise", content["noise"]


_LIMITS = {
    "groups_per_unit": "groups in which a unit counts, at most",
    "rows_per_unit_and_group": "rows of a unit in a group, at most",
    "rows_per_unit": "rows of a unit in all groups, at most",
}
