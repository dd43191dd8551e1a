"""Things in Python that the command line names as `package.module:name`."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from sfumato.errors import QueryError, nearest


def find(target: str, option: str) -> Any:
    """Import a module, from the current folder too, and return what it calls so.

    Args:
        target: `package.module:name`; the name may have dots, as in `module:engine.count`.
        option: of the command line, for errors.
    Raises:
        QueryError: there is no such module or name, the module cannot be imported, or the name not read.

    >>> find("math:pi", "--data")
    3.141592653589793
    """
    module, colon, name = target.partition(":")
    if module.endswith(".py") or "/" in module:
        dotted = module.removesuffix(".py").strip("./").replace("/", ".")
        raise QueryError(
            f"{option}: {module!r} is a path; write it as a module, {dotted}:{name or 'NAME'}, "
            "from the folder that it begins in"
        )
    if not (module and colon and name):
        raise QueryError(f"{option}: {target!r} must be package.module:name, such as mechanisms:noisy_count")
    found: Any = _module(module, option)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise QueryError(_unknown(found, part, option)) from None
        except Exception as error:  # a property may raise whatever it likes
            what = f"{type(error).__name__}: {error}"
            raise QueryError(f"{option}: {target} cannot be read: {what}") from error
    return found


def _module(name: str, option: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise QueryError(_no_module(name, error.name, option)) from None
        raise QueryError(_failing(name, error, option)) from error
    except (Exception, SystemExit) as error:  # a module may raise whatever it likes
        raise QueryError(_failing(name, error, option)) from error


def _no_module(name: str, missing: str, option: str) -> str:
    parent, _, last = missing.rpartition(".")
    path = list(sys.modules[parent].__path__) if hasattr(sys.modules.get(parent), "__path__") else None
    if parent and path is None:
        return f"{option}: there is no module {name!r}: {parent!r} is a module, not a package"
    where = [str(Path.cwd())] if path is None else path
    near = nearest(last, [m.name for m in pkgutil.iter_modules(where)])
    hint = f"; did you mean {f'{parent}.{near}'.strip('.')!r}?" if near else ""
    place = f"in {parent!r}" if parent else "in the current folder or among the installed packages"
    return f"{option}: there is no module {missing!r} {place}{hint}"


def _failing(name: str, error: BaseException, option: str) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    last = frames[-1]
    where = "" if last.filename == __file__ else f" ({last.filename}, line {last.lineno})"
    return f"{option}: the module {name!r} cannot be imported: {type(error).__name__}: {error}{where}"


def _unknown(owner: Any, name: str, option: str) -> str:
    module = isinstance(owner, ModuleType)
    what = f"the module {owner.__name__!r}" if module else f"the {type(owner).__name__}"
    names = [n for n in dir(owner) if not n.startswith("_")]
    near = nearest(name, names)
    own = (
        [n for n in names if getattr(vars(owner).get(n), "__module__", None) == owner.__name__]
        if module
        else []
    )
    listed = ", ".join(own[:20]) + (", ..." if len(own) > 20 else "")
    hint = f"; did you mean {near!r}?" if near else "."
    return f"{option}: {what} has no {name!r}{hint}" + (f" It defines: {listed}" if listed else "")
