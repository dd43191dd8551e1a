"""`sfumato audit`: look for what breaks a mechanism's claim of privacy."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.options import ExitCode, answering, argument, check_distinct, fail, option, tell_written
from sfumato.errors import ParameterError, QueryError, nearest, with_article

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.audit import Claim, Report


_LONGEST_LINE = 500


def audit(
    mechanism: Annotated[str, argument("module_name")],
    epsilon: Annotated[str | None, option("epsilon.audit")] = None,
    delta: Annotated[str | None, option("delta.audit")] = None,
    zcdp: Annotated[str | None, option("zcdp")] = None,
    gaussian: Annotated[str | None, option("gaussian")] = None,
    alpha: Annotated[float, option("alpha")] = 1e-6,
    neighbors: Annotated[str, option("neighbors")] = "add-remove",
    method: Annotated[str, option("method")] = "betting",
    confidence: Annotated[float, option("confidence.audit")] = 0.95,
    samples: Annotated[int | None, option("samples")] = None,
    buckets: Annotated[int | None, option("buckets")] = None,
    datasets: Annotated[int | None, option("datasets")] = None,
    size: Annotated[int | None, option("size")] = None,
    tolerated_buckets: Annotated[float | None, option("tolerated-buckets")] = None,
    tolerated_edges: Annotated[float | None, option("tolerated-edges")] = None,
    seconds: Annotated[float, option("seconds")] = 60.0,
    max_samples: Annotated[int, option("max-samples")] = 1_000_000,
    data: Annotated[str | None, option("data")] = None,
    pairs: Annotated[str | None, option("pairs")] = None,
    output: Annotated[list[Path] | None, option("output.audit")] = None,
) -> None:
    """Search for datasets and an event that violate a mechanism's privacy claim.

    An audit that finds nothing is not a proof. Without --data and --pairs, the datasets are lists of numbers.
    """
    paths = tuple(output or ())
    histogram = {
        "samples": samples,
        "buckets": buckets,
        "datasets": datasets,
        "size": size,
        "tolerated_buckets": tolerated_buckets,
        "tolerated_edges": tolerated_edges,
    }
    with answering("epsilon", "delta", engine=ExitCode.MISUSED) as console:
        try:
            _check_paths(paths)
            found = _run(
                mechanism,
                _claim(epsilon, delta, zcdp, gaussian),
                _listed(data, "--data"),
                _listed(pairs, "--pairs"),
                alpha=alpha,
                confidence=confidence,
                neighbors=neighbors,
                method=_method(method, confidence, histogram, data or pairs),
                seconds=seconds,
                max_samples=max_samples,
            )
            _print_report(console, found, paths)
        except KeyboardInterrupt:
            fail("stopped before the audit ended, without a verdict", ExitCode.STOPPED)
    raise typer.Exit(ExitCode.FAILED if found.violated else ExitCode.DONE)


def _run(target: str, claim: Claim, data: Any, pairs: Any, **options: Any) -> Report:
    from sfumato.audit import audit
    from sfumato.cli.terminal import Meter

    mechanism = _mechanism(target)
    with Meter(options["method"] == "betting") as meter:
        return audit(mechanism, claim=claim, data=data, pairs=pairs, progress=meter, **options)


def _method(method: str, confidence: float, given: dict[str, Any], datasets: str | None) -> Any:
    """Return the audit method of a name, with the command line's options."""
    from sfumato.audit import HistogramMethod

    chosen = {name: value for name, value in given.items() if value is not None}
    for one in ("datasets", "size"):
        if one in chosen and datasets is not None:
            raise QueryError(f"--{one} is for the Halton datasets, which {datasets} replaces")
    if method == "histogram":
        return HistogramMethod(confidence=confidence, **chosen)
    if method != "betting":
        raise ParameterError("--method", method, "betting or histogram")
    if chosen:
        first = f"--{next(iter(chosen)).replace('_', '-')}"
        raise QueryError(f"{first} belongs to --method histogram. Leave it out, or add --method histogram")
    return method


def _print_report(console: Console, report: Report, paths: tuple[Path, ...]) -> None:
    """Print the audit report, and write its files."""
    from rich.text import Text

    from sfumato.display.formatting import visible

    text = Text("\n".join(map(_shorten_line, visible(str(report), lines=True).split("\n"))))
    text.highlight_regex(r"^VIOLATED", "bold red")
    # Before any file: a full disk must not cost the verdict.
    console.print(text, soft_wrap=True)
    for path in paths:
        report.write(path)
    tell_written(console, paths)


def _shorten_line(line: str) -> str:
    """Shorten a line of the audit report that would fill the screen, such as a large dataset."""
    if len(line) <= _LONGEST_LINE:
        return line
    return f"{line[:200].rstrip()} ... ({len(line):,} characters; --output report.txt writes all of them)"


def _mechanism(target: str) -> Any:
    """Import the mechanism to audit from `module:name`."""
    from sfumato.audit import Mechanism

    found = find(target, "MODULE:NAME")
    if not callable(found) and not isinstance(found, Mechanism):
        kind = type(found).__name__
        raise QueryError(
            f"MODULE:NAME: {target} is of type {kind}, which cannot be called. Name a function "
            "mechanism(dataset, size), which returns size outputs, or mechanism(dataset), which "
            "returns one"
        )
    return found


def _claim(epsilon: str | None, delta: str | None, zcdp: str | None, gaussian: str | None) -> Claim:
    """Return the claim to audit from the command line's options."""
    from sfumato.audit import claims

    given = {"--epsilon": epsilon, "--zcdp": zcdp, "--gaussian": gaussian}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        what = f"it is given {len(named)} times, by {' and '.join(named)}" if named else "it is missing"
        raise QueryError(f"the claim: {what}. Write one of --epsilon 1, --zcdp 0.5, --gaussian 1")
    if delta is not None and epsilon is None:
        raise QueryError(f"--delta belongs to --epsilon. Leave it out with {named[0]}")
    if epsilon is not None:
        return claims.approximate(epsilon, delta or 0)
    return claims.zcdp(zcdp) if zcdp is not None else claims.gaussian(gaussian or "")


def _listed(target: str | None, option: str) -> list[Any] | None:
    """Import the datasets to audit: a list, or what a function returns."""
    if target is None:
        return None
    found = find(target, option)
    if callable(found):
        try:
            found = found()
        except Exception as error:  # anybody's function may raise whatever it likes
            raise QueryError(f"{option}: {target}() failed: {type(error).__name__}: {error}") from error
    if not isinstance(found, Iterable) or isinstance(found, (str, bytes, dict)):
        kind = type(found).__name__
        raise QueryError(
            f"{option}: {target} gives {with_article(kind)}, but must be a list, or a function "
            "that returns one"
        )
    return list(found)


def _check_paths(paths: tuple[Path, ...]) -> None:
    """Check the audit report's output paths before anything is drawn."""
    from sfumato.audit.report import check_path

    for path in paths:
        check_path(path, "--output")
    check_distinct(paths)


def find(target: str, option: str) -> Any:
    """Import an object such as the audited mechanism from a module, also from the current folder.

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
            f"{option}: {module!r} is a path. Write it as a module, "
            f"{dotted}:{name or 'NAME'}, and run from the folder that it begins in"
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
