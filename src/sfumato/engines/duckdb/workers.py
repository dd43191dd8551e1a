"""Databases of a worker process: each stage that runs has one to itself, and no more run than memory is for.

Threads that shared one would evict each other's rows to disk again and again, and the sum of what they cannot
evict could be more than there is.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from functools import cache

import duckdb

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb import spill
from sfumato.engines.duckdb.connection import lent
from sfumato.engines.duckdb.resources import Resources, machine_memory
from sfumato.ownership import process

# Of each stage that runs, which spills beyond; and the most that all on a machine take of its memory.
STAGE_BYTES, SHARE = 600 << 20, 0.5


@contextmanager
def opened(zone: str, *, own_types: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database that no other stage uses, once its memory is free.

    Args:
        zone: in which times with a zone are read.
        own_types: whether its batches are for DuckDB alone, which reads its own wide sums in a tenth of the
            time that it takes for Arrow's decimals.
    """
    spill.ready()
    turns = _turns(process())
    with (
        turns.one(),
        lent(
            zone, Resources(stage_bytes(turns.memory), threads=1), large_texts=True, own_types=own_types
        ) as session,
    ):
        yield session


def stages_at_once(memory: int, cores: int) -> int:
    """Return how many stages run at once in one process, as if there were a process for each core.

    >>> stages_at_once(15 << 30, cores=4), stages_at_once(1 << 30, cores=1)
    (3, 1)
    """
    return max(1, min(cores, int(SHARE * memory / cores / STAGE_BYTES)))


def stage_bytes(memory: int) -> int:
    """Return how much memory a stage may have before it spills.

    >>> stage_bytes(15 << 30) >> 20, stage_bytes(1 << 30) >> 20
    (600, 512)
    """
    return min(STAGE_BYTES, int(SHARE * memory))


@dataclass
class _Turns:
    """Of the stages of this process, of which each takes its share of memory."""

    memory: int
    free: threading.Semaphore
    threads: Counter[int] = field(default_factory=Counter)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Wait for a turn, but not where this thread has one, which would never end."""
        here, thread = process(), threading.get_ident()
        waits = not self.threads[thread]
        if waits:
            self.free.acquire()
        self.threads[thread] += 1
        try:
            yield
        finally:
            if process() == here:
                self.threads[thread] -= 1
                if waits:
                    self.free.release()


@cache
def _turns(of: tuple[int, int]) -> _Turns:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = machine_memory()
    return _Turns(memory, threading.Semaphore(stages_at_once(memory, cores)))
