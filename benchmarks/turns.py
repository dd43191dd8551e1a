"""How long one analyst waits while another has dear questions going, in a service with as many workers as cores.

    python benchmarks/turns.py [--dear 8] [--asked 5] [--workers 2]

ann asks for previews of as many sizes and budgets as one request may have, again and again, so many at once; bob for
what is left of his budget, for a preview of one size, and for a release, one after the other. Beside it, the same
without ann.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from urllib.request import Request, urlopen

from _service import registry, served
from serve import DP

from sfumato.client import Client, connect

QUESTION = f"{DP} year, COUNT(*) AS n, AVG(docvis) AS visits FROM visits GROUP BY year"
SIZES, BUDGETS = [10 * 2**i for i in range(8)], [0.1, 0.5, 1.0, 2.0, 4.0]


def seconds(ask: Callable[[], object]) -> float:
    """Return how long an answer takes."""
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def bobs(client: Client, asked: int) -> None:
    """Print how long bob waits for each."""
    of: Sequence[tuple[str, Callable[[], object]]] = [
        ("what is left", lambda: client.remaining),
        ("a preview of one size", lambda: client.ask(QUESTION, units=[3000])),
        ("a release", lambda: client.sql(QUESTION).to_arrow()),
    ]
    for name, ask in of:
        found = sorted(seconds(ask) for _ in range(asked))
        print(f"  {name:24} median {found[len(found) // 2]:7.2f} s, longest {found[-1]:7.2f}", flush=True)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--dear", type=int, default=8)
    given.add_argument("--asked", type=int, default=5)
    given.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    args = given.parse_args()
    with served(registry(), ["--workers", str(args.workers)], ["ann", "bob"]) as service:
        dear = partial(_dear, service.url, service.tokens[0])
        bob = connect(service.url, service.tokens[1], seconds=600)
        print(
            f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {args.workers} workers"
        )
        took, again = seconds(dear), seconds(dear)
        print(f"a dear preview, alone: {took:.2f} s, and once more {again:.2f}")
        print("bob, alone")
        bobs(bob, args.asked)
        over = threading.Event()

        def repeat() -> None:
            while not over.is_set():
                dear()

        threads = [threading.Thread(target=repeat, daemon=True) for _ in range(args.dear)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        print(f"bob, while ann has {args.dear} dear previews going")
        bobs(bob, args.asked)
        over.set()


def _dear(url: str, token: str) -> None:
    body = json.dumps({"sql": QUESTION, "units": SIZES, "epsilons": BUDGETS}).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with suppress(OSError):  # one that takes too long is stopped
        urlopen(Request(f"{url}/v1/ask", body, headers), timeout=600).read()


if __name__ == "__main__":
    main()
