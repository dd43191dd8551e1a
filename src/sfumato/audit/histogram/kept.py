"""Draws that were made once are made once: kept by what the dataset holds, whichever root it came from."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import numpy as np

S = TypeVar("S")

# So many numbers are kept in all, of 24 bytes each with what belongs to them.
MOST_KEPT = 20_000_000
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Kept(Generic[S]):
    """Draws on datasets; of equal datasets they are the same.

    Args:
        sample: draws from a mechanism on a dataset.
        size: how much room a sample takes.
        most: room for all. Where they take more, those that were asked for least recently are given up, and
            drawn anew if they are asked for again.

    >>> kept = Kept(lambda dataset: sum(dataset))
    >>> kept([1, 2]), kept([1, 2]), kept.drawn
    (3, 3, 1)
    """

    def __init__(
        self, sample: Callable[[Any], S], size: Callable[[S], int] = lambda sample: 1, most: int = MOST_KEPT
    ) -> None:
        self._sample, self._size, self._room = sample, size, most
        self._samples: dict[Hashable, S] = {}
        self.drawn: int = 0

    def __call__(self, dataset: Any, place: Hashable = None) -> S:
        """Return the draws on a dataset; `place` tells it apart where its content cannot be told."""
        key = content(dataset)
        key = place if key is None else key
        if key in self._samples:
            found = self._samples.pop(key)
        else:
            found = self._sample(dataset)
            self.drawn += 1
            self._room -= self._size(found)
        if key is None:
            self._room += self._size(found)
            return found
        self._samples[key] = found
        while self._room < 0 and len(self._samples) > 1:
            self._room += self._size(self._samples.pop(next(iter(self._samples))))
        return found


def content(value: Any) -> Hashable | None:
    """Return something that is equal for two values only where they hold the same; None where nothing tells.

    Never their text: different records may have one text.

    >>> content([1.0, -0.0]) == content([1.0, -0.0]), content([1.0, -0.0]) == content([1.0, 0.0])
    (True, False)
    >>> content([lambda: 1]) is None
    True
    """
    try:
        return _content(value)
    except Exception:  # what cannot be pickled, or contains itself
        return None


def _content(value: Any) -> Hashable:
    if type(value) in _PLAIN:
        return type(value), repr(value)
    if type(value) in (list, tuple):
        return type(value), tuple(map(_content, value))
    if type(value) is np.ndarray and not value.dtype.hasobject:
        return value.shape, value.dtype.str, value.tobytes()
    return type(value), pickle.dumps(value)
