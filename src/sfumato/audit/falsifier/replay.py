"""A function called again with exact rationals in the place of floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.audit.falsifier.members import finite
from sfumato.framework.domains import Row


def exact_outputs(function: Callable[[Any], Any], inputs: Sequence[Any]) -> list[Any] | None:
    """Return what a function gives for inputs without floats; None where it cannot compute with rationals.

    First floats are replaced; where floats still come out, as of 1 / 3, whole numbers too.

    >>> exact_outputs(sum, [[0.5, 0.25], [0.5, float("inf")]]) is None, exact_outputs(sum, [[0.5, 0.25]])
    (True, [_Exact(3, 4)])
    """
    for kinds in ((float, Fraction), (float, Fraction, int)):
        try:
            outputs = [function(_exact(value, kinds)) for value in inputs]
        except Exception:  # the function wants numbers of its own kind
            continue
        if not any(map(_has_float, outputs)):
            return outputs
    return None


class _Exact(Fraction):
    """A Fraction that takes a float for the number that it is."""


def _taking_floats(name: str) -> Any:
    def operation(self: Fraction, *others: Any) -> Any:
        found = getattr(Fraction, name)(
            self, *(Fraction(o) if isinstance(o, float) and finite(o) else o for o in others)
        )
        return _Exact(found) if isinstance(found, Fraction) else found

    return operation


for _name in ("add", "sub", "mul", "truediv", "pow", "mod", "radd", "rsub", "rmul", "rtruediv", "rmod"):
    setattr(_Exact, f"__{_name}__", _taking_floats(f"__{_name}__"))
for _name in ("abs", "neg", "pos"):
    setattr(_Exact, f"__{_name}__", _taking_floats(f"__{_name}__"))


def _exact(value: Any, kinds: tuple[Any, ...]) -> Any:
    """Replace numbers of some kinds by Fractions, wherever they are; NaN and infinities stay."""
    if isinstance(value, kinds) and not isinstance(value, bool):
        return _Exact(value) if finite(value) else value
    if isinstance(value, Mapping):
        return {key: _exact(v, kinds) for key, v in value.items()}
    if isinstance(value, Row):
        return value._replace(values=_exact(value.values, kinds))
    if isinstance(value, (list, tuple)):
        return type(value)(_exact(v, kinds) for v in value)
    return value


def _has_float(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = list(value.values())
    return isinstance(value, float) or (isinstance(value, (list, tuple)) and any(map(_has_float, value)))
