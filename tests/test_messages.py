"""Messages are short: at most two sentences, and no chain of semicolons."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato

PACKAGES = sorted({path.parent for path in Path(sfumato.__file__).parent.rglob("*.py")})
END = re.compile(r"[a-z0-9)'\"}][.?!] (?=[A-Z{'\"`(])")


def written(node: ast.expr) -> str:
    """Return a literal text as a message has it, with {} for what is filled in."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)


def messages(source: str) -> Iterator[str]:
    """Yield the literal texts in errors that are raised or made."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and re.search(r"Error$|refus|Unsafe|Not[A-Z]", ast.unparse(node.func)):
            parts = (part for one in node.args for part in ast.walk(one))
            yield from (written(part) for part in parts if isinstance(part, (ast.Constant, ast.JoinedStr)))


def too_long(text: str) -> bool:
    return len(END.findall(text)) > 1 or text.count("; ") > 1


def test_what_is_too_long_is_found() -> None:
    assert not too_long("a: b is wrong. Write c; or d")
    assert too_long("a is wrong. It is b. Write c") and too_long("a; b; c")


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_messages_are_short(package: Path) -> None:
    texts = (text for path in package.glob("*.py") for text in messages(path.read_text("utf-8")))
    assert not list(filter(too_long, texts))
