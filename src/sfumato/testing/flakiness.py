"""The flakiness of tests: how likely they fail on correct code, on an account that assertions draw on.

Cheap to import: the pytest plugin loads this before anything else of the package.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from sfumato.dataclass import dataclass

# Only the plugin puts accounts here, so that a process without a running test has none.
_running: list[Account] = []
# A declared k that takes all that is left must not fail by a rounding.
_slack = 1e-9


@dataclass
class Account:
    """The flakiness account of one test: 10^-k, divided among its assertions.

    An assertion without a k of its own gets a share that later assertions do not change: the i-th takes 1/(i
    + 1) of what is left. If no assertion declares a k, the shares are 1/2, 1/6, 1/12 and so on: the i-th is
    1/(i (i + 1)) of 10^-k, and all of them together are at most 10^-k, however many there are. An assertion
    with a k of its own takes 10^-its-k from what is left. If the test states its number of assertions, each
    takes 1/assertions.

    Args:
        name: the name of the test.
        k: the test fails on correct code with probability at most 10^-k. None if not stated: each assertion
            then needs its own k, and the account only adds up.
        assertions: the most assertions without a k; None for any number.
        whole: log10 of the probability that the whole test fails, if its author worked it out; it replaces
            the sum over the assertions.

    >>> account = Account("test", k=23)
    >>> [round(account.share(), 2) for _ in range(4)], round(-account.log10_spent, 2)
    ([23.3, 23.78, 24.08, 24.3], 23.1)

    Source:
        The union bound.
    """

    name: str = ""
    k: float | None = None
    assertions: int | None = None
    whole: float | None = None
    # Whether fresh random words were taken in the test, or by a fixture that it uses.
    fresh: bool = False
    # What is left of 10^-k, as a share of it.
    left: float = 1.0
    made: int = 0
    unknown: int = 0
    log10_spent: float = -math.inf
    prepaid: int = 0
    taken_before: int = 0
    _shares: int = field(default=0, repr=False)

    @property
    def log10(self) -> float:
        """log10 of the test's flakiness, as far as it is stated."""
        return self.log10_spent if self.whole is None else self.whole

    @property
    def uncounted(self) -> int:
        """The number of ways in which the test can fail whose flakiness is not stated."""
        if self.whole is not None:
            return 0
        return self.unknown or int(self.fresh and self.log10_spent == -math.inf)

    def __call__(self, *, k: object, assertions: int | None = None) -> Account:
        """Set the test's flakiness from inside, before the first assertion.

        Args:
            k, assertions: as for the class.
        Raises:
            ParameterError: k is not a number greater than 0, or something was spent already.
        """
        if self.made or self._shares:
            raise _parameter_error("flakiness", self.name, "set before the first assertion of the test")
        self.k, self.assertions = check_k(k), check_count(assertions)
        return self

    def share(self, partitions: int = 1) -> float:
        """Take a share of the flakiness for an assertion whose tolerance the test computes itself.

        The next assertion with a tolerance and without a k uses this share.

        Args:
            partitions: the number of values that it compares.
        Returns:
            The k with which to compute the tolerance of each value.
        Raises:
            ParameterError: the test has no k, or more assertions than it stated.

        >>> round(Account("test", k=23).share(partitions=10), 2)
        24.3
        """
        taken = self._take(None)
        self.prepaid += 1
        return taken + math.log10(check_count(partitions) or 1)

    def charge(self, k: object = None) -> float:
        """Charge one assertion to the account, and return its k.

        Args:
            k: the assertion's own k, or None for a share of the test's.
        Returns:
            The k of the assertion: it may fail with probability at most 10^-k.
        Raises:
            ParameterError: k is not a number greater than 0, is missing, or is more than is left.

        >>> account = Account("test_visits", k=23)
        >>> round(account.charge(), 2), account.charge(k=24), round(account.left, 2)
        (23.3, 24.0, 0.4)
        """
        self.made += 1
        return self._take(k)

    def charge_given(self) -> None:
        """Record an assertion with a tolerance whose flakiness was not stated.

        >>> account = Account("test_visits", k=23)
        >>> k = account.share()
        >>> account.charge_given()  # the share has paid for this one
        >>> account.charge_given()
        >>> account.made, account.uncounted
        (2, 1)
        """
        self.made += 1
        if self.prepaid:
            self.prepaid -= 1
        else:
            self.unknown += 1

    def _take(self, k: object) -> float:
        taken = self._share() if k is None else self._declared_flakiness(check_k(k))
        self.log10_spent = log10_sum(self.log10_spent, -taken)
        return taken

    def _share(self) -> float:
        if self.k is None:
            raise _parameter_error("k", None, _NEEDED)
        self._shares += 1
        if self.assertions is None:
            part = self.left / (self._shares + 1)
        elif self._shares > self.assertions:
            raise _parameter_error(
                "assertions",
                self.assertions,
                f"the number of assertions in {self.name or 'the test'}, or more",
            )
        else:
            part = 1 / self.assertions
        self._spend(part)
        return self.k - math.log10(part)

    def _declared_flakiness(self, k: float) -> float:
        if self.k is not None:
            self._spend(math.exp(min(700.0, (self.k - k) * math.log(10))), k)
        return k

    def _spend(self, part: float, k: float | None = None) -> None:
        if part > self.left * (1 + _slack) + _slack * (self.assertions is not None):
            total = f"the test's flakiness 10^-{self.k:g}, of which {self.left:.3g} is left"
            raise _parameter_error("k", k, f"larger: one assertion may take no more than {total}")
        self.left = max(0.0, self.left - part)


_NEEDED = (
    "given. Pass k=23 for a flakiness of 10^-23, or mark the pytest test with "
    "@pytest.mark.flakiness(k=23), from which each assertion gets its share"
)


def charge(k: object = None) -> float:
    """Take the flakiness of one assertion from the running test's account, and return its k.

    Args:
        k: declared by the assertion, or None for a share of the test's.
    Raises:
        ParameterError: k is not a number greater than 0, or is missing and there is no account.

    >>> charge(23)
    23.0
    """
    if _running:
        return _running[-1].charge(k)
    if k is None:
        raise _parameter_error("k", None, _NEEDED)
    return check_k(k)


def charge_unstated() -> None:
    """Note an assertion whose flakiness was not stated."""
    if _running:
        _running[-1].charge_given()


def note_uncounted() -> None:
    """Note one more way in which the running assertion can fail, beyond its stated flakiness."""
    if _running:
        _running[-1].unknown += 1


@contextmanager
def running(account: Account) -> Iterator[Account]:
    """Make a flakiness account the one that assertions draw on. For the pytest plugin."""
    _running.append(account)
    try:
        yield account
    finally:
        _running.remove(account)


def require_test(what: str) -> str:
    """Return the running test's name, and refuse where no test has a flakiness account.

    Args:
        what: is asked for, as the beginning of the message.
    Raises:
        RefusalError: no pytest test is running with this package's plugin.
    """
    if not _running:
        from sfumato.errors import RefusalError

        raise RefusalError(
            f"{what}: refused, as no pytest test is running. It is for tests, as it removes protection"
        )
    return _running[-1].name


def check_k(k: object) -> float:
    """Return the k of a flakiness 10^-k, a finite number greater than 0.

    Raises:
        ParameterError: it is not one.
    """
    from sfumato.exact import positive

    return float(positive(k, "k"))


def check_count(count: object) -> int | None:
    """Return a number of assertions that share the flakiness, or None.

    Raises:
        ParameterError: it is not a whole number of at least 1.
    """
    from sfumato.exact import positive_int

    return None if count is None else positive_int(count, "assertions")


def log10_sum(first: float, second: float) -> float:
    """Return log10(10^first + 10^second) of two flakiness values, also below the smallest float.

    >>> round(log10_sum(-400, -400), 4)
    -399.699
    """
    high, low = max(first, second), min(first, second)
    if low == -math.inf:
        return high
    return high + math.log10(1 + 10 ** max(low - high, -300.0))


def probability_text(log10: float) -> str:
    """Write a flakiness or another probability that is known by its logarithm.

    >>> probability_text(-1), probability_text(-23.5), probability_text(-400)
    ('0.1', '3.16e-24', '10^-400')
    """
    if log10 == -math.inf:
        return "0"
    return f"{10**log10:.3g}" if log10 > -300 else f"10^{log10:.4g}"


def _parameter_error(name: str, value: object, expected: str) -> Exception:
    from sfumato.errors import ParameterError

    return ParameterError(name, value, expected)
