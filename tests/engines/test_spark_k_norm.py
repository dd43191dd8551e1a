"""K-norm noise on Spark: the numbers that one machine finds, also where a task is killed and done again."""

from __future__ import annotations

import secrets
import sys
from dataclasses import dataclass, replace

import pytest

from sfumato.engines.worker_noise import Work

from . import test_spark
from .test_k_norm import KEYS, ROWS, budget, numbers, question
from .test_spark import killing

pytestmark = pytest.mark.flakiness(
    k=30, because="drawn by workers: numbers of two releases are not alike; noise of 0.01 or less rounds to 0"
)
CASES = (
    "some groups",
    "quantiles of all groups",
    "quantiles of private groups",
    "the whole table",
    "gaussian",
    "steps of time",
    "totals",
)


@dataclass(frozen=True)
class Careless(Work):
    """A planted defect: the secret is drawn where the noise is."""

    def together(self, gathered):
        yield from Work.together(replace(self, secret=secrets.token_bytes(32)), gathered)


def by_key(frame) -> list[dict]:
    return sorted(frame.select("*").toArrow().to_pylist(), key=lambda row: str(row.get("g")))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_numbers_are_those_of_the_same_work_on_one_machine(frame_of, case):
    rows = frame_of(ROWS)
    asked = question(case, rows.repartition(3))
    engine = asked.table._engine
    options = {"epsilon": 20} | budget(case) | ({"noise": "auto"} if case == "some groups" else {})
    work = engine.work(asked.plan(**options))
    assert work.measurement.at_once is (case != "quantiles of private groups")
    frame = engine.released(work)
    assert by_key(frame) == numbers(work)
    assert (frame.rdd.getNumPartitions() == 1) is (case != "quantiles of private groups")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["honest", "careless"])
def test_a_task_that_is_killed_with_noisy_numbers_in_its_hands_draws_the_same_again(frame_of, tmp_path, kind):
    from pyspark import cloudpickle

    for module in (__name__, test_spark.__name__):  # which workers cannot import
        cloudpickle.register_pickle_by_value(sys.modules[module])
    asked = question("quantiles of some groups", frame_of(ROWS))
    engine = asked.table._engine
    work = engine.work(asked.plan(epsilon=20, **budget("")))
    if kind == "careless":
        work = Careless(work.stages, work.measurement)
    marker = tmp_path / "killed"
    marker.touch()
    frame = engine.released(work)
    frame = frame.mapInArrow(killing(str(marker), 0), frame.schema)
    quiet = by_key(frame)
    marker.unlink()
    assert (quiet == by_key(frame)) is (kind == "honest") and marker.exists()


@pytest.mark.long
def test_a_release_has_error_bars_and_the_exact_numbers_at_a_large_epsilon(frame_of):
    frame = question("a count", frame_of(ROWS)).release(epsilon=10**5, **budget(""), confidence=0.9)
    rows = by_key(frame)
    assert [(row["g"], row["n"]) for row in rows] == [(g, 60 * (g < 7)) for g in KEYS]
    assert all(0 <= row["n_error"] < 1 for row in rows)
