"""What may not be there twice is refused in copies and in other processes."""

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sfumato.errors import BudgetError, RefusalError, SfumatoError
from sfumato.framework import AbsoluteDistance, AtomDomain, Measurement, Odometer, PureDP
from sfumato.measurements import laplace
from sfumato.measurements.sparse_vector import AboveThreshold
from sfumato.noise import SecureWords, Words
from sfumato.noise.random_words import default_words
from sfumato.ownership import Owned, process

pytestmark = pytest.mark.flakiness(
    k=15, because="words of two processes are equal by chance below 1e-16; all else is compared with itself"
)

COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {n}": lambda thing, n=n: pickle.loads(pickle.dumps(thing, n)) for n in range(6)},
}


class Ticket(Owned):
    _elsewhere = "buy another"

    def __init__(self, number: int) -> None:
        self.number = number

    def use(self) -> int:
        self._check_home()
        return self.number


def odometer() -> Odometer:
    return Odometer(1000, AtomDomain(int), AbsoluteDistance(), PureDP(), budget=1)


# What is made, and how it is used.
STATES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "ticket": (lambda: Ticket(7), Ticket.use),
    "odometer": (odometer, lambda o: o.ask(laplace(2))),
    "above threshold": (lambda: AboveThreshold(2, 1000, 3), lambda a: a.ask(0)),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("how", COPIES)
def test_nothing_is_copied(state, how):
    made, use = STATES[state]
    thing = made()
    with pytest.raises(SfumatoError, match="cannot be copied:"):
        COPIES[how](thing)
    use(thing)
    if how != "copy":  # a list of the same object is no copy of it
        with pytest.raises(SfumatoError, match="cannot be copied:"):
            COPIES[how]([thing])


@pytest.mark.parametrize("state", STATES)
def test_a_forked_child_is_refused(state, in_child):
    made, use = STATES[state]
    thing = made()
    kind, text = in_child(lambda: use(thing))
    assert issubclass(kind, SfumatoError)
    assert "belongs to the process" in text
    use(thing)


class Forking(Words):
    """Words; a fork comes when they are taken."""

    def __init__(self, fork: Any, takes: int) -> None:
        self.fork, self.takes = fork, takes

    def take(self, count):
        self.takes -= 1
        if self.takes == 0:
            self.fork.here()
        return SecureWords().take(count)


def asked_above(fork: Any) -> bool:
    return AboveThreshold(2, 1000, 3, words=Forking(fork, 2)).ask(0)


def asked_of_odometer(fork: Any) -> object:
    drawn = Measurement(
        "drawn", AtomDomain(int), AbsoluteDistance(), PureDP(),
        lambda _: Forking(fork, 1).take(1), laplace(2).privacy_map,
    )  # fmt: skip
    return odometer().ask(drawn)


@pytest.mark.parametrize("ask", [asked_above, asked_of_odometer])
def test_a_fork_in_the_middle_of_an_answer_is_given_none(ask, fork):
    assert fork.told(lambda: ask(fork), BudgetError) == ("refused", "went on")


class Asking(Words):
    """Words; when they are taken, something else is asked first, as a handler of a signal would."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self.ask = ask

    def take(self, count):
        self.ask()
        return SecureWords().take(count)


def test_a_question_in_the_middle_of_an_answer_is_refused_and_spoils_nothing():
    told: list[Any] = []
    asked = odometer()
    above = AboveThreshold(2, 10**9, 3)
    above._words = Asking(lambda: told.append(_error(lambda: above.ask(0))))

    class Handled(PureDP):
        def total(self, losses):
            if losses:  # within the lock
                told.append(_error(lambda: asked.ask(ask)))
            return super().total(losses)

    asked._measure = Handled()
    ask = Measurement(
        "ask", AtomDomain(int), AbsoluteDistance(), Handled(), lambda value: value, laplace(2).privacy_map
    )
    thread = threading.Thread(target=lambda: told.append((above.ask(0), asked.ask(ask))), daemon=True)
    thread.start()
    thread.join(30)
    assert told == [RefusalError, RefusalError, (False, 1000)]
    assert asked.spent == laplace(2).map(1)


@pytest.mark.parametrize("state", STATES)
def test_attributes_that_moved_to_another_object_are_refused(state):
    made, use = STATES[state]
    thing = made()
    other = type(thing).__new__(type(thing))
    vars(other).update(vars(thing))
    with pytest.raises(SfumatoError, match="cannot be copied:"):
        use(other)
    use(thing)


def test_a_lock_that_another_thread_holds_does_not_stop_the_child(in_child):
    above, asked = AboveThreshold(2, 1000, 3), odometer()
    holding, done = threading.Event(), threading.Event()

    def hold() -> None:
        with above._turn(), asked._turn():
            holding.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait()
    try:
        told = in_child(lambda: [_error(lambda: above.ask(0)), _error(lambda: asked.ask(laplace(2)))])
    finally:
        done.set()
        thread.join()
    assert told == [BudgetError, BudgetError]


def _error(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error)


def test_a_fork_of_a_thread_and_a_grandchild_are_other_processes(in_child):
    ticket, here = Ticket(7), process()
    told: list[Any] = []
    thread = threading.Thread(target=lambda: told.append(in_child(lambda: _error(ticket.use))))
    thread.start()
    thread.join()
    assert told == [RefusalError]
    assert in_child(lambda: in_child(lambda: (_error(ticket.use), process()[1]))) == (
        RefusalError,
        here[1] + 2,
    )
    assert process() == here


@pytest.mark.parametrize("words", [SecureWords, default_words])
def test_secure_words_are_fresh_in_children_and_in_other_objects(words, in_child):
    source = words()
    source.take(3)
    seen = [in_child(lambda: source.take(4).tolist()) for _ in range(3)]
    other = SecureWords.__new__(SecureWords)
    vars(other).update(vars(source))
    seen += [
        other.take(4).tolist(),
        source.take(4).tolist(),
        in_child(lambda: default_words().take(4).tolist()),
    ]
    flat = [word for four in seen for word in four]
    assert len(set(flat)) == len(flat) == 24  # false alarm: 276 pairs of 64 bits, below 1e-16


@pytest.mark.parametrize("how", COPIES)
def test_secure_words_are_not_copied(how):
    with pytest.raises(RefusalError, match="a copy would repeat the same random words"):
        COPIES[how](SecureWords())
