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
from dataclasses import dataclass, field
from functools import cache

import duckdb

from sfumato.engines.duckdb import spill
from sfumato.engines.duckdb.connection import connect
from sfumato.engines.duckdb.resources import Resources, machine_memory
from sfumato.ownership import process

# Of each stage that runs, which spills beyond; and the most that all on a machine take of its memory.
STAGE_BYTES, SHARE = 600 << 20, 0.5


@contextmanager
def opened(zone: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database that no other stage uses, once its memory is free.

    Args:
        zone: in which times with a zone are read.
    """
    spill.ready()
    here = process()
    with _databases(here).one(zone) as database:
        connection = spill.keep(database.cursor())
        try:
            yield connection
        finally:
            _close(connection, here)


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
class _Databases:
    """Databases of this process; a new one for each stage takes longer than a small stage."""

    memory: int
    turns: threading.Semaphore
    free: list[tuple[str, duckdb.DuckDBPyConnection]] = field(default_factory=list)
    threads: Counter[int] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def one(self, zone: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """Wait for a turn, but not where this thread has one, which would never end."""
        here, thread = process(), threading.get_ident()
        waits = not self.threads[thread]
        if waits:
            self.turns.acquire()
        with self.lock:
            self.threads[thread] += 1
            mine = next((d for d in self.free if d[0] == zone), None)
            if mine is not None:
                self.free.remove(mine)
        try:
            mine = mine or self._new(zone)
            yield mine[1]
        except BaseException:
            if mine is not None:  # which may not be fit for the next stage
                _close(mine[1], here)
                mine = None
            raise
        finally:
            if process() == here:
                with self.lock:
                    self.threads[thread] -= 1
                    if mine is not None:
                        self.free.append(mine)
                if waits:
                    self.turns.release()

    def _new(self, zone: str) -> tuple[str, duckdb.DuckDBPyConnection]:
        database = connect(zone, Resources(stage_bytes(self.memory), threads=1))
        # Texts of more than 2 GiB in a batch, whose offsets are of 64 bits then.
        database.execute("SET arrow_large_buffer_size = true")
        return zone, database


@cache
def _databases(of: tuple[int, int]) -> _Databases:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = machine_memory()
    return _Databases(memory, threading.Semaphore(stages_at_once(memory, cores)))


def _close(connection: duckdb.DuckDBPyConnection, made_in: tuple[int, int]) -> None:
    """Close a connection; not in a child forked meanwhile, which would wait for threads that it has not."""
    if process() == made_in:
        connection.close()
