"""The pytest plugin: flakiness of tests and of the whole run, and fixtures for tests of releases.

Loaded by pytest in every environment where the package is installed, so it imports nothing itself
but `flakiness`, which is plain Python; the fixtures import what they need.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.testing.flakiness import (
    Account,
    checked_count,
    checked_k,
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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting of k for tests that do not say theirs."""
    parser.addini("flakiness_k", "k of the flakiness marker and fixture where none is given", default="23")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and start to add up the run's flakiness."""
    config.addinivalue_line(
        "markers",
        "flakiness(k=23, assertions=None): on correct code the test fails with probability at most 10^-k, "
        "divided over the assertions of sfumato.testing in it",
    )
    config.pluginmanager.register(_Session(), "sfumato-flakiness-session")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Give the test its account while it runs, its fixtures included."""
    account = Account(item.nodeid)
    item.stash[_account] = account
    with running(account):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Read the marker before any fixture runs.

    Raises:
        ParameterError: its k is not a number greater than 0; the test then errs.
    """
    marker = item.get_closest_marker("flakiness")
    if marker is not None:
        _read_marker(marker, item.stash[_account], item.config)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put what the test spent into its last report, where other processes find it too."""
    account = item.stash.get(_account, None)
    if call.when == "teardown" and account is not None and (account.made or account.log10_spent > -math.inf):
        spent = None if math.isinf(account.log10_spent) else account.log10_spent
        item.user_properties.append(
            (PROPERTY, {"assertions": account.made, "unknown": account.unknown, "log10": spent})
        )
    return (yield)


@pytest.fixture
def flakiness(request: pytest.FixtureRequest) -> Account:
    """The test's account: `flakiness(k=23)` opens it, `flakiness.share()` takes a share of it by hand."""
    account: Account = request.node.stash[_account]
    if account.k is None:
        account.k = _default_k(request.config)
    return account


@pytest.fixture
def seeded_words(request: pytest.FixtureRequest) -> SeededWords:
    """Random words that the test's name determines, for `release(..., unsafe_words=seeded_words)`."""
    from sfumato.testing.recorder import seeded_words as words

    return words()


@pytest.fixture
def noise_free() -> Iterator[None]:
    """Releases that are made in this test draw no noise."""
    from sfumato.testing.recorder import noise_free as without

    with without():
        yield


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """The true statistics of all releases that are drawn in this test, beside the noisy ones."""
    from sfumato.testing.recorder import recording

    with recording() as made:
        yield made


class _Session:
    """Adds up what all tests of a run spent, from their reports."""

    def __init__(self) -> None:
        self.tests: list[tuple[str, dict[str, Any]]] = []

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
        total = -math.inf
        for log10, _ in counted:
            total = min(0.0, log10_sum(total, log10))
        lines = [
            f"{len(self.tests)} tests, {assertions} assertions of noise: on correct code this run fails with "
            f"probability at most {probability_text(total)} (10^{total:.4g})"
            if counted
            else f"{len(self.tests)} tests, {assertions} assertions of noise, none with a stated probability"
        ]
        for log10, name in sorted(counted, reverse=True)[:_LISTED]:
            if len(counted) > 1:
                lines.append(f"  {probability_text(log10)} {name}")
        unknown = [(spent["unknown"], name) for name, spent in self.tests if spent["unknown"]]
        if unknown:
            named = ", ".join(name for _, name in unknown[:_LISTED]) + (
                ", ..." if len(unknown) > _LISTED else ""
            )
            lines.append(
                f"not counted: {sum(n for n, _ in unknown)} that can fail in a way nobody stated, in {named}"
            )
        return lines


def _read_marker(marker: pytest.Mark, account: Account, config: pytest.Config) -> None:
    from sfumato.errors import ParameterError

    unknown = set(marker.kwargs) - {"k", "assertions"}
    if marker.args or unknown:
        raise ParameterError(
            "flakiness", marker.args or sorted(unknown), "written as flakiness(k=23, assertions=4)"
        )
    account.k = checked_k(marker.kwargs["k"]) if "k" in marker.kwargs else _default_k(config)
    account.assertions = checked_count(marker.kwargs.get("assertions"))


def _default_k(config: pytest.Config) -> float:
    text = str(config.getini("flakiness_k"))
    return checked_k(text)
