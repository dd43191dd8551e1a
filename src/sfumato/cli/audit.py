"""`sfumato audit`: look for what breaks a mechanism's claim of privacy."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.options import check_distinct, fail, optional, outputs, tell_written
from sfumato.errors import ParameterError, QueryError, SfumatoError, with_article

if TYPE_CHECKING:
    from sfumato.audit import Claim, Report


_LONGEST_LINE = 500


def _of_histogram(name: str, metavar: str, what: str) -> Any:
    """Declare an option of the histogram method alone."""
    return optional(name, metavar=metavar, help=f"Histogram method: {what}.")


class Verdict(IntEnum):
    """Exit codes."""

    NOTHING_FOUND = 0
    VIOLATED = 1
    NONE = 2  # the command line must be fixed, or the mechanism cannot be judged
    STOPPED = 130  # by the keyboard: no verdict either


def audit(
    mechanism: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME",
            help="A function mechanism(dataset, size) or mechanism(dataset), such as package.module:name. "
            "Modules of the current folder are found too.",
            show_default=False,
        ),
    ],
    epsilon: Annotated[str | None, optional("--epsilon", metavar="NUMBER", help="The claim.")] = None,
    delta: Annotated[
        str | None,
        optional("--delta", metavar="NUMBER", help="Of the claim; 0 if left out."),
    ] = None,
    zcdp: Annotated[
        str | None,
        optional("--zcdp", metavar="RHO", help="A claim of zCDP, in place of --epsilon."),
    ] = None,
    gaussian: Annotated[
        str | None,
        optional("--gaussian", metavar="MU", help="A claim of Gaussian DP, in place of --epsilon."),
    ] = None,
    alpha: Annotated[
        float, typer.Option("--alpha", metavar="NUMBER", help="Bound on the probability of a false alarm.")
    ] = 1e-6,
    neighbors: Annotated[
        str, typer.Option("--neighbors", metavar="KIND", help="add-remove or change-one.")
    ] = "add-remove",
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help="betting or histogram.")
    ] = "betting",
    confidence: Annotated[
        float,
        typer.Option(
            "--confidence",
            metavar="NUMBER",
            help="Of the lower bound on epsilon and of what a pass excludes; by the histogram method, of the "
            "intervals of one histogram.",
        ),
    ] = 0.95,
    samples: Annotated[int | None, _of_histogram("--samples", "N", "draws on each dataset")] = None,
    buckets: Annotated[
        int | None, _of_histogram("--buckets", "N", "of equal width; adaptive if left out")
    ] = None,
    datasets: Annotated[
        int | None, _of_histogram("--datasets", "N", "Halton datasets, without --data and --pairs")
    ] = None,
    size: Annotated[int | None, _of_histogram("--size", "N", "records of each Halton dataset")] = None,
    tolerated_buckets: Annotated[
        float | None,
        _of_histogram("--tolerated-buckets", "SHARE", "buckets that may fail before an edge does"),
    ] = None,
    tolerated_edges: Annotated[
        float | None, _of_histogram("--tolerated-edges", "SHARE", "edges that may fail")
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", metavar="NUMBER", help="Limit on time.")] = 60.0,
    max_samples: Annotated[
        int, typer.Option("--max-samples", metavar="N", help="Limit on the draws a side, over all pairs.")
    ] = 1_000_000,
    data: Annotated[
        str | None,
        optional(
            "--data",
            metavar="MODULE:NAME",
            help="Datasets to make neighbours from: a list, or a function that returns one.",
        ),
    ] = None,
    pairs: Annotated[
        str | None,
        optional(
            "--pairs",
            metavar="MODULE:NAME",
            help="Pairs (dataset, neighbour): a list, or a function that returns one.",
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        outputs("the report to .html, .json or .txt"),
    ] = None,
) -> None:
    """Look for datasets and an event that break a mechanism's claim of privacy.

    An audit that finds nothing is no proof. Without --data and --pairs, the datasets are lists of numbers.
    """
    from sfumato.cli.terminal import forgiving

    forgiving()
    paths = tuple(output or ())
    histogram = {
        "samples": samples,
        "buckets": buckets,
        "datasets": datasets,
        "size": size,
        "tolerated_buckets": tolerated_buckets,
        "tolerated_edges": tolerated_edges,
    }
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
        _tell(found, paths)
    except (SfumatoError, OSError) as error:
        fail(error, Verdict.NONE, ("epsilon", "delta"))
    except KeyboardInterrupt:
        fail("stopped before the audit ended: there is no verdict", Verdict.STOPPED)
    raise typer.Exit(Verdict.VIOLATED if found.violated else Verdict.NOTHING_FOUND)


def _run(target: str, claim: Claim, data: Any, pairs: Any, **options: Any) -> Report:
    from sfumato.audit import audit
    from sfumato.cli.meter import Meter

    mechanism = _mechanism(target)
    with Meter(options["method"] == "betting") as meter:
        return audit(mechanism, claim=claim, data=data, pairs=pairs, progress=meter, **options)


def _method(name: str, confidence: float, given: dict[str, Any], datasets: str | None) -> Any:
    """Return the method of that name, with the options that were given."""
    from sfumato.audit import HistogramMethod

    chosen = {option: value for option, value in given.items() if value is not None}
    for option in ("datasets", "size"):
        if option in chosen and datasets is not None:
            raise QueryError(f"--{option} is of the Halton datasets, which {datasets} takes the place of")
    if name == "histogram":
        return HistogramMethod(confidence=confidence, **chosen)
    if name != "betting":
        raise ParameterError("--method", name, "betting or histogram")
    if chosen:
        option = f"--{next(iter(chosen)).replace('_', '-')}"
        raise QueryError(f"{option} belongs to --method histogram; leave it out, or add that")
    return name


def _tell(report: Report, paths: tuple[Path, ...]) -> None:
    from rich.text import Text

    from sfumato.cli.terminal import printer
    from sfumato.display.text import visible

    console = printer()
    text = Text("\n".join(map(_shortened, visible(str(report), lines=True).split("\n"))))
    text.highlight_regex(r"^VIOLATED", "bold red")
    # Before any file: a full disk must not cost the verdict.
    console.print(text, soft_wrap=True)
    for path in paths:
        report.write(path)
    tell_written(console, paths)


def _shortened(line: str) -> str:
    """Cut a line that would fill the screen: large datasets, as code."""
    if len(line) <= _LONGEST_LINE:
        return line
    return f"{line[:200].rstrip()} ... ({len(line):,} characters: write them with --output report.txt)"


def _mechanism(target: str) -> Any:
    from sfumato.audit import Mechanism
    from sfumato.cli.named import find

    found = find(target, "MODULE:NAME")
    if not callable(found) and not isinstance(found, Mechanism):
        kind = type(found).__name__
        raise QueryError(
            f"MODULE:NAME: {target} is of type {kind}, which cannot be called; name a function "
            "mechanism(dataset, size), which returns size outputs, or mechanism(dataset), which returns one"
        )
    return found


def _claim(epsilon: str | None, delta: str | None, zcdp: str | None, gaussian: str | None) -> Claim:
    from sfumato.audit import claims

    given = {"--epsilon": epsilon, "--zcdp": zcdp, "--gaussian": gaussian}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        what = f"it is given {len(named)} times, by {' and '.join(named)}" if named else "it is missing"
        raise QueryError(f"The claim: {what}; write one of --epsilon 1, --zcdp 0.5, --gaussian 1")
    if delta is not None and epsilon is None:
        raise QueryError(f"--delta belongs to --epsilon; leave it out with {named[0]}")
    if epsilon is not None:
        return claims.approximate(epsilon, delta or 0)
    return claims.zcdp(zcdp) if zcdp is not None else claims.gaussian(gaussian or "")


def _listed(target: str | None, option: str) -> list[Any] | None:
    """Return the list that a name stands for, or the one that a function of that name returns."""
    from sfumato.cli.named import find

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
            f"{option}: {target} gives {with_article(kind)}; it must be a list, or a function that "
            f"returns one"
        )
    return list(found)


def _check_paths(paths: tuple[Path, ...]) -> None:
    """Refuse what could not be written, before anything is drawn."""
    from sfumato.audit.report import checked_path

    for path in paths:
        checked_path(path, "--output")
    check_distinct(paths)
