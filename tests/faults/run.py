"""Seeded faults: none of them is released.

`python tests/faults/run.py [words ...]` makes one fault after another, those with one of the words in their
name or file, or all; and names those that nothing finds. `--workers N` says how many processes do so.
"""

import argparse
import contextlib
import functools
import gc
import importlib
import io
import multiprocessing
import os
import pkgutil
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCE = ROOT / "src" / "sfumato"
AREAS = (
    "planning", "contributions", "mechanisms", "payment", "engines", "noise", "dialect", "expressions", "sources",
    "framework", "accounting", "ledger", "certificate", "service", "tolerances", "audit", "commands",
    "release", "guidance", "workers",
)  # fmt: skip
# Imported before processes are forked, once for all.
MODULES = ("pytest", "numpy", "pyarrow", "pyarrow.compute", "duckdb", "mpmath", "scipy.optimize", "gmpy2")
PACKAGES = (
    "advice", "api", "audit", "budget", "catalogs", "certificate", "cli", "client", "dialect", "display",
    "engines.duckdb", "exact", "framework", "guidance", "measurements", "noise",
    "plan", "query", "release", "service", "snapping", "testing", "transformations",
)  # fmt: skip
LONGEST = 900  # seconds of one fault
QUIET = (
    "-q",
    "-p",
    "no:randomly",
    "-p",
    "no:cacheprovider",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)


def faults() -> list[Any]:
    """Return all faults, in order."""
    return [fault for area in AREAS for fault in importlib.import_module(f"tests.faults.{area}").FAULTS]


# Code of functions, in place of that of modules that are imported.


def functions(code: CodeType, within: str = "") -> dict[tuple[str, int], CodeType]:
    """Return the functions of a module and of its classes, by name and by which of that name they are."""
    found: dict[tuple[str, int], CodeType] = {}
    for one in code.co_consts:
        if isinstance(one, CodeType):
            own = (
                {(f"{within}{one.co_name}", 0): one}
                if one.co_flags & 2
                else functions(one, f"{within}{one.co_name}.")
            )
            for (name, _), function in own.items():
                found[name, sum(other == name for other, _ in found)] = function
    return found


def outside(code: CodeType) -> tuple[Any, ...]:
    """Return what a module does beside its functions."""
    inner = [
        one if not isinstance(one, CodeType) else None if one.co_flags & 2 else outside(one)
        for one in code.co_consts
    ]
    return code.co_code, code.co_names, repr(inner)


def changed(fault: Any) -> dict[tuple[str, int], tuple[CodeType, CodeType]] | None:
    """Return the functions that a fault changes, without and with it; None where it changes more."""
    path = SOURCE / fault.file
    old, new = (compile(text, str(path), "exec") for text in (path.read_text(), fault.patched()))
    before, after = functions(old), functions(new)
    if outside(old) != outside(new) or before.keys() != after.keys():
        return None
    return {key: (one, after[key]) for key, one in before.items() if _meant(one) != _meant(after[key])}


def _meant(code: CodeType) -> tuple[Any, ...]:
    """Return what a function does, without its place."""
    inner = tuple(_meant(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, inner


def swapped(parts: dict[tuple[str, int], tuple[CodeType, CodeType]], file: str) -> None:
    """Give the functions of a module their code with a fault."""
    importlib.import_module("sfumato." + file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    for old, new in parts.values():
        here = [
            one for one in gc.get_objects() if isinstance(one, FunctionType)
            and one.__code__.co_filename == str(SOURCE / file)
            and (one.__code__.co_name, one.__code__.co_firstlineno) == (old.co_name, old.co_firstlineno)
        ]  # fmt: skip
        if not here:
            raise ValueError(f"{old.co_name} of {file} is no function of an imported module")
        for one in here:
            one.__code__ = new


_REPLACED: list[ModuleType] = []  # kept, as to collect their classes and functions may end the process


@contextlib.contextmanager
def source(fault: Any = None) -> Iterator[None]:
    """Import sfumato from a copy of the source, with a fault; to be used once in a process."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "sfumato"]:
        _REPLACED.append(sys.modules.pop(name))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(SOURCE, Path(folder) / "sfumato")
        if fault is not None:
            (Path(folder) / "sfumato" / fault.file).write_text(fault.patched())
        sys.dont_write_bytecode = True
        sys.path.insert(0, folder)
        os.environ["PYTHONPATH"] = folder
        yield


def tested(test: str) -> str:
    """Run a test, and return "failed", "passed", or what else it does; after "failed", the first one's name."""
    import pytest

    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        place = ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), str(ROOT / test)]
        status = pytest.main(["-x", "-m", "long or not long", *QUIET, *place])
    first = re.search(r"^(?:FAILED|ERROR) (\S+)", said.getvalue(), re.MULTILINE)
    if status == pytest.ExitCode.TESTS_FAILED:
        return f"failed {first[1] if first else ''}"
    return "passed" if status == pytest.ExitCode.OK else f"{status!r} {said.getvalue()[-300:]}"


def tested_with(fault: Any) -> str:
    """Run a fault's test, as `tested` does; from a copy of the source where workers in other processes read it."""
    parts = changed(fault)
    if parts is None or fault.elsewhere:
        with source(fault):
            return tested(fault.found)
    swapped(parts, fault.file)
    return tested(fault.found)


def verdict(fault: Any, before: dict[str, dict[str, str]], ran: dict[str, set[Any]]) -> str:
    """Return "" if a fault is found as its entry says, else what happens; in a process of its own.

    Args:
        fault: that is made.
        before: what questions give without it.
        ran: which functions each question runs.
    """
    from tests.faults.questions import outcomes

    if fault.tested:
        told = tested_with(fault)
        return "" if told.startswith("failed") else f"released, as {fault.found} does not fail: {told}"
    parts = changed(fault)
    if parts is None:
        with source(fault):
            return judged(fault, before, outcomes())
    swapped(parts, fault.file)
    places = {(str(SOURCE / fault.file), old.co_name, old.co_firstlineno) for old, _ in parts.values()}
    names = [name for name, own in ran.items() if own & places]
    return judged(fault, before, outcomes(names)) if names else "no question runs it"


def judged(fault: Any, before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> str:
    """Return "" if questions are refused, or provably within their claims, as the entry says."""
    moved = {name: own for name, own in after.items() if own != before[name]}
    refused = [name for name, own in moved.items() if "refused" in own]
    # What a release draws or pays is another, and its description does not say so.
    hidden = [
        name for name, own in moved.items()
        if "refused" not in own and own["described"] == before[name]["described"] != "null"
    ]  # fmt: skip
    late = [name for name in refused if after[name]["refused"].startswith("paid")]
    told = f"refused: {refused}, changed: {[name for name in moved if name not in refused]}"
    if hidden:
        return f"released, as its description does not show it: {hidden}; {told}"
    if late:
        return f"refused after it was paid: {late}"
    return told if bool(refused) is fault.harmless or not moved else ""


def _forked(work: Callable[[], Any]) -> Any:
    """Return what a function gives in a process of its own, or why it gives nothing."""
    ours, theirs = multiprocessing.get_context("fork").Pipe()
    child = os.fork()
    if not child:
        signal.alarm(LONGEST)
        try:
            found = work()
        except BaseException as error:
            found = f"{type(error).__name__}: {error}"
        theirs.send(found)
        os._exit(0)
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        return "it ends without an answer"
    finally:
        os.waitpid(child, 0)


def followed() -> tuple[dict[str, dict[str, str]], dict[str, set[Any]]]:
    """Return what questions give without a fault, and which functions each runs."""
    from tests.faults.questions import QUESTIONS, outcomes

    ran: dict[str, set[Any]] = {}
    found: dict[str, dict[str, str]] = {}
    for name in QUESTIONS:
        seen: set[Any] = set()

        def profile(frame: Any, event: str, _: Any, seen: set[Any] = seen) -> None:
            code = frame.f_code
            while (
                event == "call" and frame is not None and "<" in code.co_name
            ):  # of what is within a function
                frame = frame.f_back
                code = frame.f_code if frame is not None else code
            seen.add((code.co_filename, code.co_name, code.co_firstlineno))

        sys.setprofile(profile)
        try:
            found |= outcomes([name])
        finally:
            sys.setprofile(None)
        ran[name] = {one for one in seen if one[0].startswith(str(SOURCE))}
    return found, ran


def passes(test: str) -> str:
    """Return "" if a test passes without a fault, else what it does."""
    with source():
        told = tested(test)
    return "" if told == "passed" else f"without a fault: {told}"


def main(arguments: list[str]) -> int:
    """Make faults, and return 1 if one is not found."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("words", nargs="*")
    options.add_argument("--workers", type=int, default=1)
    options.add_argument(
        "--trusting", action="store_true", help="do not check that tests pass without faults"
    )
    given = options.parse_args(arguments)
    prepare()
    asked = [f for f in faults() if not given.words or any(w in f"{f.file} {f.name}" for w in given.words)]
    baseline = ({}, {}) if all(fault.tested for fault in asked) else _forked(followed)
    if isinstance(baseline, str) or any("refused" in own for own in baseline[0].values()):
        print("Without a fault:", baseline if isinstance(baseline, str) else baseline[0])
        return 1
    start = time.monotonic()
    jobs = [(f"{f.file}: {f.name}", functools.partial(verdict, f, *baseline)) for f in asked]
    if not given.trusting:
        tests = sorted({f.found for f in asked if f.tested})
        jobs += [(test, functools.partial(passes, test)) for test in tests]
    failed = 0
    for name, told in zip(
        [name for name, _ in jobs], in_processes([job for _, job in jobs], given.workers), strict=True
    ):
        if told:
            failed += 1
            print(f"{name}\n    {told}", flush=True)
    print(
        f"{len(asked)} faults in {time.monotonic() - start:.0f} s; {failed} that nothing finds, or not as said"
    )
    return int(failed > 0)


def prepare() -> None:
    """Import all that processes need, once: the modules of sfumato too, but for what they do when they run."""
    for name in MODULES:
        importlib.import_module(name)
    sys.path.insert(0, str(SOURCE.parent))
    for package in PACKAGES:
        home = importlib.import_module(f"sfumato.{package}")
        for module in pkgutil.walk_packages(home.__path__, f"{home.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    importlib.import_module("tests.faults.questions")


def in_processes(jobs: list[Callable[[], str]], workers: int) -> Iterator[str]:
    """Yield what each job gives, in order; some run at once, each in processes of its own."""
    from concurrent.futures import ThreadPoolExecutor

    if workers == 1:
        yield from (_forked(job) for job in jobs)
        return
    with ThreadPoolExecutor(workers) as pool:  # of threads that wait for processes
        yield from pool.map(_forked, jobs)


def tests_are_here() -> None:
    """Let `tests` be the folder of this checkout, whatever packages have that name, and leave this one alone."""
    sys.path[:] = [place for place in sys.path if Path(place) != HERE]
    tests = ModuleType("tests")
    tests.__path__ = [str(ROOT / "tests")]
    sys.modules["tests"] = tests


if __name__ == "__main__":
    tests_are_here()
    sys.exit(main(sys.argv[1:]))
