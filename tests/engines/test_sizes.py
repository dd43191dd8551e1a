"""Sizes at which an engine computes in another way: all are in one place, and a test can make each small."""

from __future__ import annotations

from sfumato.query import sizes
from tests.support.engines import SMALL


def test_a_small_value_is_there_for_each_size():
    """A size without one stays large under the fixture, and what is behind it is not tested."""
    assert set(SMALL) == {name for name in vars(sizes) if name.isupper()}
    assert all(0 <= SMALL[name] <= getattr(sizes, name) for name in SMALL if name not in MADE_LARGER)


MADE_LARGER = {
    "SHARE_LEFT_OUT",  # of few pairs the share left out is large, and the path behind it would not be taken
}
