"""Processes that are killed while they spend from a ledger, and what a spend takes.

`python benchmarks/ledger.py kills 1000 [PLACE]` kills so many processes in each way that there is, by a real
SIGKILL:

- at a call: each call and return of a function, of Python or of C, that a spend makes is counted;
- at a system call by which SQLite writes: before it, after it, and where half of a write is done (a library of
  C, for which it needs a compiler and to be started by itself with LD_PRELOAD);
- at any time, from outside.

After each the ledger is opened anew. It must have what was shown, at most one question more, sums that are those
of its entries, and be there for the next one. `python benchmarks/ledger.py speed [PLACE]` times spends.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import sfumato as sf

AMOUNT = Fraction(1, 10**9)

WRITES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
struct armed { int left, when; };  /* when: 0 before, 1 after, 2 in the middle */
static struct armed own = {-1, 0}, *all = &own;
void arm(int calls, int how) { own.left = calls; own.when = how; }
static void end(void) { kill(getpid(), SIGKILL); for (;;) pause(); }
/* All processes of a server count together, in a file that they share. */
__attribute__((constructor)) static void shared(void) {
  const char *p = getenv("SFUMATO_KILL");
  int f = p ? open(p, O_RDWR) : -1;
  if (f < 0) return;
  void *m = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
  if (m != MAP_FAILED) all = m;
  close(f);
}
static int now(void) { return all->left > 0 && __sync_sub_and_fetch(&all->left, 1) == 0; }
#define when (all->when)
ssize_t pwrite64(int f, const void *b, size_t n, off_t o) {
  ssize_t (*real)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite64");
  if (now()) {
    if (when == 1) real(f, b, n, o);
    if (when == 2) real(f, b, n / 2, o);
    end();
  }
  return real(f, b, n, o);
}
ssize_t pwrite(int f, const void *b, size_t n, off_t o) { return pwrite64(f, b, n, o); }
ssize_t pwritev64(int f, const struct iovec *v, int n, off_t o) {
  ssize_t (*real)(int, const struct iovec *, int, off_t) = dlsym(RTLD_NEXT, "pwritev64");
  if (now()) {
    if (when == 1) real(f, v, n, o);
    if (when == 2) pwrite64(f, v->iov_base, v->iov_len / 2, o);
    end();
  }
  return real(f, v, n, o);
}
ssize_t pwritev(int f, const struct iovec *v, int n, off_t o) { return pwritev64(f, v, n, o); }
/* A server's: counted, and not done, as what a killed process has written is not lost. */
#define ONE(name) int name(int f) { int (*real)(int) = dlsym(RTLD_NEXT, #name); \
  if (now()) { if (when == 1 && all == &own) real(f); end(); } return all == &own ? real(f) : 0; }
ONE(fsync)
ONE(fdatasync)
int unlink(const char *p) {
  int (*real)(const char *) = dlsym(RTLD_NEXT, "unlink");
  if (now()) { if (when == 1) real(p); end(); }
  return real(p);
}
"""


def make(place: str) -> None:
    ledger = sf.Ledger(place)
    ledger.create("d", epsilon=1000)
    ledger.grant("d", "ann", epsilon=500)


def held(place: str) -> int:
    """Return how many questions a ledger has, by both accounts and by their lifetime."""
    found = {
        account.totals[0][0] / AMOUNT
        for kept in sf.Ledger(place).accounts("d")
        for account in (kept.account, kept.lifetime)
    }
    (count,) = found
    return int(count)


def killed(place: str, arm: Any, spends: int = 1, after: float | None = None) -> tuple[bool, int]:
    """Fork a process that spends; return whether it was killed, and how many spends it showed.

    Args:
        place: of the ledger.
        arm: is called in the child before the first spend, and has it killed at some time.
        spends: how many there are to be.
        after: seconds, from when the child begins to spend, after which it is killed from here.
    """
    return ended(*begun(place, arm, spends), after)


def begun(place: str, arm: Any, spends: int = 1) -> tuple[int, int]:
    """Fork a process that spends, as `killed`; return it, and the pipe in which it shows what it has spent."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            budget = sf.Ledger(place).budget("d", analyst="ann")
            os.write(writer, b"r")
            arm()
            for _ in range(spends):
                budget.spend(AMOUNT)
                os.write(writer, b"s")  # where noise would be drawn
            sys.setprofile(None)
        finally:
            os._exit(0)
    os.close(writer)
    return child, reader


def ended(child: int, reader: int, after: float | None = None) -> tuple[bool, int]:
    """Wait for what `begun` gave, or kill it; return what `killed` does."""
    with os.fdopen(reader, "rb") as pipe:
        if after is not None:
            pipe.read(1)
            time.sleep(after)
            os.kill(child, signal.SIGKILL)
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), status
    return status == signal.SIGKILL, said.count(b"s")


def at_call(step: int) -> Any:
    """Return what kills a process at a step of its next calls."""

    def arm() -> None:
        left = step

        def count(*_: Any) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(count)

    return arm


def at_write(step: int, when: int) -> Any:
    """Return what kills a process at a system call: before, after, or in the middle of it."""
    return lambda: ctypes.CDLL(None).arm(step, when)


def seconds(place: str) -> float:
    """Return what a process that spends once takes, and a look at the ledger."""
    began = time.perf_counter()
    killed(place, lambda: None)
    held(place)
    return time.perf_counter() - began


def steps(place: str) -> int:
    """Return how many calls and returns a spend makes."""
    low, high = 0, 1
    while killed(place, at_call(high))[0]:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if killed(place, at_call(middle))[0] else (low, middle)
    return high


def check(place: str, before: int, shown: int, spends: int = 1, killed: int = 1) -> int:
    """Return what a ledger has now.

    Args:
        before: what it had.
        shown: how many spends were shown since.
        spends: how many there were to be.
        killed: how many processes were killed at once.
    Raises:
        AssertionError: less than was shown, or more than one beyond it for each that was killed.
    """
    now = held(place)
    assert before + shown <= now <= before + min(shown + killed, spends), (before, shown, now)
    return now


def together(place: str, count: int, arms: Sequence[Any]) -> tuple[int, int]:
    """Have processes killed that spend at once; return what the ledger has then, and how many were killed."""
    children = [begun(place, arm) for arm in arms]
    told = [ended(*one) for one in children]
    many = sum(was for was, _ in told)
    return check(place, count, sum(shown for _, shown in told), len(arms), many), many


def with_writes() -> bool:
    return hasattr(ctypes.CDLL(None), "arm")


def preloaded(folder: str) -> dict[str, str] | None:
    """Compile the library; return the environment that loads it, or None where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    source, library = Path(folder, "writes.c"), Path(folder, "writes.so")
    source.write_text(WRITES)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return os.environ | {"LD_PRELOAD": str(library)}


def run(kills: int, place: str, chosen: random.Random, ways: str = "cwt") -> dict[str, int]:
    """Kill so many processes in each way; return how many were."""
    done = {"at a call": 0, "at a write": 0, "at any time": 0}
    count = held(place)
    if "c" in ways:
        every = steps(place)
        count = held(place)
        print(f"a spend makes {every} calls and returns", flush=True)
        for i in range(kills):
            was, shown = killed(place, at_call(i * every // kills if kills < every else i % every))
            count = check(place, count, shown)
            done["at a call"] += was
    if "w" in ways and with_writes():
        for i in range(kills):
            was, shown = killed(place, at_write(1 + i // 3 % 80, i % 3), spends=3)
            count = check(place, count, shown, 3)
            done["at a write"] += was
    if "t" in ways:
        for _ in range(kills):
            was, shown = killed(place, lambda: None, spends=10**6, after=chosen.uniform(0, 0.1))
            count = check(place, count, shown, 10**6)
            done["at any time"] += was
    ledger = sf.Ledger(place)
    ledger.check()
    budget = ledger.budget("d", analyst="ann")
    budget.spend(AMOUNT)
    assert held(place) == count + 1 == len(budget.history)
    return done


def speed(place: str, spends: int = 200) -> None:
    budget = sf.Ledger(place).budget("d", analyst="ann")
    times = []
    for _ in range(spends):
        began = time.perf_counter()
        budget.spend(AMOUNT)
        times.append(time.perf_counter() - began)
    times.sort()
    print(f"a spend takes {1000 * times[spends // 2]:.1f} ms in the median, {1000 * times[-2]:.1f} at most")


def main() -> None:
    what, arguments = sys.argv[1], sys.argv[2:]
    kills = int(arguments.pop(0)) if what == "kills" else 0
    with tempfile.TemporaryDirectory() as folder:
        environment = None if with_writes() or arguments else preloaded(folder)
        if what == "kills" and environment is not None:
            sys.exit(
                subprocess.run(
                    [sys.executable, __file__, *sys.argv[1:]], env=environment, check=False
                ).returncode
            )
        place = arguments[0] if arguments else f"{folder}/budget.db"
        make(place)
        if what == "kills":
            began = time.perf_counter()
            print(
                run(kills, place, random.Random(7), "ct" if arguments else "cwt"),
                f"{time.perf_counter() - began:.0f} s",
            )
        else:
            speed(place)


if __name__ == "__main__":
    main()
