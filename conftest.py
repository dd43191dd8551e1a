"""What holds for every test, those in docs and docstrings too.

It leaves the process as it found it. Tests run in random order, so a setting of the whole process that one of
them leaves behind fails another one, in some orders only. Here it fails the test, or the module when it is
imported, that changed it.

And it says with which probability the noise that it meets makes it fail on correct code.
"""

from __future__ import annotations

import compileall
import decimal
import gc
import importlib.util
import locale
import logging
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import gmpy2
import mpmath
import numpy as np
import pyarrow as pa
import pytest

# Where pytest imports a module from its path, for its docstrings, before the package does, there may be two
# of it, or it takes the place of a function of the same name.
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import none

import sfumato.client.remote_tables
import sfumato.measurements
import sfumato.release.release  # noqa: F401

# How long an example takes on a busy machine is no matter of right or wrong.
settings.register_profile("any_machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any_machine")

# Set by pytest, by the session of Spark that all tests share, by Polars when it is imported.
_OWN = ("PYTEST_", "SPARK_", "PYSPARK_", "_RJEM_")
_SPARKS_FILES = "/userFiles-"

# Where no bytecode is written, each worker and each program that a test starts compiles all anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give all processes of a run one folder for temporary files, also those of programs that tests start.

    What nobody else removes, as of a browser that is killed, goes with it. Folders of `tmp_path` stay.
    """
    if hasattr(config, "workerinput"):
        return  # of pytest-xdist: it is given that of its controller
    patch = pytest.MonkeyPatch()
    if "PYTEST_DEBUG_TEMPROOT" not in os.environ:
        patch.setenv("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix="sfumato-tests-")
    os.chmod(folder, 0o711)  # PostgreSQL's server is another user
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    patch.setenv("TMPDIR", folder)
    patch.setattr(tempfile, "tempdir", folder)
    config.add_cleanup(patch.undo)


def settings() -> dict[str, Any]:
    """Return what every part of the process computes with.

    Not here, as pytest puts them back itself: warning filters. Nor generators of random numbers, which are
    seeded anew for each test.
    """
    gmp, dec = gmpy2.get_context(), decimal.getcontext()
    found = {
        "mpmath.mp.prec": mpmath.mp.prec,
        "mpmath.iv.prec": mpmath.iv.prec,
        "gmpy2.get_context()": {name: getattr(gmp, name) for name in _GMP},
        "decimal.getcontext()": {name: getattr(dec, name) for name in _DECIMAL} | {"traps": dict(dec.traps)},
        "numpy.geterr()": np.geterr() | {"call": np.geterrcall()},
        "numpy.get_printoptions()": np.get_printoptions(),
        "os.getcwd()": os.getcwd(),
        "os.environ": {name: value for name, value in os.environ.items() if not name.startswith(_OWN)},
        "sys.path": [place for place in sys.path if _SPARKS_FILES not in place],
        "sys.getrecursionlimit()": sys.getrecursionlimit(),
        "sys.getswitchinterval()": sys.getswitchinterval(),
        "locale.setlocale(LC_ALL)": locale.setlocale(locale.LC_ALL),
        "logging.disable": logging.root.manager.disable,
        "multiprocessing.get_start_method()": multiprocessing.get_start_method(allow_none=True)
        or multiprocessing.get_all_start_methods()[0],  # which it becomes when it is first asked for
    }
    if "matplotlib" in sys.modules:
        # As they are kept: its own way to read one takes as long as all the rest here, for each test.
        matplotlib = sys.modules["matplotlib"]
        matplotlib.get_backend()  # which it becomes when it is first asked for
        found["matplotlib.rcParams"] = dict(dict.items(matplotlib.rcParams))
    return found


_GMP = [
    name
    for name in dir(gmpy2.get_context())
    # Whether something was inexact so far is a flag that computing sets, and nothing computes with it.
    if name.endswith(("prec", "precision", "round", "emax", "emin", "subnormalize", "division", "complex"))
    or name.startswith("trap_")
    if not callable(getattr(gmpy2.context, name, None))
]
_DECIMAL = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def changes(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Say what differs; nothing where nothing does."""
    lines = []
    for name, was in before.items():
        now = after[name]
        if isinstance(was, dict):
            differing = [k for k in {**was, **now} if was.get(k, "missing") != now.get(k, "missing")]
            lines += [
                f"{name}, {k}: {was.get(k, 'missing')!r} -> {now.get(k, 'missing')!r}" for k in differing
            ]
        elif was != now:
            lines.append(f"{name}: {was!r} -> {now!r}")
    if not lines:
        return ""
    return "left behind, for all that runs later in this process:\n  " + "\n  ".join(lines)


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fail a test that changes a setting of the whole process for good."""
    log = logging.getLogger("sfumato")
    before, level, handlers = settings(), log.level, [*log.handlers]
    yield
    # An example that fails stops before its last line, which turns the log off.
    log.setLevel(level)
    log.handlers[:] = handlers
    if told := changes(before, settings()):
        pytest.fail(told, pytrace=False)


SERVICE = Path(__file__).parent / "tests" / "support" / "service.py"
PEOPLE, YEARS = 3_000, range(1984, 1989)


@pytest.fixture(scope="session")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    """Serve made-up visits to doctors, for the examples of the client."""
    spec = importlib.util.spec_from_file_location("local_service", SERVICE)
    assert spec is not None and spec.loader is not None
    local = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(local)
    visits = {"id": [i for i in range(PEOPLE) for _ in YEARS], "year": [*YEARS] * PEOPLE}
    visits |= {"age": [25 + i % 40 for i in visits["id"]], "docvis": [i % 7 for i in visits["id"]]}
    late = {"id": [*range(PEOPLE)], "year": [1988] * PEOPLE, "age": [64] * PEOPLE, "docvis": [1] * PEOPLE}
    own = {"privacy_unit": "id", "max_groups": 5, "max_rows": 5}
    columns = {
        "year": {"domain": [*YEARS]},
        "docvis": {"lower": 0, "upper": 30},
        "age": {"lower": 25, "upper": 64},
    }
    reform = {"year": [*YEARS], "reform": ["before"] * 3 + ["after"] * 2}
    declared = {
        "visits": own | {"source": pa.table(visits), "columns": columns},
        "late_visits": own | {"source": pa.table(late), "columns": columns},
        "reforms": {"source": pa.table(reform), "public": True},
    }
    service = local.LocalService(tmp_path_factory.mktemp("clinic"), 5, declared)
    with local.served(service) as url:
        yield service, url


@pytest.fixture(autouse=True)
def analyst(request: pytest.FixtureRequest) -> None:
    """Give the examples of the client a service, a token, and a budget of which nothing is spent."""
    if not isinstance(request.node, pytest.DoctestItem) or not request.node.name.startswith(
        "sfumato.client."
    ):
        return
    service, url = request.getfixturevalue("clinic")
    service.budgets.made.clear()
    names = request.getfixturevalue("doctest_namespace")
    patch = request.getfixturevalue("monkeypatch")
    for name, value in {"url": url, "token": service.secrets["ann"]}.items():
        patch.setitem(names, name, value)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail a module that changes such a setting when it is imported."""
    before = settings()
    report = yield
    if report.passed and (told := changes(before, settings())):
        report.outcome, report.longrepr = "failed", told
    return report


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, int, int]:
    """Start three processes for two cores where the second tier alone is run.

    Much of its time tests wait: for jobs of Spark, for programs that they start, for what they kill.
    """
    cores = yield
    return cores + (cores + 1) // 2 if config.option.markexpr == "long" else cores


def pytest_collection(session: pytest.Session) -> None:
    """Look for no garbage while modules are read: there is next to none, and looking takes time.

    In a fresh checkout the processes of pytest-xdist compile a share of all modules each, before each reads
    all of them. Tests are left out: pytest writes what their assertions tell into these.
    """
    gc.disable()
    if worker := getattr(session.config, "workerinput", None):
        number = int(worker["workerid"].removeprefix("gw"))
        folders = [Path(named) for named in session.config.args if Path(named).is_dir()]
        modules = sorted({module for folder in folders for module in folder.rglob("*.py")})
        for module in modules[number :: worker["workercount"]]:
            if not module.name.startswith("test_"):
                compileall.compile_file(module, quiet=2)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Look no more for garbage in what modules hold: it takes a twentieth of the time, and finds none.

    Hypothesis registers a generator at the first example, and warns where the garbage collector sees nothing
    that holds it: on Python 3.14 it would see nothing after this.
    """
    gc.enable()
    given(none())(lambda _: None)()
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let Python clean up when it ends, as ever."""
    gc.unfreeze()


SHOWN = "it shows whether, and in which shape, something comes"
# Examples with fresh noise in docs and docstrings, where no marker can stand: k and why, or why none matters.
EXAMPLES: dict[str, tuple[int, str] | str] = {
    "audit.md": (15, "alpha of the one audit with fresh noise"),
    "beam.md": (100, "noise of scale 4 or less against 2000 people in each group"),
    "catalog.md": (
        100,
        "noise of scale 0.01 or less moves no mean of 1000 people by 0.005; else what is shown has none",
    ),
    "notebooks.md": (100, "noise of scale 2 or less moves no count of 2000 people by 300"),
    "choosing.md": (
        15,
        "noise of 50 of 40,000 people or less moves shares of 0.71 and 0.83 by 0.01, and 1 in 6 by 0.05; of "
        "scale 12 or less, against 3,333 of 20,000 people with each number of groups",
    ),
    "budget.md": "all bounds that looks find give answers that fit the rest of the share, and are paid alike",
    "framework.md": SHOWN,
    "many_tables.md": SHOWN,
    "journal.md": "what was asked is shown, no answer",
    "logging.md": "what is logged is shown, no answer",
    "ledger.md": "what is spent is shown, no answer",
    "measurements.md": (18, "noise of scale 22 against 990, three times; a group of one person, at 1e-20"),
    "query.md": (100, "a Gaussian threshold of 80 with sigma 15 against 750 people"),
    "dummy.md": "shapes, notes and costs are shown",
    "receipts.md": "whether digests agree is shown, whatever the numbers are",
    "statistics.md": (
        20,
        "at epsilon 10 noise of scale 2 or less against hundreds of rows, and of scale 1.3 against 60",
    ),
    "sql.md": (100, "noise of scale 0.1 or less against thousands, in a ratio that is rounded to a tenth"),
    "totals.md": "keys are shown, and that whole or dyadic numbers add up, whatever they are",
    "surveys.md": (20, "noise of scale 0.007 takes a share of 0.66 to 1"),
    "sfumato.client.remote_tables.RemoteQuestion.release": "its columns, groups and cost are shown",
    "sfumato.client.remote_tables.RemoteTop.release": (
        100,
        "e^-262 that the end is drawn before 428 units, 393 below them",
    ),
    "sfumato.client.remote_release.RemoteRelease": "its columns and cost are shown",
    "sfumato.client.remote_release.RemoteRelease.errors": "widths alone are shown",
    "sfumato.client.remote_release.RemoteRelease.explain": "what is done is shown",
    "sfumato.client.remote_release.RemoteRelease.frame": "names of columns are shown",
    "sfumato.client.remote_release.RemoteRelease.receipt": "whether digests agree is shown",
    "sfumato.client.remote_release.RemoteRelease.to_arrow": "types of columns are shown",
    "sfumato.client.client.Client.sql": "its columns, groups and cost are shown",
    "sfumato.framework.combinators.postprocess": (100, "noise of scale 2 against a million"),
    "sfumato.framework.combinators.Odometer": (100, "noise of scale 2 against 1000"),
    "sfumato.measurements.group_selection.select_groups": (19, "a group of one person, at 1e-20"),
    "sfumato.budget.ledger.journal.Journal.publish": "what was asked is shown, no answer",
    "sfumato.advice.advise.advise": "exact epsilons alone are shown",
    "sfumato.api.table.Table.totals": "keys alone are shown",
    "sfumato.api.table.Table.union": (100, "noise of scale 1 moves no count of 4,000 people by 500"),
    "sfumato.api.question.Question.release": (21, "noise of scale 1 moves none of two counts by 51"),
    "sfumato.release.combined_releases.combine": "standard errors are shown",
    "sfumato.release.combined_releases.change": "names of columns are shown",
    "sfumato.release.combined_releases.read_release": "it is compared with itself",
    "sfumato.release.estimate_table.EstimateTable": "standard errors are shown",
    "sfumato.release.estimate_table.EstimateTable.errors": "widths alone are shown",
    "sfumato.release.estimate_table.EstimateTable.frame": "names of columns are shown",
    "sfumato.release.estimate_table.EstimateTable.to_arrow": "the number of rows is shown",
    "sfumato.release.noisy_table.NoisyTable": "it is compared with itself",
    "sfumato.release.noisy_table.NoisyTable.compare": "its confidence is shown",
    "sfumato.release.noisy_table.NoisyTable.errors": "widths alone are shown",
    "sfumato.release.noisy_table.NoisyTable.explain": "what is done is shown",
    "sfumato.release.noisy_table.NoisyTable.frame": "names of columns are shown",
    "sfumato.release.noisy_table.NoisyTable.plot": "the number of panels is shown",
    "sfumato.release.noisy_table.NoisyTable.share_of_total": "names of columns are shown",
    "sfumato.release.noisy_table.NoisyTable.to_arrow": "names of columns are shown",
    "sfumato.release.noisy_table.NoisyTable.write": "names of columns are shown",
    "sfumato.release.noisy_table.NoisyTable.canonical": "what is asked is shown",
    "sfumato.release.noisy_table.NoisyTable.receipt": "its cost and shape are shown",
    "sfumato.display.result_table.ResultTable.to_pandas": "what is said of the numbers is shown",
    "sfumato.display.result_table.ResultTable.to_polars": "types of columns are shown",
    "sfumato.display.result_table.ResultTable.__getitem__": "columns and rows have one set of numbers",
    "sfumato.release.receipt.Receipt.of_dict": "its cost is shown",
    "sfumato.release.receipt.Receipt.read": "whether digests agree is shown",
    "sfumato.release.receipt.Receipt.to_dict": "its cost, plan and shape are shown",
    "sfumato.release.receipt.Receipt.write": "its cost is shown",
    "sfumato.release.receipt.Receipt.certificate": "what it costs is shown",
    "sfumato.release.receipt.Verification": "names of columns are compared",
    "sfumato.release.receipt.Receipt.verify": "whether digests agree is shown",
    "sfumato.guidance.diagnostics.Diagnostics.findings": "limits alone are shown",
    "sfumato.guidance.diagnostics.Diagnostics.shifts": "the outputs alone are shown",
    "sfumato.guidance.diagnostics.Diagnostics.sentences": "limits alone are shown",
    "sfumato.guidance.diagnostics.Diagnostics.to_arrow": "names of columns are shown",
    "sfumato.guidance.diagnostics.Diagnostics.to_pandas": "limits alone are shown",
    "sfumato.api.question.Question.diagnose": "limits alone are shown",
    "sfumato.api.largest_groups.Top.release": (
        100,
        "e^-1000 that 3,000 units are drawn before 5,000, or 1,000 before 3,000",
    ),
    "sfumato.noise.random_words.pick": "there is one outcome",
    "sfumato.measurements.quantile_choice.joint_quantiles": (100, "scale 2 against millions"),
    "sfumato.measurements.candidate_selection.limited_top_k": (100, "e^-399 against the end, or of the end"),
    "sfumato.measurements.candidate_selection.top_k": (100, "scale 1/2 against a million"),
    "sfumato.measurements.candidate_selection.exponential_mechanism": (100, "scale 1/2 against a million"),
    "sfumato.measurements.candidate_selection.permute_and_flip": (100, "scale 2 against a million"),
    "sfumato.measurements.randomized_response.randomized_response": SHOWN,
    "sfumato.measurements.group_selection.Selected": "the two probabilities are 0 and 1",
    "sfumato.measurements.group_selection.TruncatedGeometric": "the two probabilities are 0 and 1",
    "sfumato.measurements.group_selection.GaussianThreshold": (100, "sigma 2 against 988"),
    "sfumato.measurements.group_selection.LaplaceThreshold": (100, "scale 1 against 985"),
    "sfumato.measurements.sparse_vector.AboveThreshold": (100, "scale 7 or less against 999,000"),
    "sfumato.measurements.sparse_vector.above_threshold": (100, "scale 7 or less against 999,000"),
    "sfumato.measurements.stratified_survey.StratifiedProportion": (
        28,
        "noise of scale 1/2 on 1,200 and 600 answers does not move an end of the interval by 0.02",
    ),
    "sfumato.measurements.stratified_survey.stratified_proportion": (
        100,
        "noise of scale 0.002 takes a share of 0.5 to 0 or 1",
    ),
    "sfumato.noise.random_words.bernoulli": SHOWN,
    "sfumato.noise.random_words.bernoulli_each": "the two probabilities are 0 and 1",
    "sfumato.noise.random_words.SecureWords": SHOWN,
    "sfumato.testing.repeated_release.release_mechanism": (
        30,
        "the bet's wealth grows steadily, and is at its goal after some 600 of 20,000 draws",
    ),
    "sfumato.testing.recorder.recording": "it shows the statistics without noise",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the examples."""
    for item in items:
        if isinstance(item, pytest.DoctestItem) and item.name in EXAMPLES:
            said = EXAMPLES[item.name]
            if isinstance(said, str):
                item.add_marker(pytest.mark.noise_cannot_matter(said))
            else:
                item.add_marker(pytest.mark.flakiness(k=said[0], because=said[1]))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how to get the order of this run again: pytest's own header is not shown by `-q`."""
    seed = getattr(config.option, "randomly_seed", "default")
    if seed != "default":
        terminalreporter.write_line(f"This order again: pytest --randomly-seed={seed}")
