"""What DuckDB may take of a machine: memory before it spills, threads, and the folder that it spills to."""

from __future__ import annotations

import os
import re
from fractions import Fraction
from functools import cache
from pathlib import Path

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, QueryError
from sfumato.exact.rationals import positive_int

# Of the machine's memory, or the container's, where nobody says otherwise: DuckDB's own share.
SHARE = Fraction(4, 5)
# With less DuckDB stops at queries whose rows it could spill.
LEAST_BYTES = 100 * 10**6
_UNITS = {"b": 1} | {
    prefix + ending: base**power
    for power, prefix in enumerate("kmgt", 1)
    for ending, base in (("b", 1000), ("ib", 1024))
}
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*(%|[kmgt]?i?b)", re.IGNORECASE)
_AMOUNTS = "at least 100MB, such as '4GB' or '512MiB', or a share of the machine's memory, such as '50%'"
_CGROUPS, _OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


@dataclass(frozen=True)
class Resources:
    """What one source may take of this machine; nothing of a release's numbers follows from it.

    Args:
        memory_bytes: DuckDB's, beyond which it spills; None for a share of what there is.
        threads: None for one for each core.
        temp_directory: an existing folder to spill in; None for the folder of temporary files.
    """

    memory_bytes: int | None = None
    threads: int | None = None
    temp_directory: str | None = None

    @property
    def settings(self) -> dict[str, str | int]:
        """DuckDB's settings, but for the folder, which is made in `temp_directory`."""
        memory = int(SHARE * machine_memory()) if self.memory_bytes is None else self.memory_bytes
        return {"memory_limit": f"{memory}B"} | ({} if self.threads is None else {"threads": self.threads})


DEFAULTS = Resources()


def checked_resources(memory_limit: object, threads: object, temp_directory: object) -> Resources:
    """Take what a user says; None leaves it to the machine.

    Raises:
        ParameterError: an amount is none, or too small; the folder is not there or not to be written to.

    >>> checked_resources("4GB", 2, None)
    Resources(memory_bytes=4000000000, threads=2, temp_directory=None)
    """
    return Resources(
        None if memory_limit is None else _memory_bytes(memory_limit),
        None if threads is None else positive_int(threads, "threads"),
        None if temp_directory is None else _folder(temp_directory),
    )


def refuse_resources(memory_limit: object, threads: object, temp_directory: object, source: str) -> None:
    """Refuse them for rows that are read elsewhere.

    Raises:
        QueryError: one is given.
    """
    given = {"memory_limit": memory_limit, "threads": threads, "temp_directory": temp_directory}
    for name, value in given.items():
        if value is not None:
            raise QueryError(
                f"{name} is for rows that are read in this process; those of {source} are read by workers, "
                "which have limits of their own. Leave it out"
            )


def _memory_bytes(value: object) -> int:
    found = _AMOUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise ParameterError("memory_limit", value, _AMOUNTS)
    number, unit = Fraction(found[1]), found[2].lower()
    amount = number * machine_memory() / 100 if unit == "%" else number * _UNITS.get(unit, 0)
    if amount < LEAST_BYTES or (unit == "%" and number > 100):
        raise ParameterError("memory_limit", value, _AMOUNTS)
    return int(amount)


def _folder(value: object) -> str:
    if isinstance(value, (str, os.PathLike)):
        path = os.fspath(value)
        # NUL, of which no path has one, would be an error of the system's.
        if isinstance(path, str) and "\0" not in path and os.path.isdir(path):
            path = os.path.abspath(path)
            if os.access(path, os.R_OK | os.W_OK | os.X_OK):
                return path
    raise ParameterError("temp_directory", value, "a folder that is there and that you may write to")


@cache
def machine_memory() -> int:
    """Return the memory of this machine, or of its container where that is less, in bytes."""
    try:
        found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, OSError, ValueError):
        return 4 << 30
    for path in _limits():
        try:
            found.append(int(path.read_text()))
        except (OSError, ValueError):  # not there, or "max"
            continue
    return min(found)


def _limits() -> list[Path]:
    """Return files that may hold a limit: of this process's control groups, and of those around them."""
    found = [_CGROUPS / "memory.max", _CGROUPS / "memory" / "memory.limit_in_bytes"]
    try:
        lines = _OWN_GROUPS.read_text().splitlines()
    except (OSError, UnicodeError):
        return found
    for line in lines:
        _, kinds, own = [*line.split(":", 2), "", ""][:3]
        root, file = _CGROUPS, "memory.max"
        if kinds:  # of the first version
            if "memory" not in kinds.split(","):
                continue
            root, file = _CGROUPS / "memory", "memory.limit_in_bytes"
        place = root / own.lstrip("/")
        found += [around / file for around in (place, *place.parents) if around.is_relative_to(root)]
    return found
