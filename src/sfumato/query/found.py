"""What a release found for its question, and what each of it cost."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.display.displayed import Told


@dataclass(frozen=True, repr=False)
class Found(Told):
    """Something that a question left to its release, as it was found by a noisy look, which is published too.

    Args:
        what: what it is, in a few words.
        value: what was found, as plain data, such as the two bounds.
        epsilon: what finding it cost, of the budget of the whole release.

    >>> print(Found("bounds of the rows of 'visits'", (0.0, 64.0), Fraction(1, 10)))
    bounds of the rows of 'visits': 0 to 64, found with epsilon 0.1
    """

    what: str
    value: Any
    epsilon: Fraction

    @property
    def content(self) -> dict[str, Any]:
        """The same as plain data, for JSON."""
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        return {"what": self.what, "value": value, "epsilon": str(self.epsilon)}

    def __str__(self) -> str:
        return told(self.content)


def told(content: dict[str, Any]) -> str:
    """Say in a sentence what was found, from plain data."""
    value, epsilon = content["value"], Fraction(content["epsilon"])
    if isinstance(value, dict):
        shown = ", ".join(f"{name}={number:,}" for name, number in value.items())
        return f"{content['what']}: {shown}, found with epsilon {float(epsilon):g}"
    shown = " to ".join(f"{end:g}" for end in value) if isinstance(value, list) else str(value)
    cost = f"found with epsilon {float(epsilon):g}" if epsilon else "known from the type, at no cost"
    return f"{content['what']}: {shown}, {cost}"
