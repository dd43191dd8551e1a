"""A Sphinx extension: of each class and function of the reference, what its caller has to know.

A class shows how it is called where its docstring describes all that it is given. The others are made by
something that is called, and what they keep is not for callers. A method that says nothing of its parameters
has what the class above says.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

OWNERS: dict[str, type] = {}  # classes of the page that is read, which come before their methods
SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Source):$")
NAMED = re.compile(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*):", re.M)


def sections(docstring: str | None) -> dict[str, list[str]]:
    """Return the lines below each heading."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in inspect.cleandoc(docstring or "").splitlines():
        if heading := SECTION.match(line):
            lines = found.setdefault(heading[1], [])
        elif line[:1].strip():
            lines = []
        else:
            lines.append(line)
    return found


def described(docstring: str | None) -> set[str]:
    """Return the names that a docstring says something of."""
    told = sections(docstring)
    text = "\n".join([*told.get("Args", []), *told.get("Attributes", [])])
    return {name.strip("* ") for names in NAMED.findall(text) for name in names.split(",")}


def documented(function: Any, owner: type | None) -> str:
    """Return a docstring; where it says nothing of parameters, with what a class above says of them."""
    own = inspect.cleandoc(getattr(function, "__doc__", None) or "")
    if owner is None or "Args" in sections(own):
        return own
    for above in owner.__mro__[1:]:
        told = sections(getattr(vars(above).get(function.__name__), "__doc__", None))
        if "Args" in told:
            added = [n for n in ("Args", "Returns", "Raises") if n in told and n not in sections(own)]
            return "\n".join([own, "", *(line for name in added for line in (f"{name}:", *told[name]))])
    return own


def undescribed(value: Any, owner: type | None = None) -> list[str]:
    """Return the parameters of a class or function of which its docstring says nothing."""
    try:
        parameters = [p for p in inspect.signature(value).parameters if p not in ("self", "cls")]
    except (TypeError, ValueError):  # of an exception, or of C
        return []
    return [name for name in parameters if name not in described(documented(value, owner))]


def without_parameters(app: Any, what: str, name: str, value: Any, *_: Any) -> tuple[str, None] | None:
    """Show of a class that nobody calls its name alone."""
    return ("", None) if what in ("class", "exception") and undescribed(value) else None


def from_above(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Add to a method what the class above says of its parameters."""
    if what == "method" and "Args" not in sections("\n".join(lines)):
        lines[:] = documented(value, OWNERS.get(name.rpartition(".")[0])).splitlines()
    elif what in ("class", "exception"):
        OWNERS[name] = value


def whole(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Put together again what napoleon took for a type: a sentence with a colon."""
    kind = next((line for line in lines if line.startswith(":type:")), None)
    if what in ("property", "attribute") and kind is not None:
        lines.remove(kind)
        lines[0] = f"{kind.removeprefix(':type:').strip()}: {lines[0]}"


def setup(app: Any) -> dict[str, Any]:
    """Sphinx calls it. Napoleon reads with a priority of 500."""
    app.connect("autodoc-process-signature", without_parameters)
    app.connect("autodoc-process-docstring", from_above, priority=400)
    app.connect("autodoc-process-docstring", whole, priority=600)
    return {"parallel_read_safe": True}
