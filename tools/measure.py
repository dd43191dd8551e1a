"""Measure the size of the package and the path of a warm Laplace release: python tools/measure.py

A move is a call from a function in one module to a function in another one; returns are not counted. A turn
is two calls in a row that are in different modules, so that it also counts the way back.
"""

from __future__ import annotations

import ast
import logging
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
from trust import code_lines

import sfumato as sf

PACKAGE = Path(sf.__file__).parent
SQL = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id, "
    "max_groups_contributed = 1) COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM people"
)


def imported(tree: ast.AST) -> set[str]:
    """Return the names of modules that a module imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def calls(act: Callable[[], Any]) -> tuple[Counter[tuple[str, str]], int, set[str]]:
    """Return the moves by caller and called module, the number of turns, and the modules that run."""
    moves: Counter[tuple[str, str]] = Counter()
    order: list[str] = []

    def module(frame: FrameType | None) -> str:
        name = "" if frame is None else frame.f_code.co_filename
        return name[len(str(PACKAGE)) + 1 :] if name.startswith(f"{PACKAGE}/") else ""

    def look(frame: FrameType, event: str, _: Any) -> None:
        called, caller = module(frame), module(frame.f_back)
        if event == "call" and called:
            order.append(called)
            if caller and caller != called:
                moves[caller, called] += 1

    sys.setprofile(look)
    try:
        act()
    finally:
        sys.setprofile(None)
    turns = sum(one != other for one, other in pairwise(order))
    return moves, turns, set(order)


def main() -> None:
    """Print the table; with a name of any kind as argument also the moves by caller and called module."""
    logging.disable()
    texts = {p.relative_to(PACKAGE).as_posix(): p.read_text(encoding="utf-8") for p in PACKAGE.rglob("*.py")}
    imports = {name: imported(ast.parse(text)) for name, text in texts.items()}
    dotted = {n: ("sfumato/" + n).removesuffix(".py").replace("/", ".") for n in texts if "__init__" not in n}
    importers = {n: sum(d in found for found in imports.values()) for n, d in dotted.items()}
    names = Counter(Path(n).name for n in dotted)

    people = pa.table({"id": range(1_000), "town": ["ABCD"[i % 4] for i in range(1_000)]})
    scanned = sf.scan(people, privacy_unit="id")

    def ask() -> Any:
        towns = scanned.group_by("town", keys=list("ABCD")).bound(groups=1, rows=1)
        release = towns.agg(n=sf.count()).release(epsilon=1)
        release.to_arrow()
        return release

    def ask_sql() -> None:
        sf.sql(SQL, tables={"people": people}).to_arrow()

    for act in (ask, ask_sql):
        act()
        act()
    moves, turns, modules = calls(ask)
    rows = {
        "lines of code": sum(map(code_lines, texts)),
        "modules": len(texts),
        "modules with one importer": sum(count == 1 for count in importers.values()),
        "modules whose name is used more than once": sum(count for count in names.values() if count > 1),
        "modules of a warm Laplace release": len(modules),
        "moves of a warm Laplace release": sum(moves.values()),
        "turns of a warm Laplace release": turns,
        "modules from SQL text to numbers": len(calls(ask_sql)[2]),
        "names behind the dot of a release": sum(not name.startswith("_") for name in dir(ask())),
    }
    for what, number in rows.items():
        print(f"{what:45}{number:8,}")
    if len(sys.argv) > 1:
        for (caller, called), count in moves.most_common():
            print(f"{count:4} {caller} -> {called}")


if __name__ == "__main__":
    main()
