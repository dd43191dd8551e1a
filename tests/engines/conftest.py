"""Fixtures of tests of engines: each engine in turn, the sessions of Spark and Beam, sizes and choices that are fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from sfumato.query import sizes
from tests.support.engines import (
    ENGINES,
    JOBS,
    LONG,
    SMALL,
    Collected,
    Opener,
    StagedEngine,
    as_arrow,
    in_long,
    results_on_beam,
    spark_frame,
    spark_session,
)

__all__ = ["SMALL", "Opener", "StagedEngine", "as_arrow", "spark_frame"]

LOCAL = ("duckdb", "stages")
# Where all sizes are small too.
SMALL_ENGINES = ("small duckdb", "small stages")


@pytest.fixture(scope="session")
def openers(tmp_path_factory):
    """The name of an engine -> what opens rows with it."""
    return cache(lambda name: ENGINES[name](str(tmp_path_factory.mktemp("rows"))))


@pytest.fixture
def small_sizes(monkeypatch):
    """All paths that only large data reach, for a few rows."""
    for name, size in SMALL.items():
        monkeypatch.setattr(sizes, name, size)


def opened(request: pytest.FixtureRequest) -> Opener:
    """Return the opener of an engine by its name; of small ones with small sizes."""
    name, opener = request.param, request.getfixturevalue("openers")
    if name not in SMALL_ENGINES:
        return opener(name)
    request.getfixturevalue("small_sizes")
    return replace(opener(name.removeprefix("small ")), slow=not LONG)


@pytest.fixture(params=[*LOCAL, *in_long(*JOBS, *SMALL_ENGINES)])
def engine(request) -> Opener:
    """Each engine in turn, as a function of rows; those of one machine with small sizes too."""
    return opened(request)


@pytest.fixture(params=[*LOCAL, *in_long(*SMALL_ENGINES)])
def local_engine(request) -> Opener:
    """Each engine of one machine, for what a job of Spark or Beam would compute by the same stages."""
    return opened(request)


@pytest.fixture(scope="session")
def spark():
    """The session of all tests on Spark."""
    return spark_session()


@pytest.fixture
def settings(spark):
    """A function that changes settings of Spark's session until the test ends."""
    before: dict[str, str | None] = {}

    def change(values: Mapping[str, object]) -> None:
        for name, value in values.items():
            before.setdefault(name, spark.conf.get(name, None))
            spark.conf.set(name, str(value))

    yield change
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@pytest.fixture(scope="session")
def frame_of(spark):
    """Arrow table -> Spark data frame of the same types."""
    return spark_frame


@pytest.fixture
def collected():
    """Engine, plan -> a release on Spark with all that a release on one machine offers, sorted by key."""
    return Collected


@pytest.fixture(scope="session")
def run():
    """A function of a pipeline to a collection -> what it holds."""
    return results_on_beam


@pytest.fixture
def fixed_salt(monkeypatch):
    """The same choice of groups in every release."""
    monkeypatch.setattr("secrets.randbits", lambda bits: 0x9E3779B97F4A7C15 & ((1 << bits) - 1))


def on_a_session(item: pytest.Item) -> bool:
    """Whether a test needs the session of Spark."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    return bool({"spark", "frame_of", "collected"} & {*getattr(item, "fixturenames", ())}) or "spark" in [
        one
        for one in (*params.values(), *getattr(item, "originalname", "").split("_"))
        if isinstance(one, str)
    ]


def left_to_the_other(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return cases on Spark and Beam that the other of them has: the first case is asked of both, others in turn.

    Their workers compute the same stages, which have all cases without a cluster.
    """
    cases: dict[tuple[str, str], list[Any]] = {}
    for item in items:
        engine = getattr(getattr(item, "callspec", None), "params", {}).get("engine")
        if engine in JOBS:
            cases.setdefault((item.nodeid.partition("[")[0], engine), []).append(item)
    return {
        item
        for (_, engine), of_engine in cases.items()
        for place, item in enumerate(sorted(of_engine, key=lambda item: item.nodeid))
        if place and JOBS[place % len(JOBS)] != engine
    }


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of Spark come first, so that one process starts Java.

    Where there are several processes, pytest-xdist gives the first one what comes first.
    """
    items.sort(key=lambda item: not on_a_session(item))
    if not LONG:
        left = left_to_the_other(items)
        items[:] = [item for item in items if item not in left]
