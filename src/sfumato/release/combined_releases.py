"""Releases computed with each other: combinations by inverse variance, changes, and saved releases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.display.result_table import ResultTable
from sfumato.errors import EngineError, ParameterError, QueryError
from sfumato.errors import shown as written
from sfumato.exact import truth_value
from sfumato.names import suggest_arguments
from sfumato.noise.law_tails import Floats
from sfumato.plan.plan import describe
from sfumato.plan.top_measurement import RANK
from sfumato.query.aggregates.estimate import is_sure
from sfumato.query.error_bars import Bars, check_confidence
from sfumato.query.group_totals import GROUPING
from sfumato.release.answer_digest import opened
from sfumato.release.canonical_form import canonical_digest
from sfumato.release.estimate_table import TAILS, EstimateTable, Source, deviations, widest_tail
from sfumato.release.noisy_table import NoisyTable
from sfumato.release.processed_release import ProcessedRelease
from sfumato.release.receipt import Receipt
from sfumato.release.release import Release
from sfumato.release.table_digest import table_digest
from sfumato.release.top_release import TopRelease

_ROUGH = ("Quantiles", "Stratified")  # aggregates without a standard error


@suggest_arguments
def combine(
    releases: Iterable[NoisyTable | EstimateTable], *, outputs: Sequence[str] | None = None
) -> EstimateTable:
    """Average each output by group over releases that measure the same, with inverse-variance weights.

    The weights are one over the squared standard errors, which are public. A group that only some releases
    show is averaged over those.

    Args:
        releases: two or more with the same keys, including results of `read_release` and `combine`. Releases
            not yet drawn are drawn.
        outputs: the outputs to combine; the default is all, and each release must have them.
    Returns:
        The averages with standard errors and error bars; NULL where no release has a standard error.
    Raises:
        QueryError: there are fewer than two releases, or one is given twice; an output is missing or has no
            standard error; keys differ, or a group occurs twice in a release.
        ParameterError: a value is not a release.
    Source:
        Cochran 1954, "The combination of estimates from different experiments".

    >>> import pyarrow as pa, sfumato as sf
    >>> rows = pa.table({"id": range(900), "town": ["Bonn", "Ulm", "Ulm"] * 300})
    >>> towns = sf.scan(rows, privacy_unit="id").group_by("town", keys=["Bonn", "Ulm"]).bound(groups=1)
    >>> question = towns.agg(people=sf.count_units())
    >>> both = sf.combine([question.release(epsilon=1), question.release(epsilon=1)])
    >>> [round(error, 2) for error in both.errors(kind="standard")["people"].to_pylist()]
    [1.02, 1.02]
    """
    single = isinstance(releases, ResultTable) or not isinstance(releases, Iterable)
    given = [] if single else list(releases)
    if len(given) < 2:
        raise QueryError("combine: there are fewer than two releases. Pass a list, combine([one, other])")
    parts, keys = _align_estimates("combine", given, outputs)
    made = {name: _average(*_stack_estimates(parts, name)) for name in parts[0].values}
    return _join_parts("Combined estimates", parts, keys, made)


@suggest_arguments
def change(
    before: NoisyTable | EstimateTable,
    after: NoisyTable | EstimateTable,
    *,
    outputs: Sequence[str] | None = None,
    relative: bool = False,
) -> EstimateTable:
    """Return the change of each output by group from one release to another, with error bars.

    Error bars cover the noise of both releases, not sampling error.

    Args:
        before, after: releases with the same keys, including results of `read_release` and `combine`.
        outputs: the outputs to compare; the default is all, and both releases must have them.
        relative: return after / before - 1 instead of after - before; NULL where `before` is less than 5 of
            its standard errors.
    Returns:
        The changes; NULL for a group that only one release shows, because its number in the other is unknown.
    Raises:
        QueryError, ParameterError: as for `combine`.

    >>> import pyarrow as pa, sfumato as sf
    >>> people = sf.scan(pa.table({"id": range(900)}), privacy_unit="id").agg(people=sf.count_units())
    >>> print(sf.change(people.release(epsilon=8), people.release(epsilon=8)).to_arrow().column_names)
    ['people']
    """
    parts, keys = _align_estimates("change", [before, after], outputs)
    made = {}
    for name in parts[0].values:
        (old, new), (old_error, new_error), (old_step, new_step) = _stack_estimates(parts, name)
        if truth_value(relative, "relative"):
            old = np.where(is_sure(old, old_error), old, np.nan)
            share = new / old
            spreads = ((new_error, old_error), (new_step, old_step))
            error, step = (np.hypot(one, share * other) / np.abs(old) for one, other in spreads)
            made[name] = share - 1, error, step
        else:
            made[name] = new - old, np.hypot(old_error, new_error), np.hypot(old_step, new_step)
    return _join_parts("Relative change" if relative else "Change", parts, keys, made)


@suggest_arguments
def read_release(
    table: str | PathLike[str] | pa.Table,
    receipt: str | PathLike[str] | Receipt,
    *,
    confidence: float = 0.95,
) -> EstimateTable:
    """Read a saved release from its table and its receipt, to combine or compare it.

    The table needs error bars. Standard errors computed from half-widths are exact for Gaussian noise. At 95%
    they are too large by up to 8% for Laplace noise and 30% for K-norm noise.

    Args:
        table: an Arrow table, or the path of a .parquet, .csv, .json or .arrow file written with
            `errors="standard"` or `errors=True`.
        receipt: a `Receipt` or its path, made with the same `errors`.
        confidence: the confidence of the half-widths in columns `<output>_error`, as the table was written.
    Returns:
        An `EstimateTable` with the estimates and their standard errors.
    Raises:
        EngineError: a file cannot be read, or the table is not the receipt's answer.
        QueryError: the table has no error bars, or SQL computed it.
        ParameterError: a path or the confidence is not valid.

    >>> import tempfile
    >>> import pyarrow as pa, sfumato as sf
    >>> people = sf.scan(pa.table({"id": range(900)}), privacy_unit="id").agg(people=sf.count_units())
    >>> release = people.release(epsilon=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release.receipt(errors="standard").write(f"{folder}/receipt.json")
    ...     release.write(f"{folder}/people.csv", errors="standard")
    ...     saved = sf.read_release(f"{folder}/people.csv", f"{folder}/receipt.json")
    >>> saved["people"] == release["people"]
    True
    """
    bill = receipt if isinstance(receipt, Receipt) else Receipt.read(receipt)
    check_confidence(confidence)
    verified = bill.verify(table)
    if not verified.ok or bill.answer is None:
        raise EngineError(f"read_release: {' '.join(str(verified).splitlines()[:2])}")
    plan = bill.plan
    if plan["asks"] == "computed":
        raise QueryError(
            "read_release: SQL computed this table from releases, so it has no standard errors. Save "
            "the release itself, .released"
        )
    keys = [key for key, _ in plan["group_by"]] + [GROUPING] * ("totals" in plan)
    read = opened(table, bill.with_error_bars or bill.answer)[1]
    tail = "log_concave" if bill.description is None else widest_tail(bill.description)
    rough = tuple(f"{name}_" for name, form in plan.get("outputs", ()) if form["kind"] in _ROUGH)
    released = [c.name for c in bill.answer.columns if c.name not in (*keys, RANK)]
    beside = [name for name in read.column_names if name not in (*keys, RANK, *released)]
    values, errors = {}, {}
    for name in released:
        if (column := f"{name}{Bars(standard=True).suffix}") in beside:
            values[name], errors[name] = _floats(read[name]), _floats(read[column])
        elif (column := f"{name}{Bars().suffix}") in beside and not f"{name}_".startswith(rough):
            error = _floats(read[column]) / deviations(tail, 1 - confidence)[0]
            values[name], errors[name] = _floats(read[name]), np.where(np.isfinite(error), error, np.nan)
    if not values:
        raise QueryError(
            f"read_release: {verified.what} has no standard errors, and no error bars to compute "
            'them from. Save a release with write(..., errors="standard") and '
            'receipt(errors="standard")'
        )
    lacking = tuple(name for name in released if name not in values)
    source = Source("", canonical_digest({"plan": plan, "answer": bill.answer.sha256}))
    notes = (bill.bias,) if bill.bias else ()
    steps = {name: _half_step(read[name]) for name in values}
    return EstimateTable(
        read.select(keys), values, errors, steps, tail, notes, (source,), "Saved release", lacking
    )


def _stack_estimates(parts: Sequence[EstimateTable], name: str) -> list[Floats]:
    """Return the values, standard errors and half steps of an output: for each part, and each group."""
    kinds = ("values", "standard_errors", "half_steps")
    return [np.stack([getattr(part, kind)[name] for part in parts]) for kind in kinds]


def _average(values: Floats, errors: Floats, steps: Floats) -> tuple[Floats, Floats, Floats]:
    """Return averages over the first axis with inverse-variance weights, their errors and half steps."""
    known = ~(np.isnan(values) | np.isnan(errors))
    least = np.where(known, errors, np.inf).min(axis=0)
    values, errors, steps = (
        np.where(known, one, alone) for one, alone in ((values, 0), (errors, 1), (steps, 0))
    )
    shares = np.divide(np.minimum(least, errors), errors, out=np.ones_like(errors), where=errors > 0)
    weights = known * shares**2
    weights = weights / np.where(known.any(axis=0), weights.sum(axis=0), np.nan)
    error, step = (np.sqrt(((weights * one) ** 2).sum(axis=0)) for one in (errors, steps))
    return (weights * values).sum(axis=0), error, step


def _join_parts(
    name: str,
    parts: Sequence[EstimateTable],
    keys: pa.Table,
    made: Mapping[str, tuple[Floats, Floats, Floats]],
) -> EstimateTable:
    """Return the values, standard errors and half steps that were computed from aligned parts."""
    tail = TAILS[max(TAILS.index(part.tail) for part in parts)]
    notes = tuple(dict.fromkeys(one for part in parts for one in part.notes))
    sources = tuple(source for part in parts for source in part.sources)
    columns: list[dict[str, Floats]] = [{}, {}, {}]
    for output, found in made.items():
        nothing = np.isnan(found[0]) | np.isnan(found[1])
        for own, one in zip(columns, found, strict=True):
            own[output] = np.where(nothing, np.nan, one)
    values, errors, steps = columns
    return EstimateTable(keys, values, errors, steps, tail, notes, sources, name)


def _align_estimates(
    function: str, releases: Sequence[NoisyTable | EstimateTable], outputs: Sequence[str] | None
) -> tuple[list[EstimateTable], pa.Table]:
    """Return the estimates of releases with the same groups in the same order, NaN where one lacks a group.

    Raises:
        QueryError, ParameterError: as of `combine`.
    """
    shapes = [_shape(release) for release in releases]
    _check_sources(function, [shape.sources for shape in shapes])
    names = _check_outputs(function, shapes, outputs)
    _check_keys(function, shapes)
    parts = [_estimates(release, shape) for release, shape in zip(releases, shapes, strict=True)]
    _check_sources(function, [part.sources for part in parts])
    kinds = _key_types(function, parts)
    places: list[dict[Any, int]] = [_places(function, part, kinds) for part in parts]
    groups = list(dict.fromkeys(key for own in places for key in own))
    rows = [np.array([own.get(key, -1) for key in groups], np.int64) for own in places]
    made = [
        replace(
            part,
            values={n: _taken(part.values[n], at) for n in names},
            standard_errors={n: _taken(part.standard_errors[n], at) for n in names},
            half_steps={n: _taken(part.half_steps[n], at) for n in names},
        )
        for part, at in zip(parts, rows, strict=True)
    ]
    first, before = [], np.zeros(len(groups), np.bool_)
    for part, at in zip(parts, rows, strict=True):
        first.append(
            part.keys.select(list(kinds)).cast(pa.schema(kinds.items())).take(at[(at >= 0) & ~before])
        )
        before |= at >= 0
    return made, pa.concat_tables(first).combine_chunks()


class _Shape(NamedTuple):
    """What is known of a release before it is drawn.

    Args:
        keys: the columns by which its groups are told apart.
        outputs: those with a standard error.
        lacking: the others.
        sources: where its noise comes from.
    """

    keys: Sequence[str]
    outputs: Sequence[str]
    lacking: Sequence[str]
    sources: tuple[Source, ...]


def _shape(release: object) -> _Shape:
    """Return the shape of a release, for which nothing is drawn."""
    if isinstance(release, EstimateTable):
        return _Shape(release.keys.column_names, list(release.values), release.lacking, release.sources)
    if isinstance(release, ProcessedRelease):
        release._check_bars(Bars(standard=True))
        shape = _shape(release._releases[0])
        names = {own: name for name, own in release._computation.columns or () if own is not None}
        keys, outputs, lacking = ([names[own] for own in one if own in names] for one in shape[:3])
        drawn = [source for one in release._releases for source in _shape(one).sources]
        return _Shape(keys, outputs, lacking, tuple(drawn))
    if isinstance(release, TopRelease):
        return _Shape(release.question.keys, list(release.plan.laws), (), (_source(release),))
    if isinstance(release, Release):
        estimates = release.plan.requirements.estimates
        outputs = [e.name for e in estimates if e.has_standard_error and not e.entries]
        lacking = [e.name for e in estimates if e.name not in outputs]
        return _Shape(release.plan.query.shown_keys, outputs, lacking, (_source(release),))
    wanted = "a release, or what sf.read_release, sf.combine or sf.change returns"
    raise ParameterError("release", type(release).__name__, wanted)


def _estimates(release: NoisyTable | EstimateTable, shape: _Shape) -> EstimateTable:
    """Return the estimates of a release; it is drawn if it was not."""
    if isinstance(release, EstimateTable):
        return release
    table, errors = release.to_arrow(), release.errors(kind="standard")
    return EstimateTable(
        table.select(list(shape.keys)),
        {name: _floats(table[name]) for name in shape.outputs},
        {name: _floats(errors[name]) for name in shape.outputs},
        {name: _half_step(table[name]) for name in shape.outputs},
        widest_tail(describe(release._plans)),
        tuple(_notes(release)),
        _sources(release),
        "Release",
        tuple(shape.lacking),
    )


def _notes(release: NoisyTable) -> Iterator[str]:
    """Yield sentences on what makes the numbers of a release different from estimates without bias."""
    if release._dummy:
        yield "Of dummy rows."
    if release._unsafe:
        yield "Not private: the noise is known."
    if isinstance(release, ProcessedRelease):
        yield from release._selected
    plans = (plan for plan in release._plans if hasattr(plan, "requirements"))
    if any(e.nonnegative for plan in plans for e in plan.requirements.estimates):
        yield "Numbers below 0 are shown as 0, so averages and changes of small ones are biased."
    if bias := release.bias.describe():
        yield bias


def _sources(release: NoisyTable) -> tuple[Source, ...]:
    """Return the sources of a release that was drawn."""
    if isinstance(release, ProcessedRelease):
        return tuple(source for one in release._releases for source in _sources(one))
    content = {"plan": release.canonical(), "answer": table_digest(release.to_arrow())}
    return (_source(release)._replace(digest=canonical_digest(content)),)


def _source(release: NoisyTable) -> Source:
    """Return the source of a release; its numbers may have been drawn before if a journal repeats them."""
    return Source("" if release.repeats else release._identity, "")


def _check_sources(function: str, sources: Sequence[tuple[Source, ...]]) -> None:
    """Refuse releases that have noise in common."""
    for i, own in enumerate(sources):
        if any(one.is_same(two) for other in sources[:i] for one in own for two in other):
            raise QueryError(
                f"{function}: two of the releases are the same release, with the same noise. Pass "
                "releases that were drawn separately"
            )


def _check_outputs(function: str, shapes: Sequence[_Shape], outputs: Sequence[str] | None) -> list[str]:
    """Return the outputs to compute with, which each release has with standard errors."""
    common = [name for name in shapes[0].outputs if all(name in shape.outputs for shape in shapes)]
    if not common:
        raise QueryError(
            f"{function}: the releases have no common output with a standard error. Release the same "
            "count, sum, mean, ratio or variance in each"
        )
    names = isinstance(outputs, Iterable) and not isinstance(outputs, str)
    if outputs is not None and not (names and list(outputs)):
        raise ParameterError("outputs", outputs, "a list of names of outputs, or left out")
    every = dict.fromkeys(name for shape in shapes for name in (*shape.outputs, *shape.lacking))
    for name in every if outputs is None else outputs:
        if name in common:
            continue
        lacks = any(name in shape.lacking for shape in shapes)
        why = "has no standard error" if lacks else "is not in every release"
        raise QueryError(f"{function}: {written(name)} {why}. Write outputs={common!r}")
    return list(every if outputs is None else dict.fromkeys(outputs))


def _check_keys(function: str, shapes: Sequence[_Shape]) -> None:
    """Refuse releases of different keys."""
    first = shapes[0].keys
    for shape in shapes[1:]:
        if set(shape.keys) != set(first):
            one, other = (", ".join(keys) or "nothing" for keys in (first, shape.keys))
            raise QueryError(
                f"{function}: one release is grouped by {one}, another by {other}. Group both alike"
            )


def _key_types(function: str, parts: Sequence[EstimateTable]) -> dict[str, pa.DataType]:
    """Return the keys of the groups with their types, which are the same in each release."""
    first, *others = ({f.name: _plain_type(f.type) for f in part.keys.schema} for part in parts)
    for own in others:
        for name, kind in first.items():
            if own[name] != kind:
                raise QueryError(
                    f"{function}: {written(name)} is {kind} in one release and {own[name]} in "
                    'another. Group both by one type, with_columns(key="CAST(... AS ...)")'
                )
    return first


def _places(function: str, part: EstimateTable, kinds: Mapping[str, pa.DataType]) -> dict[Any, int]:
    """Return the row of each group, by key."""
    columns = [part.keys[name].cast(kind).to_pylist() for name, kind in kinds.items()]
    rows = zip(*columns, strict=True) if columns else [()] * part._size
    found: dict[Any, int] = {}
    for place, row in enumerate(rows):
        key = tuple("NaN" if isinstance(one, float) and math.isnan(one) else one for one in row)
        if found.setdefault(key, place) != place:
            group = ", ".join(map(written, row)) or "of all rows"
            raise QueryError(
                f"{function}: group {group} is there twice. Pass a release with one row for each group"
            )
    return found


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type by which keys are compared: not how they are stored."""
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if kind in (pa.large_string(), pa.string_view()):
        return pa.string()
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return pa.int64()
    return pa.float64() if pa.types.is_floating(kind) else kind


def _taken(values: Floats, rows: NDArray[np.int64]) -> Floats:
    return np.where(rows < 0, np.nan, np.append(values, np.nan)[rows])


def _half_step(column: pa.ChunkedArray) -> Floats:
    return np.full(len(column), 0.5 if pa.types.is_integer(column.type) else 0.0)


def _floats(column: pa.ChunkedArray) -> Floats:
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))
