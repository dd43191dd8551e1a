"""A service under load for a long time: whether its memory grows.

    python benchmarks/soak.py [--minutes 30] [--clients 4] [--workers 2]

Clients ask releases, previews, dummy rows, and what is refused, one after another without a pause. The memory of
each of the service's processes that no other shares (Pss, on Linux) is read twice a minute. What it takes at first is
not growth: tables are opened, plans remembered, and the allocator keeps what was free. So the last third is compared
with the second, in which nothing new is asked.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import median

from _service import registry, served
from serve import DP, QUESTIONS

from sfumato.client import Client, connect
from sfumato.errors import SfumatoError

EVERY = 30  # seconds
REFUSED = [
    "SELECT id FROM visits",
    "SELECT WITH DIFFERENTIAL_PRIVACY",
    f"{DP} SUM(error('x')) AS s FROM visits",
    f"{DP.replace('epsilon = 1', 'epsilon = 1e300')} COUNT(*) AS n FROM visits",
]


def asking(client: Client, first: int, until: float, done: Counter[str]) -> None:
    """Ask until a time; each question with another epsilon than the one before, as analysts do."""
    number = first
    while time.monotonic() < until:
        number += 1
        text = QUESTIONS[number % len(QUESTIONS)].replace("epsilon = 1", f"epsilon = 1.{number % 97:02}")
        kind = ("release", "release", "release", "ask", "dummy", "refused")[number % 6]
        try:
            if kind == "ask":
                client.ask(text, units=[1000])
            else:
                asked = REFUSED[number % len(REFUSED)] if kind == "refused" else text
                client.sql(asked, dummy=kind == "dummy").to_arrow()
        except SfumatoError:
            kind = "refused" if kind == "refused" else "FAILED"
        done[kind] += 1


def memory(pid: int) -> dict[str, float]:
    """Return MB of a process and its children, by name: the service itself, then its workers."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = {}
    for number, one in enumerate([str(pid), *children]):
        lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        (pss,) = (line for line in lines if line.startswith("Pss:"))
        command = Path(f"/proc/{one}/cmdline").read_bytes()
        name = "service" if number == 0 else f"worker {one}" if b"spawn_main" in command else f"helper {one}"
        found[name] = int(pss.split()[1]) / 1024
    return found


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--minutes", type=float, default=30)
    given.add_argument("--clients", type=int, default=4)
    given.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    args = given.parse_args()
    names = [f"analyst{number}" for number in range(args.clients)]
    done, seen = Counter[str](), list[dict[str, float]]()
    with served(registry(), ["--workers", str(args.workers)], names) as service:
        began = time.monotonic()
        until = began + 60 * args.minutes
        clients = [
            threading.Thread(target=asking, args=(connect(service.url, token), 7 * number, until, done))
            for number, token in enumerate(service.tokens)
        ]
        for one in clients:
            one.start()
        while time.monotonic() < until:
            time.sleep(min(EVERY, max(0.1, until - time.monotonic())))
            seen.append(memory(service.pid))
            told = ", ".join(f"{name} {mb:.1f}" for name, mb in seen[-1].items())
            print(f"{time.monotonic() - began:6.0f} s  {sum(done.values()):6} asked  MB: {told}", flush=True)
        for one in clients:
            one.join()
        lines = len(service.ledger.journal.lines())
        print(f"{dict(done)}; {lines} lines of the journal, verified: {service.ledger.journal.verify().ok}")
    third = len(seen) // 3
    for name in seen[-1]:
        of = [one.get(name) for one in seen]
        if None in of:
            print(f"{name}: began in the middle")
            continue
        first, second, last = (median(of[i * third : (i + 1) * third]) for i in range(3))
        print(
            f"{name}: {of[0]:.1f} MB at first, thirds {first:.1f}, {second:.1f}, {last:.1f}: {last - second:+.1f} MB"
        )


if __name__ == "__main__":
    main()
