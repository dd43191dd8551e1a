"""Joined rows, audited from end to end: with those of its own unit, up to a limit, and with a public table."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import audit
from sfumato.engines.duckdb.combinations import UnitLimit

from . import plants
from .aggregates import Case
from .people import GROUPS
from .test_every_aggregate import FOUND, pairs, reach, releases

REGIONS = sf.public(pa.table({"g": [*GROUPS, *GROUPS, 0], "region": [0, 1, 0, 1, 1, 0, 1]}))


@dataclass(frozen=True)
class Joined(Case):
    """A question of rows that are joined with all rows of their unit, and with a table that has keys several times."""

    def people(self, rows: pa.Table) -> sf.Table:
        own = sf.scan(rows, privacy_unit="id")
        left = own.sql("SELECT id, g AS h, x AS z FROM self")
        # Each unit has so many that the limit leaves some out, those that no stranger is, too.
        left = left.union(left).union(left)
        return left.join(own.union(own), on="id", unit_rows=4).join(REGIONS, on="g", unit_rows=3)


CASE = Joined(
    ("count", "sum", "count_units"),
    {"n": sf.count(), "s": sf.sum("x", lower=-2, upper=2), "units": sf.count_units()},
)


def instead(*changes: tuple[str, str]) -> plants.Plant:
    """Other SQL for which rows of a unit are joined."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        honest = UnitLimit.kept

        def kept(limit: UnitLimit) -> str:
            text = honest(limit)
            for old, new in changes:
                assert old in text
                text = text.replace(old, new)
            return text

        patch.setattr(UnitLimit, "kept", kept)

    return plant


DEFECTS = {
    "all units have one limit together": instead(("PARTITION BY k0 ORDER", "ORDER"), ("<= most", "<= 900")),
    "a unit's limit follows from others' rows": instead(
        ("<= most", "<= least(most, (SELECT count(*) FROM left_rows) // 2000 * most)")
    ),
    "all joined rows count": plants.uncounted_rows,
    "a unit counts in all of its groups": plants.without_group_limit,
}


def test_no_unit_moves_joined_rows_by_more_than_the_noise_hides_and_one_moves_as_far() -> None:
    found = reach(CASE)
    assert Fraction(9, 10) <= max(found.values()) <= 1, found


@pytest.mark.parametrize("defect", DEFECTS)
def test_planted_defects_are_found(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    DEFECTS[defect](monkeypatch)
    found = reach(CASE)
    assert max(found.values()) > 1, found


@pytest.mark.long
@FOUND
def test_releases_keep_their_claim_and_do_not_with_too_little_noise(monkeypatch: Any) -> None:
    report = audit(releases(CASE), **CASE.claim, pairs=pairs(CASE), max_samples=CASE.draws, alpha=1e-15)
    assert not report.violated, report
    plants.less_noise(monkeypatch)
    report = audit(releases(CASE), **CASE.claim, pairs=pairs(CASE), max_samples=4000)
    assert report.violated, report
