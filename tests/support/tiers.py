"""Cases of a table-driven test: some of them are in the first tier, and the others long."""

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(many: int, cases: Iterable[Any]) -> list[Any]:
    """Return parameters of cases, of which the first and then one in so many is in the first tier."""
    marks = ((), pytest.mark.long)
    return [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=marks[i % many > 0])
        for i, one in enumerate(cases)
    ]
