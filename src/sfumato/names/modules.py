"""What a module of ours says of a name that it does not have."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from sfumato.names.foreign import section
from sfumato.names.helpful import unknown_name


def advising(module: str, known: Iterable[str]) -> Callable[[str], Any]:
    """Return what a module does for a name that it does not have: raise, and say what to write instead.

    Args:
        module: its name, behind `sfumato.`.
        known: its public names.

    >>> advising("noise", ["Gaussian", "Laplace"])("laplace")
    Traceback (most recent call last):
    sfumato.errors.UnknownNameError: sfumato.noise has no laplace; did you mean Laplace?
    """
    names = tuple(known)

    def missing(name: str) -> Any:
        if name.startswith("_"):  # Python's own, which are missing as ever
            raise AttributeError(f"module 'sfumato.{module}' has no attribute {name!r}")
        others = {"": f"it has {', '.join(names[:4])} and others"}
        raise unknown_name(f"sfumato.{module}", name, names, {**others, **section(module, "modules")})

    return missing


def face(
    module: str, known: Iterable[str], homes: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return what a module of ours has as `__getattr__` and as `__dir__`.

    The first loads the module that has a name, where that is not loaded, and advises on unknown names. A name
    must not be that of a module in the same package, which would take its place.

    Args:
        module: its name, behind `sfumato.`.
        known: its public names.
        homes: by module, likewise behind `sfumato.`, which names it has, with spaces between them.

    >>> missing, listed = face("noise", ["Laplace", "Gaussian"])
    >>> listed()
    ['Gaussian', 'Laplace']
    """
    names = sorted(known)
    places = {name: home for home, held in (homes or {}).items() for name in held.split()}
    missing = advising(module, names)

    def found(name: str) -> Any:
        if name not in places:
            return missing(name)
        value = getattr(import_module(f"sfumato.{places[name]}"), name)
        setattr(sys.modules[f"sfumato.{module}"], name, value)
        return value

    return found, lambda: list(names)
