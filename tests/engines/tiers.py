"""Which of many cases are in the first tier, and which are asked where each is a job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

# Where each evaluation is a job.
JOBS = ("spark", "beam")
# Tests of every engine whose cases differ in what workers compute alone, and not in how rows get there. Workers of Spark
# and of Beam compute the same stages, which have all cases without a cluster: the first case is asked of both, then
# every second one of Spark and the others of Beam. With SFUMATO_LONG both have all.
IN_TURN = {
    "test_hostile_sources.py::test_stages_bear_it",
    "test_inside_on_workers.py::test_spark_and_beam_compute_what_one_machine_does",
    "test_neighbours.py::test_a_unit_changes_no_more_than_is_claimed",
    "test_neighbours.py::test_planted_defects_are_seen",
    "test_noise.py::test_error_bars_cover_on_each_engine",
    "test_noise.py::test_groups_are_shown_as_often_as_the_rule_says",
    "test_noise.py::test_less_noise_or_none_is_seen",
    "test_noise.py::test_shown_counts_reach_the_threshold",
    "test_owners_on_workers.py::test_spark_and_beam_compute_what_one_machine_does",
    "test_release.py::test_a_filter_that_fails_on_a_row_drops_it_alone",
    "test_release.py::test_casts_are_admitted_and_do_not_raise",
    "test_release.py::test_near_the_truth_at_a_large_epsilon",
    "test_release.py::test_no_data_raises",
    "test_release.py::test_no_derived_column_raises",
    "test_release.py::test_no_row_can_stop_a_release",
    "test_total_rows.py::test_a_unit_changes_no_more_than_is_claimed",
}


def some(cases: Iterable[Any], every: int) -> list[Any]:
    """Return parameters, of which the first and every so-many-th one after it are in the first tier."""
    return [pytest.param(c, marks=() if i % every == 0 else pytest.mark.long) for i, c in enumerate(cases)]


def asked_again(item: Any) -> bool:
    """Whether it asks a part of a test's generated examples, where the second tier has all: of engines that start jobs."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    part = params.get("share", 1) != 1
    return part and params.get("engine") in JOBS and item.get_closest_marker("long") is not None


def left_to_the_other(items: Iterable[Any]) -> set[Any]:
    """Return the cases of such tests that are asked of the other engine that starts jobs."""
    cases: dict[tuple[str, str], list[Any]] = {}
    for item in items:
        name = item.nodeid.split("[")[0].removeprefix("tests/engines/")
        if name in IN_TURN and (engine := item.callspec.params["engine"]) in JOBS:
            cases.setdefault((name, engine), []).append(item)
    return {
        item
        for (_, engine), of_engine in cases.items()
        for place, item in enumerate(sorted(of_engine, key=_case))
        if place and JOBS[place % len(JOBS)] != engine
    }


def _case(item: Any) -> list[int]:
    """Return which case it is, whichever engine is asked and in whatever order tests come."""
    return [place for name, place in sorted(item.callspec.indices.items()) if name != "engine"]
