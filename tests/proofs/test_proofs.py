"""Every public constructor has a proof page, and the map that a page states is the code's."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sfumato.framework
import sfumato.measurements
import sfumato.snapping
import sfumato.transformations
from sfumato.budget import Loss
from sfumato.budget.closed_forms import joined_delta
from sfumato.exact import root_up
from sfumato.exact.outward_rounding import exp_bounds, expm1_down, log1p_up
from sfumato.noise import Gaussian, Laplace

PAGES = Path(__file__).parents[2] / "docs" / "proofs"
ROOMS = (sfumato.framework, sfumato.transformations, sfumato.measurements, sfumato.snapping)
DISTANCES = (Fraction(0), Fraction(1), Fraction(2), Fraction(3), Fraction(7, 2))
# What a formula may call, besides its parameters and d_in.
FUNCTIONS = {
    "Fraction": Fraction, "Gaussian": Gaussian, "Laplace": Laplace, "Loss": Loss, "abs": abs, "ceil": math.ceil,
    "exp_bounds": exp_bounds, "expm1_down": expm1_down, "floor": math.floor, "joined_delta": joined_delta, "len": len, "log1p_up": log1p_up, "max": max, "min": min,
    "range": range, "root_up": root_up, "sum": sum, "zip": zip,
}  # fmt: skip


@dataclass(frozen=True)
class Stated:
    """A fenced block of kind `map`: a constructor call, the map's formula, and cases of parameters.

    Where the map does not take all distances it says which; what the call needs is defined in `where`.
    """

    page: str
    constructor: str
    formula: str
    cases: tuple[str, ...]
    distances: tuple[Fraction, ...] = DISTANCES
    where: str = ""

    def made(self, case: str) -> tuple[Callable[[Any], Any], dict[str, Any]]:
        names = {n: getattr(room, n) for room in ROOMS for n in room.__all__}
        parameters = eval(f"dict({case})", {**names, **FUNCTIONS})
        scope = {**names, **FUNCTIONS, **parameters}
        exec(self.where, scope)
        return eval(self.constructor, scope).map, parameters

    def formula_at(self, parameters: dict[str, Any], d_in: Fraction) -> Any:
        exact = {n: Fraction(v) if isinstance(v, (float, str)) else v for n, v in parameters.items()}
        return eval(self.formula, {**FUNCTIONS, **exact, "d_in": d_in})


def blocks(text: str, page: str) -> Iterator[Stated]:
    for block in re.findall(r"^```map\n(.*?)^```", text, flags=re.S | re.M):
        fields = re.findall(
            r"^(constructor|map|for|distances|where): *(.*?)(?=^\w+:|\Z)", block, flags=re.S | re.M
        )
        found: dict[str, list[str]] = {k: [] for k in ("constructor", "map", "for", "distances", "where")}
        for name, value in fields:
            found[name].append(" ".join(value.split()))
        distances = tuple(Fraction(d) for d in ",".join(found["distances"]).split(",") if d) or DISTANCES
        assert len(found["constructor"]) == len(found["map"]) == 1 and found["for"], f"{page}: {block}"
        yield Stated(
            page,
            found["constructor"][0],
            found["map"][0],
            tuple(found["for"]),
            distances,
            "\n".join(found["where"]),
        )


STATED = [b for page in sorted(PAGES.glob("*.md")) for b in blocks(page.read_text(), page.stem)]


def differs(stated: Stated) -> list[str]:
    """Say where a page's formula is not what the code gives."""
    wrong = []
    for case in stated.cases:
        code, parameters = stated.made(case)
        for d_in in stated.distances:
            given, claimed = code(d_in), stated.formula_at(parameters, d_in)
            if given != claimed:
                wrong.append(
                    f"{stated.page}: {case}, d_in = {d_in}: the code gives {given}, the page {claimed}"
                )
    return wrong


@pytest.mark.parametrize("stated", STATED, ids=lambda s: f"{s.page}: {s.constructor}")
def test_a_page_states_the_map_of_the_code(stated: Stated) -> None:
    assert not differs(stated)


def test_a_page_with_another_map_is_found() -> None:
    stated = STATED[0]
    wrong = Stated(stated.page, stated.constructor, f"2 * ({stated.formula})", stated.cases)
    assert differs(wrong)


def constructors() -> dict[str, Any]:
    """Public functions that return a Transformation or Measurement, and public statistics."""
    found = {}
    for room in ROOMS:
        for name in room.__all__:
            item = getattr(room, name)
            if inspect.isfunction(item):
                returned = str(inspect.signature(item).return_annotation)
                if returned in ("Transformation", "Measurement"):
                    found[name] = item
            elif inspect.isclass(item) and issubclass(item, sfumato.transformations.Statistic):
                found[name] = item
    return {n: item for n, item in found.items() if not inspect.isabstract(item)}


def page_of(name: str) -> str:
    """CountUnits is proved in count_units.md."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


@pytest.mark.parametrize("name", sorted(constructors()))
def test_every_constructor_has_a_page_and_its_docstring_names_it(name: str) -> None:
    page = PAGES / f"{page_of(name)}.md"
    assert page.exists(), f"write {page.name}"
    assert f"docs/proofs/{page.name}" in (constructors()[name].__doc__ or ""), f"link {page.name}"
    called = {
        node.func.id if isinstance(node.func, ast.Name) else ""
        for stated in blocks(page.read_text(), page.stem)
        for node in ast.walk(ast.parse(stated.constructor))
        if isinstance(node, ast.Call)
    }
    assert name in called, f"{page.name} states no map of {name}"
    for part in ("## Preconditions", "## Statement", "## Proof", "## Source"):
        assert part in page.read_text(), f"{page.name} has no section {part}"
