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
LIKE = re.compile(r"as (?:of |for )?`(\w+)\.(\w+)`")
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


def documented(value: Any, owner: type | None = None) -> str:
    """Return a docstring; where it says nothing of parameters, with what it refers to says of them.

    That is a class above, or a method that it names: "as `Table.filter`".
    """
    own = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    if "Args" in sections(own) or "Attributes" in sections(own):
        return own
    above = value.__mro__[1:] if isinstance(value, type) else ()
    if owner is not None:
        above = tuple(filter(None, (vars(kind).get(value.__name__) for kind in owner.__mro__[1:])))
    named = [_public(*found) for found in LIKE.findall(own)]
    for one in (*above, *named):
        told = sections(documented(one) if one in named else getattr(one, "__doc__", None))
        if "Args" in told:
            added = [n for n in ("Args", "Returns", "Raises") if n in told and n not in sections(own)]
            return "\n".join([own, "", *(line for name in added for line in (f"{name}:", *told[name]))])
    return own


def _public(kind: str, method: str) -> Any:
    import sfumato
    import sfumato.client

    place = sfumato if hasattr(sfumato, "__all__") and kind in sfumato.__all__ else sfumato.client
    return getattr(getattr(place, kind, None), method, None)


def undescribed(value: Any, owner: type | None = None) -> list[str]:
    """Return the parameters of a class or function of which its docstring says nothing."""
    try:
        parameters = [
            p for p in inspect.signature(value).parameters if p.strip("_") not in ("", "self", "cls")
        ]
    except (TypeError, ValueError):  # of an exception, or of C
        return []
    told = described(documented(value, owner))
    if isinstance(value, type):
        told = told.union(*(described(kind.__doc__) for kind in value.__mro__[1:]))
    return [name for name in parameters if name not in told]


def without_parameters(app: Any, what: str, name: str, value: Any, *_: Any) -> tuple[str, None] | None:
    """Show of a class that nobody calls its name alone."""
    return ("", None) if what in ("class", "exception") and undescribed(value) else None


def from_above(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Add to a method what the class above says of its parameters."""
    if what == "method" and "Args" not in sections("\n".join(lines)):
        lines[:] = documented(value, OWNERS.get(name.rpartition(".")[0])).splitlines()
    elif what in ("class", "exception"):
        OWNERS[name] = value
        if not undescribed(value):
            lines[:] = documented(value).splitlines()


def said_of_results(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Keep a colon in what comes back a colon: napoleon takes what is before the first one for a type."""
    for i, line in enumerate(lines[:-1]):
        if line in ("Returns:", "Yields:"):
            text = lines[i + 1].lstrip()
            lines[i + 1] = f"{' ' * (len(lines[i + 1]) - len(text))}: {text}"


def described_above(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Leave out fields of named tuples: their class describes them."""
    return True if str(getattr(value, "__doc__", "")).startswith("Alias for field number") else None


def whole(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Put together again what napoleon took for a type: a sentence with a colon."""
    kind = next((line for line in lines if line.startswith(":type:")), None)
    if what in ("property", "attribute") and kind is not None:
        lines.remove(kind)
        lines[0] = f"{kind.removeprefix(':type:').strip()}: {lines[0]}"


def setup(app: Any) -> dict[str, Any]:
    """Sphinx calls it. Napoleon reads with a priority of 500."""
    app.connect("autodoc-skip-member", described_above)
    app.connect("autodoc-process-signature", without_parameters)
    app.connect("autodoc-process-docstring", from_above, priority=400)
    app.connect("autodoc-process-docstring", said_of_results, priority=450)
    app.connect("autodoc-process-docstring", whole, priority=600)
    return {"parallel_read_safe": True}
