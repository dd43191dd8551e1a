"""Which errors a callable raises: those of its own lines, and of the functions that it hands its values to."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Iterator
from enum import Enum
from functools import cache
from types import ModuleType
from typing import Any

PACKAGE = "sfumato"
MAKERS = ("__init__", "__post_init__", "__new__")
OURS = ("self", "cls")


@cache
def body(function: Any) -> ast.AST:
    """Read a function; one that was made while running has no lines, and nothing in it."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return ast.Module([], [])


def plain(value: Any) -> Any:
    """Look behind what a decorator, a class method or a property puts before a function."""
    value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    return inspect.unwrap(value) if inspect.isfunction(value) else value


def meant(node: ast.expr, function: Any, owner: type | None) -> Any:
    """Return what a name in a function stands for; None where only a run can tell."""
    if isinstance(node, ast.Name):
        return function.__globals__.get(node.id, getattr(builtins, node.id, None))
    if not isinstance(node, ast.Attribute):
        return None
    if isinstance(node.value, ast.Name) and node.value.id in OURS:
        return None if owner is None else inspect.getattr_static(owner, node.attr, None)
    holder = meant(node.value, function, owner)
    return getattr(holder, node.attr, None) if isinstance(holder, type | ModuleType) else None


def thrown(node: ast.expr, function: Any, owner: type | None) -> type[BaseException] | None:
    """Return the kind of an error behind `raise`: a class, or what a function of it or by its types returns."""
    node = node.func if isinstance(node, ast.Call) else node
    found = plain(meant(node, function, owner))
    if inspect.isfunction(found):
        told = str(found.__annotations__.get("return", "")).rpartition(".")[2]
        named = found.__globals__.get(told, getattr(builtins, told, None))
        above = meant(node.value, function, owner) if isinstance(node, ast.Attribute) else None
        found = above if isinstance(above, type) and issubclass(above, BaseException) else named
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def callables(value: Any, owner: type | None) -> Iterator[tuple[Any, type | None]]:
    """Yield the functions of this package that run when something is called; of a class those that make one."""
    value = plain(value)
    if isinstance(value, type) and not issubclass(value, Enum):
        held = [plain(vars(value)[name]) for name in MAKERS if name in vars(value)]
        yield from (
            (f, value) for f in held if inspect.isfunction(f) and value.__module__.startswith(PACKAGE)
        )
    elif inspect.isfunction(value) and value.__module__.startswith(PACKAGE):
        yield value, owner


def raised(value: Any, owner: type | None = None, deeper: int = 1) -> set[type[BaseException]]:
    """Return the errors of a callable, and of those that it calls by name, so many calls deep."""
    found: set[type[BaseException]] = set()
    for function, above in callables(value, owner):
        for node in ast.walk(body(function)):
            if isinstance(node, ast.Raise) and node.exc is not None:
                found |= {kind} if (kind := thrown(node.exc, function, above)) else set()
            if deeper and isinstance(node, ast.Call):
                own = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", None) in OURS
                found |= raised(meant(node.func, function, above), above if own else None, deeper - 1)
    return found - {NotImplementedError, AssertionError}  # which stand for lines that are never reached
