"""What is paid for once belongs to the process, and to the object, that it was made in."""

from __future__ import annotations

import threading
from typing import NoReturn, Self

from sfumato.errors import RefusalError
from sfumato.ownership import process


class Once:
    """Something that is done once, by whichever of the objects that share it comes first."""

    def __init__(self) -> None:
        self._made_in, self._lock, self._done = process(), threading.Lock(), False

    def take(self) -> None:
        """Do it.

        Raises:
            RefusalError: it was done before, or this is another process.
        """
        if (
            self._made_in != process()
        ):  # before the lock, which another thread may have held when this was forked
            raise RefusalError(
                "Release: this release belongs to the process that made it, which may apply it too, and is "
                "paid for once; make another with question.release(...) here"
            )
        with self._lock:
            if self._done:
                raise RefusalError(
                    "Release: this release, or a copy of it, was applied before, and is paid for once; make "
                    "another with question.release(...) for another collection"
                )
            self._done = True


class Stays:
    """A transform that is paid for here: a copy is the same transform once more, and it is sent nowhere."""

    def __copy__(self) -> Self:
        # Beam copies transforms to give them another label.
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise RefusalError(
            f"{type(self).__name__}: it is paid for in the process that made it, and cannot be pickled or "
            "copied deeply; apply it here, or make another there"
        )
