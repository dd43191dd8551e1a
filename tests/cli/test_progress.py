"""Progress: shown to people alone, and never in the way."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sfumato.cli.terminal import EVERY, Watch, follow
from sfumato.display.progress import PATIENCE, fraction_of


class Script:
    """Stands for an event: its waits return as written, at once."""

    def __init__(self, *answers: bool) -> None:
        self.answers, self.waited = list(answers), []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout)
        return self.answers.pop(0)


def terminal(is_terminal: bool = True) -> Console:
    return Console(file=io.StringIO(), force_terminal=is_terminal, width=80, _environ={"TERM": "xterm"})


def test_quick_work_shows_nothing():
    console, done = terminal(), Script(True)
    follow(console, "Reading", lambda: pytest.fail("asked"), done)
    assert console.file.getvalue() == ""
    assert done.waited == [PATIENCE]


def test_nothing_is_shown_where_nobody_looks():
    console, done = terminal(False), Script()
    follow(console, "Reading", lambda: 0.5, done)
    assert console.file.getvalue() == "" and done.waited == []


def test_long_work_shows_title_time_and_percentage():
    console, done = terminal(), Script(False, False, False, True)
    told = iter([None, 0.25, 0.5])
    follow(console, "Reading rows", lambda: next(told), done)
    text = console.file.getvalue()
    assert "Reading rows" in text and "50%" in text and "0:00:00" in text
    assert done.waited == [PATIENCE, EVERY, EVERY, EVERY]


def test_progress_never_goes_back_nor_beyond_the_end():
    console, done = terminal(), Script(False, False, False, True)
    told = iter([0.75, 0.25, 7.0])
    follow(console, "Reading", lambda: next(told), done)
    assert "100%" in console.file.getvalue() and "25%" not in console.file.getvalue().replace("\x1b", "")


def test_a_failing_fraction_is_not_the_works_failure():
    console, done = terminal(), Script(False, True)

    def fails() -> float:
        raise RuntimeError("gone")

    follow(console, "Reading", fails, done)
    assert "Reading" in console.file.getvalue()


def test_a_title_cannot_command_the_terminal():
    console, done = terminal(), Script(False, True)
    follow(console, "Writing [bold]\x1b[31m.csv", lambda: None, done)
    assert r"[bold]\x1b[31m.csv" in console.file.getvalue()


@pytest.mark.parametrize("failing", [False, True])
def test_the_watch_ends_with_its_block(failing):
    watch = Watch("Work", console=terminal())
    try:
        with watch:
            if failing:
                raise KeyError
    except KeyError:
        assert failing
    assert not watch._thread.is_alive()


def test_who_is_asked_for_the_fraction():
    def owner(**own):
        return type("Owner", (), own)()

    def release(engine, **own):
        return owner(engine=engine, **own)

    silent, telling = owner(), owner(progress=lambda _: 0.5)

    def told(one):
        return fraction_of(one, one.engine)

    assert told(release(silent))() is None
    assert told(release(telling))() == 0.5
    assert told(release(telling, progress=lambda _: 0.75))() == 0.75
