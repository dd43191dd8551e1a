"""A server of PostgreSQL that is killed while a ledger on it is spent from.

`python benchmarks/ledger_server.py 1000` starts a server of its own (Debian's package postgresql; a compiler of C)
and kills, by a real SIGKILL, so many times each:

- whichever of its processes makes a certain one of its next writes to disk: before it, after it, and where half of it
  is done; the server then ends all of its processes, and recovers;
- the process that answers the one who spends, at any time;
- and, a tenth as often, the server itself, at any time, which is then started anew.

After each the ledger must have what was shown, at most one question more, and sums that are those of its entries.
"""

from __future__ import annotations

import glob
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ledger import AMOUNT, check, held, make, preloaded

import sfumato as sf
from sfumato.errors import EngineError

MAX = 40  # spends, of one that is to be killed


class Server:
    """A server of PostgreSQL whose processes count what they write.

    Args:
        folder: of its data, its socket, and the library that kills.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = f"postgresql://ann@/postgres?host={folder}"
        self._user = "nobody" if os.getuid() == 0 else None  # it does not run for root
        environment = preloaded(str(folder))
        assert environment is not None, "it needs a compiler of C, on Linux"
        counts = folder / "kill"
        counts.write_bytes(bytes(8))
        for one in (folder, folder / "writes.so", counts):
            if self._user is not None:
                shutil.chown(one, self._user)
        self._environment = environment | {"SFUMATO_KILL": str(counts)}
        with counts.open("r+b") as file:
            self._counts = mmap.mmap(file.fileno(), 8)
        self._run("initdb", "-A", "trust", "-U", "ann", "--no-sync", "-E", "UTF8", "--locale=C")
        self.start()

    def start(self) -> None:
        """Start it, as soon as the processes of one that was killed are gone."""
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}'"
        for _ in range(300):
            with suppress(subprocess.CalledProcessError):
                return self._run("pg_ctl", "-w", "-l", f"{self.folder}/log", "-o", options, "start")
            time.sleep(0.1)
        raise SystemExit("the server does not start")

    def stop(self) -> None:
        """End it."""
        self._run("pg_ctl", "-m", "immediate", "-w", "stop")

    def arm(self, writes: int, when: int) -> None:
        """Have the process killed that makes a certain one of the next writes: before, after, or in half."""
        self._counts[:] = struct.pack("ii", writes, when)

    def disarm(self) -> bool:
        """Kill nobody; return whether somebody was killed."""
        left, _ = struct.unpack("ii", self._counts[:])
        self.arm(0, 0)
        return bool(left <= 0)

    @property
    def pid(self) -> int:
        """The server itself."""
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def spender(self) -> int | None:
        """Return the process that answers whoever is connected, where somebody is."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        for one in children:
            with suppress(OSError):
                if b"ann postgres" in Path(f"/proc/{one}/cmdline").read_bytes():
                    return int(one)
        return None

    def _run(self, name: str, *options: str) -> None:
        (where,) = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))[-1:] or [name]
        environment = self._environment if "start" in options else None
        subprocess.run(
            [where, "-D", f"{self.folder}/data", *options], env=environment, user=self._user, cwd=self.folder,
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


@contextmanager
def server() -> Iterator[Server]:
    """Start a server, and end it."""
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:
        made = Server(Path(folder))
        try:
            yield made
        finally:
            made.stop()


def spent(place: str) -> int:
    """Spend until the server is gone; return how often it was shown that it is spent."""
    shown = 0
    with suppress(EngineError):
        budget = sf.Ledger(place).budget("d", analyst="ann")
        for _ in range(MAX):
            budget.spend(AMOUNT)
            shown += 1
    return shown


def again(place: str, before: int, shown: int) -> int:
    """Return what the ledger has, once the server is there again; see `check`."""
    until = time.monotonic() + 60
    while True:
        try:
            return check(place, before, shown, MAX)
        except EngineError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def at_writes(made: Server, kills: int, count: int) -> tuple[int, int]:
    """Kill so many of its processes at a write; return what the ledger has, and how many were killed."""
    killed = 0
    for number in range(kills):
        made.arm(1 + number // 3 % 60, number % 3)
        shown = spent(made.place)
        killed += made.disarm()
        count = again(made.place, count, shown)
    return count, killed


def at_any_time(
    made: Server, kills: int, count: int, chosen: random.Random, *, whole: bool
) -> tuple[int, int]:
    """Kill who answers, or the whole server, while it is spent from; return the same."""
    killed = 0
    for _ in range(kills):
        shown: list[int] = []
        client = threading.Thread(target=lambda shown=shown: shown.append(spent(made.place)))
        client.start()
        time.sleep(chosen.uniform(0, 0.2))
        found = made.pid if whole else made.spender()
        if found is not None:
            with suppress(ProcessLookupError):
                os.kill(found, signal.SIGKILL)
                killed += 1
        client.join()
        if whole:
            made.start()
        count = again(made.place, count, shown[0])
    return count, killed


def run(made: Server, kills: int, chosen: random.Random) -> dict[str, int]:
    """Kill in all ways; return how many were killed in each."""
    make(made.place)
    count, writes = at_writes(made, kills, held(made.place))
    count, processes = at_any_time(made, kills, count, chosen, whole=False)
    count, servers = at_any_time(made, max(1, kills // 10), count, chosen, whole=True)
    ledger = sf.Ledger(made.place)
    ledger.check()
    assert ledger.journal.verify().ok
    assert held(made.place) == count == len(ledger.budget("d", analyst="ann").history)
    return {"at a write": writes, "who answers": processes, "the server": servers}


if __name__ == "__main__":
    began = time.perf_counter()
    with server() as started:
        print(run(started, int(sys.argv[1]), random.Random(5)), f"{time.perf_counter() - began:.0f} s")
