"""Write the checker of `sfumato.certificate` as one file that runs with Python alone.

`python tools/one_file_certificate.py certificate.py`, and then `python certificate.py receipt.json`.
"""

from __future__ import annotations

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "sfumato" / "certificate"
OWN = "sfumato.certificate"
HEAD = f'''"""The independent checker of sfumato's releases, from its package `{OWN}`, in one file.

`python certificate.py receipt.json` prints what the description in a receipt is proved to lose.
"""

from __future__ import annotations

'''


def one_file() -> str:
    """Return the modules in the order in which they import each other, without these imports.

    Raises:
        ValueError: two modules define the same name, or a module imports a name of another under another one.
    """
    sources = {path.stem: path.read_text() for path in PACKAGE.glob("*.py") if path.stem != "__init__"}
    trees = {name: ast.parse(source) for name, source in sources.items()}
    order = TopologicalSorter({name: _imported(tree) for name, tree in trees.items()}).static_order()
    imports: dict[str, None] = {}
    parts, defined = [], dict[str, str]()
    for name in order:
        lines = sources[name].splitlines()
        gone: set[int] = set()
        for node in trees[name].body:
            place = range(node.lineno - 1, node.end_lineno or node.lineno)
            docstring = isinstance(node, ast.Expr) and node is trees[name].body[0]
            if isinstance(node, ast.Import | ast.ImportFrom):
                gone |= set(place)
                if not (
                    isinstance(node, ast.ImportFrom) and str(node.module).startswith((OWN, "__future__"))
                ):
                    imports |= dict.fromkeys("\n".join(lines[i] for i in place).splitlines() or [], None)
            elif docstring:
                gone |= set(place)
            for own in _defined(node):
                if own in defined:
                    raise ValueError(f"{own} is defined in {defined[own]} and in {name}")
                defined[own] = name
        title = (ast.get_docstring(trees[name]) or "").splitlines()
        text = "\n".join(line for i, line in enumerate(lines) if i not in gone).strip("\n")
        comment = "\n".join(f"# {line}".rstrip() for line in title)
        parts.append(f"# {'-' * 40} {name}\n{comment}\n\n{text}\n")
    return HEAD + "\n".join(imports) + "\n\n\n" + "\n\n".join(parts)


def _imported(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"{OWN}."):
            if any(alias.asname for alias in node.names):
                raise ValueError(f"{node.module} is imported under another name")
            found.add(str(node.module).removeprefix(f"{OWN}."))
    return found


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    names = [name for target in targets if target is not None for name in ast.walk(target)]
    return [name.id for name in names if isinstance(name, ast.Name)]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(one_file())
