"""Mechanisms to audit: anybody's function, called in a thread within a time limit, its outputs checked."""

from __future__ import annotations

import copy
import inspect
import pickle
import queue
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from hashlib import shake_256
from typing import Any

import numpy as np

from sfumato.audit.python_code import shown
from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, SfumatoError
from sfumato.exact import positive_int

_CALLED = "callable as mechanism(dataset, size) or mechanism(dataset)"


# What CPython prints as the place of an object: "at 0x7f...", or so many digits of one.
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]*|\b0x[0-9a-fA-F]{8,16}\b")


class MechanismError(SfumatoError):
    """A mechanism cannot be audited: wrong number of outputs, a changed dataset, or a call that hangs.

    There is no verdict then; in particular it is never "private".
    """


@dataclass(frozen=True)
class Raised:
    """The output of a draw that ended in an exception.

    `Mechanism` makes it.

    Args:
        kind: the name of the exception's type.
        message: the exception's text, cut to 200 characters.

    >>> Raised.from_error(ValueError("no rows"))
    Raised(kind='ValueError', message='no rows')
    """

    kind: str
    message: str = field(default="")

    @classmethod
    def from_error(cls, error: BaseException) -> Raised:
        """Return the output that represents an exception of a mechanism.

        Args:
            error: the exception.
        Returns:
            The output, with the exception's type and text.
        """
        try:
            text = str(error)
        except Exception:  # its text is the mechanism's code too
            text = ""
        # An address that is cut could not be told any more.
        return cls(type(error).__name__, without_addresses(text)[:200])


class BatchRaised(Exception):
    """A vectorised call of a mechanism raised, so that none of its draws has an output."""

    def __init__(self, raised: Raised) -> None:
        super().__init__(raised)
        self.raised = raised


class Mechanism:
    """A mechanism to audit: a function of a dataset, and how to call it.

    Args:
        function: `function(dataset, size)`, which returns `size` independent outputs at once (an array, list,
            or table with this number of rows, or a mapping of columns), or `function(dataset)`, which returns
            one.
        vectorised: whether it is the first form; None decides by the signature: it is if a second parameter
            is required or is called `size`.
        call_seconds: the most seconds for a call; a longer call ends the audit. None calls without a limit,
            in the caller's own thread.
    Raises:
        ParameterError: the function cannot be called this way, or the limit is not positive.

    Calls are made in one thread of the mechanism's own. Python cannot end a thread, so a call that hangs
    goes on in the background while the audit ends with a `MechanismError`; the thread does not keep the
    process alive. A process could be ended, but could not receive most callables (closures, sessions).

    >>> coin = Mechanism(lambda dataset: len(dataset))
    >>> coin.vectorised, coin.draw([1, 2, 3], 2)
    (False, [3, 3])
    >>> coin.draw_both(([1, 2, 3], [1, 2]), 4)
    ([3, 3, 3, 3], [2, 2, 2, 2])
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        vectorised: bool | None = None,
        call_seconds: float | None = 60.0,
    ) -> None:
        if not callable(function):
            raise ParameterError("mechanism", function, _CALLED)
        if call_seconds is not None and not call_seconds > 0:
            raise ParameterError("call_seconds", call_seconds, "greater than 0, or None")
        self.function = function
        self.vectorised: bool = takes_size(function) if vectorised is None else vectorised
        if vectorised is None:
            self._check_signature()
        self.call_seconds = call_seconds
        self._worker: _Worker | None = None
        self._turns = 0  # batches of two sides up to now

    @property
    def name(self) -> str:
        """The name of the mechanism in reports."""
        found = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return "mechanism" if "<" in found else str(found)

    @property
    def _code(self) -> tuple[str, str]:
        """The mechanism in a line of Python, and the import before it.

        A function of the prompt, of a notebook or of the program that runs has its own name there.
        """
        module, name = (getattr(self.function, a, "") for a in ("__module__", "__qualname__"))
        if not module or not name.isidentifier():
            return "mechanism", ""
        imported = ""
        if module != "__main__":
            name, imported = "mechanism", f"from {module} import {name} as mechanism; "
        if self.vectorised != takes_size(self.function):
            name = f"Mechanism({name}, vectorised={self.vectorised})"
        return name, imported

    def _raises_always(self, kinds: str, where: str) -> MechanismError:
        """Return the error of a mechanism that never gave an output.

        Args:
            kinds: of exceptions that came.
            where: on which dataset, in words.
        """
        return MechanismError(
            f"{self.name} always raises: {kinds}, on all {where}. Pass datasets that it takes "
            "with data=[[...], ...] or, on the command line, --data MODULE:NAME"
        )

    def _check_signature(self) -> None:
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):  # some compiled functions do not tell
            return
        try:
            signature.bind(*([None, 1] if self.vectorised else [None]))
        except TypeError:
            raise ParameterError("mechanism", f"{self.name}{signature}", _CALLED) from None

    def draw(self, dataset: Any, size: int, *, singly: bool = False) -> Any:
        """Draw `size` independent outputs of a mechanism.

        Args:
            dataset: the dataset; the mechanism gets a deep copy if it can be copied.
            size: the number of outputs, at least 1.
            singly: whether to call a vectorised mechanism with size 1, `size` times, so that an exception
                belongs to one draw.
        Returns:
            A list of outputs, a NumPy array whose first axis is the draw, or a mapping of columns. The
            exception of a single draw is in the list as `Raised`.
        Raises:
            BatchRaised: a vectorised call raised.
            MechanismError: wrong number of outputs, a changed dataset, or a call over the time limit.
        """
        (found,) = self._draw_turns((dataset,), (0,) * size, size, singly=singly)
        return found

    def draw_both(self, sides: tuple[Any, Any], size: int, *, singly: bool = False) -> tuple[Any, Any]:
        """Draw `size` outputs of a mechanism on each of two datasets, in random order, call by call.

        Random order keeps slow changes (a clock, the machine, a state that wears off) from distinguishing the
        sides. The order is the same in every process, so that a seeded mechanism can be replayed.

        Args:
            sides: the two datasets.
            size: the number of outputs on each.
            singly: whether each output has its own call.
        Returns:
            The outputs on each dataset, as for `draw`.
        Raises:
            BatchRaised, MechanismError: as for `draw`.
        """
        bits = np.unpackbits(np.frombuffer(shake_256(b"%d" % self._turns).digest(size // 8 + 1), np.uint8))
        self._turns += 1
        turns = [side for bit in bits[:size].tolist() for side in (bit, 1 - bit)]
        first, second = self._draw_turns(sides, turns, size, singly=singly)
        return first, second

    def _draw_turns(
        self, sides: Sequence[Any], turns: Sequence[int], size: int, *, singly: bool
    ) -> list[Any]:
        """Call the mechanism once for each turn, or once for each side where it is vectorised."""
        positive_int(size, "size")
        given = [_copy(side) for side in sides]
        before = [fingerprint(g) for g in given]
        whole = self.vectorised and not singly
        if whole:
            turns = list(dict.fromkeys(turns))
        calls = _Calls([partial(self._call, given[turn], size if whole else None) for turn in turns])
        self._run(calls)
        for side, after, fingerprinted in zip(sides, given, before, strict=True):
            if fingerprint(after) != fingerprinted:
                text = f"{self.name} changes its dataset: after a call, {shown(side)} was {shown(after)}"
                raise MechanismError(f"{text}. Let it work on a copy")
        found: list[Any] = [[] for _ in sides]
        for turn, output in zip(turns, calls.outputs, strict=True):
            if not whole:
                found[turn].append(output)
            elif isinstance(output, Raised):
                raise BatchRaised(output)
            else:
                found[turn] = self._columns(output, size)
        return found

    def _call(self, value: Any, size: int | None) -> Any:
        if size is not None:
            return self.function(value, size)
        return rows(self._columns(self.function(value, 1), 1))[0] if self.vectorised else self.function(value)

    def _run(self, calls: _Calls) -> None:
        if self.call_seconds is None:
            calls.run()
        else:
            if self._worker is None:
                self._worker = _Worker()
            if not self._worker.run(calls, self.call_seconds):
                self._worker = None
                text = f"{self.name} hangs: a call took more than {self.call_seconds:g} s"
                raise MechanismError(f"{text}. Raise call_seconds if it is only slow")
        if calls.error is not None:
            raise calls.error

    def _columns(self, outputs: Any, size: int) -> Any:
        """Check the number of a mechanism's outputs, and return a list, an array or a mapping of columns."""
        outputs = plain(outputs)
        lengths = set(map(_length, outputs.values())) if isinstance(outputs, dict) else {_length(outputs)}
        if lengths != {size}:
            several = " and ".join(sorted(str(n) for n in lengths if n is not None))
            got = "one output" if None in lengths else several or "a mapping without columns"
            text = f"{self.name} was called for {size} outputs and returned {got}"
            raise MechanismError(
                f"{text}. A mechanism(dataset, size) must return size outputs; wrap one that "
                "returns a single output as Mechanism(function, vectorised=False)"
            )
        return outputs


def without_addresses(text: str) -> str:
    """Return a text of a mechanism without memory addresses, which no claim of privacy is about.

    >>> without_addresses("<object object at 0x7f3a5c0d2e10>"), without_addresses("0x3039")
    ('<object object at 0x...>', '0x3039')
    """
    return _ADDRESS.sub(lambda found: f"{found[0].partition('0x')[0]}0x...", text)


def without_addresses_in(data: bytes) -> bytes:
    """Return bytes of a mechanism without memory addresses; see `without_addresses`."""
    return without_addresses(data.decode("latin-1")).encode("latin-1") if b"0x" in data else data


def takes_size(function: Callable[..., Any]) -> bool:
    """Whether a mechanism's signature is `(dataset, size)` rather than `(dataset)`.

    >>> takes_size(lambda data, n: None), takes_size(lambda data, scale=2: None)
    (True, False)
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    return len(required) >= 2 or any(p.name == "size" for p in positional[1:2])


def plain(outputs: Any) -> Any:
    """Return a mechanism's tables and series as mappings of columns and arrays."""
    if hasattr(outputs, "to_pydict"):  # Arrow table or batch
        return outputs.to_pydict()
    if hasattr(outputs, "columns") and hasattr(outputs, "to_dict"):  # pandas, Polars
        return {str(name): np.asarray(outputs[name]) for name in outputs.columns}
    if hasattr(outputs, "to_pylist"):  # Arrow array
        return outputs.to_pylist()
    if hasattr(outputs, "to_numpy"):  # series
        return outputs.to_numpy()
    return outputs


def rows(outputs: Any) -> list[Any]:
    """Return a mechanism's outputs one by one."""
    if isinstance(outputs, dict):
        return [dict(zip(outputs, values, strict=True)) for values in zip(*outputs.values(), strict=True)]
    return list(outputs)


_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})


def fingerprint(value: Any) -> Any:
    """Return a fingerprint of a dataset or record, to find out whether a mechanism changes it.

    >>> fingerprint([float("nan"), 0.0]) == fingerprint([float("nan"), 0.0]) != fingerprint([0.0, -0.0])
    True
    """
    try:
        return _fingerprint(value)
    except RecursionError:  # it contains itself; its text has an ellipsis there
        return type(value), repr(value)


def _fingerprint(value: Any) -> Any:
    if type(value) in _PLAIN:
        return type(value), repr(value)
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_fingerprint, value))
    if isinstance(value, dict):
        return dict, tuple((_fingerprint(k), _fingerprint(v)) for k, v in value.items())
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return value.shape, tuple(map(_fingerprint, value.ravel()))
        return value.shape, value.dtype.str, value.tobytes()
    if hasattr(value, "iloc") and hasattr(value, "columns"):
        # A data frame may reorder its blocks when it is read: its columns tell.
        columns = tuple((str(c), _fingerprint(np.asarray(value[c]))) for c in value.columns)
        return type(value), _fingerprint(np.asarray(value.index)), columns
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return type(value), repr(value)
    try:
        return type(value), pickle.dumps(value)
    except Exception:  # what cannot be pickled is told by its text
        return type(value), repr(value)


def _copy(dataset: Any) -> Any:
    try:
        return copy.deepcopy(dataset)
    except Exception:  # a connection or a relation cannot be copied, nor changed by accident
        return dataset


def _length(outputs: Any) -> int | None:
    if isinstance(outputs, (str, bytes)) or not hasattr(outputs, "__len__"):
        return None
    if isinstance(outputs, np.ndarray) and outputs.ndim == 0:
        return None
    return len(outputs)


class _Calls:
    """Calls of a mechanism to make in turn, and their outputs."""

    def __init__(self, calls: Sequence[Callable[[], Any]]) -> None:
        self.calls = calls
        self.outputs: list[Any] = []
        self.error: MechanismError | KeyboardInterrupt | None = None
        self.started = time.monotonic()
        self.done = threading.Event()

    def run(self) -> None:
        try:
            for call in self.calls:
                self.started = time.monotonic()
                self.outputs.append(self._output(call))
        except (MechanismError, KeyboardInterrupt) as error:
            self.error = error
        finally:
            self.done.set()

    def _output(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (MechanismError, KeyboardInterrupt):
            raise
        except BaseException as error:  # whatever is raised, by SystemExit too, is an output
            return Raised.from_error(error)


class _Worker:
    """A daemon thread that calls a mechanism."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[_Calls] = queue.SimpleQueue()
        threading.Thread(target=self._loop, name="sfumato-audit", daemon=True).start()

    def run(self, calls: _Calls, seconds: float) -> bool:
        """Call a mechanism in the thread, and return whether each call ended within the limit."""
        calls.started = time.monotonic()
        self._tasks.put(calls)
        while not calls.done.wait(max(calls.started + seconds - time.monotonic(), 0.001)):
            if time.monotonic() > calls.started + seconds:
                return False
        return True

    def _loop(self) -> None:
        while True:
            self._tasks.get().run()
