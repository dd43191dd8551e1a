"""What tests of every room use."""

import fcntl
import glob
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule

LONG = bool(os.environ.get("SFUMATO_LONG"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave tests of the release check out, unless SFUMATO_LONG asks for them."""
    if not LONG:
        items[:] = [item for item in items if not item.get_closest_marker("release")]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no examples in docstrings of tests: there are none, as `test_structure.py` sees to."""
    return [found for found in (yield) if not isinstance(found, DoctestModule)]


@pytest.fixture(autouse=True)
def no_plan_is_remembered() -> None:
    """A test that plants a defect in a formula would else be given a plan from before."""
    if planning := sys.modules.get("sfumato.plan.planning"):
        planning._choose_plan.cache_clear()


@pytest.fixture
def in_child() -> Callable[[Callable[[], Any]], Any]:
    """Return what runs a function in a forked child, and brings back what it returns, or the error's type and text.

    The child ends at once, without clean-up. One that hangs, as on a lock that nobody gives back, is ended by an
    alarm, and fails the test.
    """
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    return _in_child


def _in_child(function: Callable[[], Any]) -> Any:
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's own, of forks beside threads
        child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            os.close(reader)
            try:
                told = function()
            except Exception as error:
                told = type(error), str(error)
            with os.fdopen(writer, "wb") as pipe:
                pickle.dump(told, pipe)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}"
    return pickle.loads(said)


class Fork:
    """A fork in the middle of a function, as of a handler of a signal: the child stands where its parent does."""

    def here(self) -> None:
        """Fork; the parent goes on when the child has ended."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child:
            os.waitpid(child, 0)
        else:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)

    def told(self, function: Callable[[], Any], refusal: type[Exception]) -> tuple[str, str]:
        """Run a function that forks; return how it ended in the child, and in the parent."""
        parent, (reader, writer) = os.getpid(), os.pipe()
        told = "went on"
        try:
            function()
        except refusal:
            told = "refused"
        finally:
            if os.getpid() != parent:
                os.write(writer, told.encode())
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "r") as pipe:
            return pipe.read(), told


@pytest.fixture
def fork() -> Fork:
    """Return what forks in the middle of a function. A child that hangs is ended by an alarm, and tells nothing."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    return Fork()


def _binaries() -> str | None:
    found = shutil.which("initdb") or next(
        iter(sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))[::-1]), None
    )
    return os.path.dirname(found) if found else None


def _ran(folder: str, name: str, *options: str) -> None:
    """Run a program of PostgreSQL's, which does not run for root."""
    user = "nobody" if os.getuid() == 0 else None
    quiet = name == "initdb"
    subprocess.run([f"{_binaries()}/{name}", *options], user=user, cwd=folder, check=True, capture_output=quiet,
                   stdout=None if quiet else subprocess.DEVNULL)  # fmt: skip


@contextmanager
def _server() -> Any:
    folder = tempfile.mkdtemp(prefix="sfumato-test-")
    if os.getuid() == 0:
        shutil.chown(folder, "nobody")
    try:
        made = ("-A", "trust", "-U", "ann", "--no-sync", "-E", "UTF8", "--locale=C")
        _ran(folder, "initdb", "-D", f"{folder}/data", *made)
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        _ran(folder, "pg_ctl", "-D", f"{folder}/data", "-w", "-l", f"{folder}/log", "-o", options, "start")
        yield folder
    finally:
        _ran(folder, "pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder)


def _started() -> Iterator[str]:
    if _binaries() is None:
        pytest.skip("needs a PostgreSQL server: initdb in PATH, or Debian's package postgresql")
    with _server() as folder:
        yield folder


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """A server of PostgreSQL for all tests of a process: the folder of its socket. Its user is ann."""
    yield from _started()


@pytest.fixture
def mortal_server() -> Iterator[str]:
    """Another one, for a test that ends its processes."""
    yield from _started()


DOCS = Path(__file__).parent.parent / "docs"
# Without pages of source, which take a third of the time, and with one tree of pages for all pages of a folder.
EXTENSIONS = "myst_parser,sphinx.ext.autodoc,sphinx.ext.napoleon,one_tree"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of the documentation, built without a warning: once for all processes of a run."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    out, built = root / "site", root / "site.built"
    with (root / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # given back when it is closed, or its process ends
        if not built.exists():
            options = ["-W", "--keep-going", "-q", "-D", f"extensions={EXTENSIONS}", "-d", root / "doctrees"]
            command = [sys.executable, "-m", "sphinx", *options, DOCS, out]
            places = [str(Path(__file__).parent / "docs"), os.environ.get("PYTHONPATH", "")]
            found = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
            done = subprocess.run(command, env=found, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            built.touch()
    return out
