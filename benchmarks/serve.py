"""Questions to a service, beside the same questions in process: latency and throughput.

    python benchmarks/serve.py [--questions 2000] [--clients 16] [--workers 2]

The registry of examples/rwm5yr.py and its catalog; a ledger of SQLite pays in both. First one question after another,
then many clients at once: threads in one process here, and there threads of other processes than the service's.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
from _service import registry, served

import sfumato as sf
from sfumato.client import connect
from sfumato.service.analyst_catalog import AnalystsCatalog

DP = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, max_rows_per_group = 1)"
QUESTIONS = [
    f"{DP} year, COUNT(*) AS n, AVG(docvis) AS visits FROM visits GROUP BY year",
    f"{DP} edlevel, COUNT(DISTINCT id) AS people FROM visits WHERE age < 40 GROUP BY edlevel",
    f"{DP} SUM(hospvis) AS stays FROM visits WHERE year = 1986",
    f"{DP} female, AVG(hhninc) AS income FROM visits GROUP BY female",
]


def timed(ask: Callable[[str], object], count: int, first: int = 0) -> list[float]:
    """Return the seconds of each question."""
    found = []
    for i in range(first, first + count):
        began = time.perf_counter()
        ask(QUESTIONS[i % len(QUESTIONS)])
        found.append(time.perf_counter() - began)
    return found


def at_once(ask: Callable[[str], object], count: int, threads: int) -> list[float]:
    """Return the seconds of questions that threads ask at once."""
    found: list[float] = []
    many = [
        threading.Thread(target=lambda i=i: found.extend(timed(ask, count // threads, i)))
        for i in range(threads)
    ]
    for thread in many:
        thread.start()
    for thread in many:
        thread.join()
    return found


def far(url: str, token: str, count: int, threads: int) -> list[float]:
    """Return the seconds of questions to a service, of one process of clients."""
    client = connect(url, token)
    return at_once(lambda text: client.sql(text).to_arrow(), count, threads)


def told(name: str, seconds: list[float], whole: float) -> float:
    """Print a line; return the median."""
    p50, p95, p99 = (1000 * float(np.percentile(seconds, p)) for p in (50, 95, 99))
    print(f"{name:34} {p50:8.1f} {p95:8.1f} {p99:8.1f} {len(seconds) / whole:10.1f}", flush=True)
    return p50


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--questions", type=int, default=2000)
    given.add_argument("--clients", type=int, default=16)
    given.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    args = given.parse_args()
    names = ["ann", *(f"analyst{i}" for i in range(4))]  # of one at most 8 questions are answered at once
    with served(registry(), ["--workers", str(args.workers)], names) as service:
        token, *tokens = service.tokens
        catalog = AnalystsCatalog.from_catalog(sf.catalog(service.folder / "registry.toml"))
        budget = service.ledger.budget("registry", "ann")

        def near(text: str) -> object:
            release = sf.sql(text, catalog=catalog, budget=budget)
            return release.to_arrow(), release.errors(), str(release.explain())

        print(f"{'ms, and questions a second':34} {'p50':>8} {'p95':>8} {'p99':>8} {'per s':>10}")
        few = max(20, args.questions // 10)
        client = connect(service.url, token)
        timed(near, 20), timed(client.sql, 20)
        one = run("in process, one after another", lambda: timed(near, few))
        other = run("service, one after another", lambda: timed(client.sql, few))
        print(f"the service takes {other - one:.1f} ms more, {other / one:.2f} times as long")
        one = run(f"in process, {args.clients} threads", lambda: at_once(near, args.questions, args.clients))
        each = min(4, args.clients)
        with ProcessPoolExecutor(each, mp_context=get_context("spawn")) as pool:
            work = [(service.url, one, args.questions // each, args.clients // each) for one in tokens[:each]]
            other = run(
                f"service, {args.clients} clients",
                lambda: [s for part in pool.map(far, *zip(*work, strict=True)) for s in part],
            )
        print(f"the service takes {other - one:.1f} ms more, {other / one:.2f} times as long")


def run(name: str, ask: Callable[[], list[float]]) -> float:
    began = time.perf_counter()
    seconds = ask()
    return told(name, seconds, time.perf_counter() - began)


if __name__ == "__main__":
    main()
