"""A browser that tests drive: Debian's Chromium, by its own protocol over two pipes, so that nothing else is needed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = [
    *("--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--force-device-scale-factor=1", "--font-render-hinting=none", "--lang=en-US"),
]  # fmt: skip
KEYS = {
    "Tab": (9, "\t"), "Enter": (13, "\r"), "Escape": (27, ""), " ": (32, " "), "ArrowDown": (40, ""), "ArrowUp": (38, ""),
    "ArrowRight": (39, ""), "ArrowLeft": (37, ""), "End": (35, ""), "Home": (36, ""),
}  # fmt: skip
WAIT = 180.0  # seconds: machines of tests are busy


def program() -> str | None:
    """Return where a Chromium is, if there is one."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Browser:
    """A running Chromium, with a profile of its own."""

    def __init__(self, folder: Path) -> None:
        found = program()
        assert found is not None
        self._events: list[dict[str, Any]] = []
        self._count = 0
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # Away from 3 and 4, which Chromium reads and writes.
        high = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 20) for one in (theirs_in, theirs_out)]
        options = [*OPTIONS, f"--user-data-dir={folder}"]
        options += ["--no-sandbox"] if os.getuid() == 0 else []  # which does not start for root
        placed = [(os.POSIX_SPAWN_DUP2, high[0], 3), (os.POSIX_SPAWN_DUP2, high[1], 4)]
        silent = [(os.POSIX_SPAWN_OPEN, one, os.devnull, os.O_WRONLY, 0) for one in (1, 2)]
        self._process = os.posix_spawn(found, [found, *options], os.environ, file_actions=[*placed, *silent])
        for one in (theirs_in, theirs_out, *high):
            os.close(one)
        self._read = os.fdopen(self._in, "rb")

    def send(self, method: str, session: str | None = None, **params: Any) -> Any:
        self._count += 1
        number = self._count
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == number:
                if "navigated" in told.get("error", {}).get("message", "") and method == "Runtime.evaluate":
                    return {"result": {}}  # the page was just left: nothing of it is so
                if "error" in told:
                    raise AssertionError(f"{method}: {told['error']}")
                return told["result"]
            self._events.append(told)

    def _next(self) -> Any:
        found = bytearray()
        while (one := self._read.read(1)) != b"\0":
            assert one, "the browser ended"
            found += one
        return json.loads(found)

    def events(self, session: str, method: str) -> list[Any]:
        """What was told so far of a tab."""
        return [
            e["params"] for e in self._events if e.get("sessionId") == session and e.get("method") == method
        ]

    def tab(self, url: str = "about:blank") -> Tab:
        return Tab(self, url)

    def close(self) -> None:
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        self._read.close()
        os.close(self._out)


class Tab:
    """One tab; `evaluate` runs in its page, keys and clicks are those of a person."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.browser = browser
        self.target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.send("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self.size(1280, 900)
        self.go(url)

    def send(self, method: str, **params: Any) -> Any:
        return self.browser.send(method, self.session, **params)

    def go(self, url: str) -> None:
        self._leave()
        told = self.send("Page.navigate", url=url)
        assert "errorText" not in told, told
        self._arrive()

    def reload(self) -> None:
        self._leave()
        self.send("Page.reload")
        self._arrive()

    def _leave(self) -> None:
        self.evaluate("window.before = true")

    def _arrive(self) -> None:
        self.wait("!window.before && document.readyState === 'complete'")

    def evaluate(self, script: str) -> Any:
        found = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, (script, found["exceptionDetails"])
        return found["result"].get("value")

    def wait(self, script: str, seconds: float = WAIT) -> Any:
        """Wait until something is so, and return it."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if found := self.evaluate(f"(v => v instanceof Node ? true : v)({script})"):
                return found
            time.sleep(0.03)
        seen = self.evaluate("document.body.innerText")
        raise AssertionError(f"never so: {script}\n{seen}")

    def click(self, selector: str) -> None:
        """Click on the middle of an element; again, where it moved away in between."""
        one = f"document.querySelector({json.dumps(selector)})"
        for _ in range(20):
            x, y = self.wait(
                f"(() => {{ const e = {one}; if (!e || e.disabled || !e.checkVisibility()) return null; "
                "window.hit = false; e.addEventListener('click', () => { window.hit = true; }, {once: true}); "
                "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect(); "
                "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
            )
            for kind in ("mousePressed", "mouseReleased"):
                self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
            if self.evaluate("window.hit"):
                return
        raise AssertionError(f"{selector} cannot be clicked")

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    def key(self, name: str, times: int = 1, *, ctrl: bool = False, shift: bool = False) -> None:
        code, text = KEYS.get(name, (ord(name.upper()[0]), name))
        common = {"key": name, "windowsVirtualKeyCode": code, "modifiers": 2 * ctrl + 8 * shift}
        common |= {"code": "Space" if name == " " else f"Key{name.upper()}" if len(name) == 1 else name}
        for _ in range(times):
            self.send(
                "Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text and not ctrl else {})
            )  # fmt: skip
            self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def size(self, width: int, height: int) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )  # fmt: skip

    def scheme(self, name: str) -> None:
        """Be light or dark."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, path: Path, clip: str | None = None) -> None:
        """Write what is seen of the whole page, or of an element, as PNG."""
        box = "document.documentElement" if clip is None else f"document.querySelector({json.dumps(clip)})"
        x, y, width, height = self.evaluate(
            f"(() => {{ const b = {box}.getBoundingClientRect(); "
            "return [b.x + scrollX, b.y + scrollY, b.width, b.height]; })()"
        )
        area = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        made = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=area)
        path.write_bytes(base64.b64decode(made["data"]))

    @property
    def requests(self) -> list[str]:
        """All addresses that were asked for."""
        self.evaluate("1")
        return [e["request"]["url"] for e in self.browser.events(self.session, "Network.requestWillBeSent")]

    @property
    def complaints(self) -> list[str]:
        """Errors of scripts, and what the browser refused."""
        self.evaluate("1")
        told = [
            str(e["exceptionDetails"]) for e in self.browser.events(self.session, "Runtime.exceptionThrown")
        ]
        logged = [e["entry"] for e in self.browser.events(self.session, "Log.entryAdded")]
        # An answer that is an error is logged, too; it is an answer.
        return told + [e["text"] for e in logged if e["level"] == "error" and e["source"] != "network"]


@contextmanager
def running(folder: Path) -> Iterator[Browser]:
    """A browser, until the end of a block."""
    browser = Browser(folder)
    try:
        yield browser
    finally:
        browser.close()
