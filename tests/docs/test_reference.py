"""The reference of the API has every public name, and a name that is missing is found."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

from .pages import entries

PACKAGE = Path(__file__).parents[2] / "src" / "sfumato"
# Rooms say in `__all__` what is public, and have nothing else that is; of these files it is all that they define, but for what is
# named here.
INSIDE = {"names"}  # for other rooms alone
DEFINED = {"client": (), "errors": ("in_own_words", "listed", "nearest", "require", "shown", "with_article")}


def public() -> set[str]:
    """Every name that users may use, from where they may import it. Nothing is imported to tell."""
    names = set(public_of(PACKAGE / "__init__.py", "sfumato"))
    for place in PACKAGE.iterdir():
        room, source = place.stem, place if place.suffix == ".py" else place / "__init__.py"
        if source.exists() and room not in INSIDE | {"__init__"}:
            names |= public_of(source, f"sfumato.{room}")
    return names


def public_of(source: Path, module: str) -> set[str]:
    """Names of `__all__`, or of classes and functions of a file that is here for all of them."""
    body = ast.parse(source.read_text()).body
    found = [
        ast.literal_eval(node.value)
        for node in body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    if not found and source.stem in DEFINED:
        defined = [node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        found = [[n for n in defined if not n.startswith("_") and n not in DEFINED[source.stem]]]
    return {f"{module}.{name}" for name in (found[0] if found else ())}


def missing(pages: dict[str, str]) -> set[str]:
    return public() - set(entries(pages.values()))


def test_every_public_name_is_in_the_reference_once(pages: dict[str, str]) -> None:
    assert not missing(pages)
    found = entries(pages.values())
    assert len(found) == len(set(found)), sorted({n for n in found if found.count(n) > 1})


@pytest.mark.parametrize(
    "room",
    [
        *("audit", "budget", "client", "framework", "measurements", "noise", "snapping"),
        *("testing", "transformations", pytest.param("beam", marks=pytest.mark.long)),
    ],
)
def test_a_room_lists_its_public_names_alone(room: str) -> None:
    """What completes a name, and `dir`, is shown nothing that is imported for the room's own use."""
    named = {name.rpartition(".")[2] for name in public() if name.rpartition(".")[0] == f"sfumato.{room}"}
    assert named and set(dir(importlib.import_module(f"sfumato.{room}"))) == named


def test_the_package_lists_its_public_names_alone() -> None:
    import sfumato

    assert {*dir(sfumato)} == {*sfumato.__all__, "__version__"}
