"""The checker stands alone, and is small."""

import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path

import sfumato.certificate

PACKAGE = Path(sfumato.certificate.__file__).parent
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def test_it_imports_the_standard_library_alone() -> None:
    found = set()
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level and node.module
                found.add(node.module)
    own = {name for name in found if name.split(".")[0] == "sfumato"}
    assert own and all(name.startswith("sfumato.certificate.") for name in own)
    assert {name.split(".")[0] for name in found - own} <= sys.stdlib_module_names


def test_it_loads_nothing_else() -> None:
    code = "import sys, sfumato.certificate; print(*(m for m in sys.modules if m.startswith('sfumato.')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(name.startswith("sfumato.certificate") for name in run.stdout.split()), run.stdout


def code_lines(source: str) -> int:
    """Lines with a token, and not of a docstring, nor a comment."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            found |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node) is not None
        ):
            found -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len([line for line in found if source.splitlines()[line - 1].strip()])


def test_it_is_small() -> None:
    """The goal is 600 lines."""
    assert sum(code_lines(path.read_text()) for path in PACKAGE.glob("*.py")) <= 600
