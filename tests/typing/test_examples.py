"""A checker of types takes the numbers that the documentation writes: texts and whole numbers, too."""

from __future__ import annotations

import ast
import doctest
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
# An argument of a kind that is narrower than what the function takes.
REFUSED = re.compile(
    r'incompatible type "(?:str|int|float|Decimal|list\[str\])"; expected "[^"]*(?:Fraction|float|Decimal)'
)
PARSER = doctest.DocTestParser()


def examples() -> Iterator[tuple[str, str]]:
    """Yield the examples of each page and each docstring, under the name of a module."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        yield re.sub(r"\W", "_", str(page.relative_to(ROOT))), as_functions([page.read_text()])
    for file in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(file.read_text())
        kinds = (ast.FunctionDef, ast.ClassDef)
        names = ", ".join(node.name for node in tree.body if isinstance(node, kinds))
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, (*kinds, ast.Module))]
        known = f"from {module} import {names}\n" if names else ""
        yield module.replace(".", "_"), as_functions([text for text in found if text], known)


def as_functions(texts: list[str], known: str = "") -> str:
    """Return the examples of each text as a function, behind what they may name."""
    found = []
    for text in texts:
        try:
            source = "".join(one.source for one in PARSER.get_examples(text))
            ast.parse(source)
        except (ValueError, SyntaxError):  # of a page that shows a mistake
            continue
        if source.strip():
            found.append(f"def example_{len(found)}() -> None:\n{textwrap.indent(known + source, '    ')}")
    return "\n".join(found)


def refused(modules: dict[str, str], folder: Path) -> list[str]:
    """Return the numbers that mypy refuses in modules."""
    for name, text in modules.items():
        (folder / f"example_{name}.py").write_text(text)
    options = (
        "--config-file=",
        "--follow-imports=silent",
        "--ignore-missing-imports",
        f"--cache-dir={folder}/cache",
    )
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "."],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"MYPYPATH": str(SOURCE)},
    )
    assert re.search(r"checked \d+ source|no issues found", run.stdout), run.stdout + run.stderr
    return [line for line in run.stdout.splitlines() if REFUSED.search(line)]


def test_numbers_of_all_examples_are_taken(tmp_path):
    modules = {name: text for name, text in examples() if text}
    assert len(modules) > 200
    planted = (
        "from fractions import Fraction\ndef exact(number: Fraction) -> None: ...\n"
        "def narrow(number: int | float) -> None: ...\ndef example() -> None:\n    exact(1)\n    narrow('1/3')\n"
    )
    found = refused({**modules, "planted": planted}, tmp_path)
    assert [line for line in found if "example_planted" not in line] == []
    assert len(found) == 2  # the planted ones are seen
