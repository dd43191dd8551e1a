"""The pytest plugin: the flakiness of tests and of the whole run, and fixtures for tests of releases.

Loaded by pytest in every environment where the package is installed, so it imports nothing itself
but `flakiness`, which is plain Python; the fixtures import what they need.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.testing.flakiness import (
    Account,
    check_count,
    check_k,
    log10_sum,
    probability_text,
    running,
)

if TYPE_CHECKING:
    from sfumato.noise import SeededWords
    from sfumato.testing.recorder import Recorder

PROPERTY = "sfumato_flakiness"
_LISTED = 3
_account = pytest.StashKey[Account]()
# Fixtures that took fresh random words when they were set up: each test that uses one has met the noise.
_noisy_fixtures = pytest.StashKey[set[object]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's settings: the default k of a test, and the k of a whole run."""
    parser.addini("flakiness_k", "k of the flakiness marker and fixture where none is given", default="23")
    parser.addini(
        "flakiness_run_k",
        "fail a run that may fail on correct code with more than 10^-k, and each test that met noise and "
        "does not state its probability",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the plugin's markers, and start to add up the run's flakiness."""
    config.addinivalue_line(
        "markers",
        "flakiness(k=23, assertions=None, because=None): on correct code the test fails with probability at "
        "most 10^-k, divided over the assertions of sfumato.testing in it, or as a whole for a stated reason",
    )
    config.addinivalue_line(
        "markers", "noise_cannot_matter(why): the test draws noise, but no noise makes it fail"
    )
    config.stash[_noisy_fixtures] = set()
    config.pluginmanager.register(_Session(_run_k(config)), "sfumato-flakiness-session")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Give the test its flakiness account while it runs, its fixtures included."""
    account = Account(item.nodeid, taken_before=_taken())
    item.stash[_account] = account
    with running(account):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Remember which pytest fixtures drew noise: those of a module do so in the first test alone."""
    before = _taken()
    try:
        return (yield)
    finally:
        if _taken() != before:
            request.config.stash[_noisy_fixtures].add(fixturedef)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Read the plugin's markers before any fixture runs.

    Raises:
        ParameterError: a k is not a number greater than 0, or a reason is missing; the test then errs.
    """
    account = item.stash[_account]
    for marker in item.iter_markers("flakiness"):
        _read_marker(marker, account, item.config)
        break
    for marker in item.iter_markers("noise_cannot_matter"):
        said = marker.args[0] if len(marker.args) == 1 and not marker.kwargs else None
        _reason(said, "noise_cannot_matter")
        account.whole = -math.inf
        break


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that drew noise without a stated flakiness, where the plugin's settings ask for it."""
    account = item.stash[_account]
    try:
        result = yield
    finally:
        used = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
        noisy = any(d in item.config.stash[_noisy_fixtures] for ds in used.values() for d in ds)
        account.fresh = noisy or _taken() != account.taken_before
    if account.uncounted and _run_k(item.config) is not None:
        pytest.fail(_UNCOUNTED, pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the test's flakiness into its last pytest report, where other processes find it too."""
    account = item.stash.get(_account, None)
    if call.when == "teardown" and account is not None and (account.made or account.fresh or account.whole):
        spent = None if math.isinf(account.log10) else account.log10
        told = {"assertions": account.made, "unknown": account.uncounted, "log10": spent}
        item.user_properties.append((PROPERTY, told | {"harmless": account.whole == -math.inf}))
    return (yield)


@pytest.fixture
def flakiness(request: pytest.FixtureRequest) -> Account:
    """The pytest fixture of the test's flakiness: `flakiness(k=23)`, or `flakiness.share()` for a share."""
    account: Account = request.node.stash[_account]
    if account.k is None:
        account.k = _default_k(request.config)
    return account


@pytest.fixture
def seeded_words(request: pytest.FixtureRequest) -> SeededWords:
    """The pytest fixture of random words seeded by the test's name, for `release(..., unsafe_words=...)`."""
    from sfumato.testing.recorder import seeded_words as words

    return words()


@pytest.fixture
def noise_free() -> Iterator[None]:
    """The pytest fixture with which releases in this test draw no noise."""
    from sfumato.testing.recorder import noise_free as without

    with without():
        yield


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """The pytest fixture of the true statistics of all releases drawn in this test."""
    from sfumato.testing.recorder import recording

    with recording() as made:
        yield made


class _Session:
    """Adds up the flakiness of all tests of a pytest run, from their reports."""

    def __init__(self, most_k: float | None) -> None:
        self.most_k = most_k
        self.tests: list[tuple[str, dict[str, Any]]] = []

    @property
    def log10(self) -> float:
        total = -math.inf
        for _, spent in self.tests:
            if spent["log10"] is not None:
                total = min(0.0, log10_sum(total, spent["log10"]))
        return total

    @property
    def too_flaky(self) -> bool:
        return self.most_k is not None and self.log10 > -self.most_k

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.too_flaky and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self.tests += [(report.nodeid, dict(v)) for name, v in report.user_properties if name == PROPERTY]  # type: ignore[call-overload]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.tests:
            return
        terminalreporter.section("flakiness")
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self) -> list[str]:
        counted = [(spent["log10"], name) for name, spent in self.tests if spent["log10"] is not None]
        assertions = sum(spent["assertions"] for _, spent in self.tests)
        total, harmless = self.log10, sum(spent["harmless"] for _, spent in self.tests)
        stated = (
            f": on correct code this run fails with probability at most {probability_text(total)} "
            f"(10^{total:.4g})"
        )
        noun = "assertion" if assertions == 1 else "assertions"
        lines = [
            f"{len(self.tests)} {'test' if len(self.tests) == 1 else 'tests'}, {assertions} {noun} of noise"
            f"{stated if counted else ', none with a stated probability'}"
        ]
        if self.too_flaky:
            lines.append(f"FAILED: the setting flakiness_run_k asks for at most 10^-{self.most_k:g}")
        for log10, name in sorted(counted, reverse=True)[:_LISTED]:
            if len(counted) > 1:
                lines.append(f"  {probability_text(log10)} {name}")
        if harmless:
            verb = "says" if harmless == 1 else "say"
            lines.append(f"  0 {harmless} of them {verb} why noise cannot matter")
        unknown = [(spent["unknown"], name) for name, spent in self.tests if spent["unknown"]]
        if unknown:
            named = ", ".join(name for _, name in unknown[:_LISTED]) + (
                ", ..." if len(unknown) > _LISTED else ""
            )
            lines.append(
                f"not counted: {sum((n for n, _ in unknown))} that can fail with unknown "
                f"probability, in {named}"
            )
        return lines


def _read_marker(marker: pytest.Mark, account: Account, config: pytest.Config) -> None:
    from sfumato.errors import ParameterError

    unknown = set(marker.kwargs) - {"k", "assertions", "because"}
    if marker.args or unknown:
        raise ParameterError(
            "flakiness", marker.args or sorted(unknown), "written as flakiness(k=23, assertions=4)"
        )
    account.k = check_k(marker.kwargs["k"]) if "k" in marker.kwargs else _default_k(config)
    account.assertions = check_count(marker.kwargs.get("assertions"))
    if "because" in marker.kwargs:
        _reason(marker.kwargs["because"], "because")
        account.whole = -account.k


def _reason(text: object, name: str) -> None:
    from sfumato.errors import ParameterError

    if not isinstance(text, str) or not text.strip():
        raise ParameterError(name, text, "the reason, in words")


def _taken() -> int:
    """Return how often fresh random words were taken, for the plugin; imports nothing."""
    words = sys.modules.get("sfumato.noise.random_words")
    return words.SecureWords.takes if hasattr(words, "SecureWords") else 0  # type: ignore[union-attr]


def _run_k(config: pytest.Config) -> float | None:
    text = str(config.getini("flakiness_run_k") or "")
    return check_k(text) if text else None


_UNCOUNTED = (
    "this test drew noise and does not state how likely it fails on correct code. Compare with "
    "assert_approx_equal or assert_noisy of sfumato.testing and give k, or mark it with "
    "@pytest.mark.flakiness(k=..., because='...') or @pytest.mark.noise_cannot_matter('why')"
)


def _default_k(config: pytest.Config) -> float:
    text = str(config.getini("flakiness_k"))
    return check_k(text)
