"""A processed release: SQL around released tables, which costs nothing more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from sfumato.budget.epsilon_delta import ExactCost
from sfumato.display.cards import Card
from sfumato.errors import EngineError, ParameterError, QueryError, RefusalError
from sfumato.files import check_no_source
from sfumato.measurements.int128_array import arrow_column
from sfumato.noise.law_tails import Floats
from sfumato.plan.explanation import Explanation
from sfumato.plan.plan import Described
from sfumato.plan.serialization import DetachedComputation
from sfumato.query.error_bars import Bars, Bias, check_error_names
from sfumato.query.inferred_parameters import Found
from sfumato.query.linear_forms import LinearSql
from sfumato.release.canonical_form import VERSION
from sfumato.release.linear_bars import HALF_WIDTHS_ALONE, LinearWidths
from sfumato.release.noisy_table import NO_LISTS, NoisyTable
from sfumato.release.release import Release
from sfumato.release.release_display import error_bars, processed_facts, release_card
from sfumato.release.top_release import TopRelease

if TYPE_CHECKING:
    from sfumato.guidance.diagnostics import Diagnostics
    from sfumato.release.chart import Chart
    from sfumato.release.payment import Charge


NOT_FOLLOWED = (
    "errors: error bars are known for one SELECT around the private one that computes row by row, or adds "
    "rows up with public weights. Write DP_INTERVAL_LOW(name) and DP_INTERVAL_HIGH(name) in the SQL, or use "
    ".released, the noisy table before it"
)


_OF_THE_NOISY_TABLES = (
    "this is computed from several released tables. Use one of .released, such as released[0].compare(...)"
)


_SELECTED = (
    "Noisy numbers decide which rows are shown, so these are more extreme on average than the exact ones."
)


class Computation(Protocol):
    """Protocol of the SQL around released tables; it reads these and public tables alone."""

    text: str
    files: tuple[str, ...]
    schema: pa.Schema
    columns: tuple[tuple[str, str | None], ...] | None
    selects: bool
    linear: LinearSql | None

    def content(self) -> dict[str, Any]:
        """Return the SQL around released tables as plain data."""
        ...

    def run(self, released: Sequence[Release | TopRelease]) -> tuple[pa.Table, pa.Array | None]:
        """Return the processed table, and the released row of each of its rows, or weights of several."""
        ...


class ProcessedRelease(NoisyTable):
    """A release that SQL computes from released tables.

    `sql` returns it.

    It uses noisy tables and public tables alone, so its cost is that of the releases. On first access they
    are drawn, one after the other, and processed once. If processing fails, for example because of a cast of
    a noisy number, `released` still has the numbers drawn.

    Args:
        releases: the noisy tables that it uses, in the order of the text.
        computation: the computation with them.
    """

    def __init__(self, releases: Sequence[Release | TopRelease], computation: Computation) -> None:
        super().__init__(releases[0]._engine)
        self._releases: tuple[Release | TopRelease, ...] = tuple(releases)
        self._computation = computation
        self._paid: tuple[Charge, ...] = releases[0]._paid  # as they were paid together
        for release in releases:
            release._journals = False  # all of it is one question
        self._rows: pa.Array | None = None

    @property
    def diagnostics(self) -> Diagnostics | None:
        """The diagnostics of the release before the SQL; with several releases, each has its own."""
        return self._releases[0].diagnostics if len(self._releases) == 1 else None

    @property
    def released(self) -> Release | TopRelease | tuple[Release | TopRelease, ...]:
        """The noisy table before the SQL, or a tuple if there are several."""
        return self._releases if len(self._releases) > 1 else self._releases[0]

    @property
    def hints(self) -> tuple[str, ...]:
        """The hints of all releases before the SQL."""
        return tuple(dict.fromkeys(hint for release in self._releases for hint in release.hints))

    @property
    def found(self) -> tuple[Found, ...]:
        """The inferred parameters of all releases before the SQL, in order."""
        return tuple(found for release in self._releases for found in release.found)

    @property
    def _plans(self) -> tuple[Described, ...]:
        """The plans of all releases before the SQL."""
        return tuple(plan for release in self._releases for plan in release._plans)

    @property
    def _spent(self) -> ExactCost:
        """The exact budget of all releases before the SQL, by basic composition."""
        epsilons, deltas = zip(*(release._spent for release in self._releases), strict=True)
        return ExactCost(sum(epsilons, Fraction(0)), sum(deltas, Fraction(0)))

    @property
    def drawn(self) -> bool:
        """Whether the noise of all releases before the SQL has been drawn."""
        return all(release.drawn for release in self._releases)

    @property
    def bars(self) -> Bars:
        """The error bars of the single release before the SQL, and whether noisy numbers select rows."""
        bars = self._releases[0].bars if len(self._releases) == 1 else Bars()
        return replace(bars, selected=self._computation.selects)

    @property
    def bias(self) -> Bias:
        """The bias that limits and bounds can cause in any release before the SQL."""
        return reduce(or_, (release.bias for release in self._releases))

    def _grouped(self, method: str) -> Release:
        return self._only._grouped(method)

    @property
    def _only(self) -> Release | TopRelease:
        """The one release before the SQL."""
        if len(self._releases) > 1:
            raise RefusalError(_OF_THE_NOISY_TABLES)
        return self._releases[0]

    @property
    def _followed(self) -> bool:
        """Whether columns that the SQL leaves as they were released have error bars."""
        return self._computation.columns is not None or self._computation.linear is not None

    def to_arrow(self) -> pa.Table:
        """Return the processed table, in the order given by the SQL.

        Returns:
            An Arrow table.
        Raises:
            SqlError: the computation with these noisy numbers failed; `released` has them.
            EngineError: rows of a release could not be read; `released` has the releases drawn before.
        """
        failed: EngineError | None = None
        with self._turn():
            try:
                if self._table is None:
                    with self._telling():
                        self._table, self._rows = self._computation.run(self._releases)
                    self._drew(self._table.num_rows)
                self._table = self._with_metadata(self._table)
            except EngineError as error:
                failed = self._with_what_is_left(error)
            if failed is None:
                return self._table
        raise failed

    def _with_what_is_left(self, error: EngineError) -> EngineError:
        """Add to the error of one release that those drawn before it are not lost."""
        drawn = sum(release.drawn for release in self._releases)
        if not drawn:
            return error
        return EngineError(
            f"{error}. {drawn} of the {len(self._releases)} tables that the text releases "
            f"{'was' if drawn == 1 else 'were'} drawn before, and the budget of all is spent; read "
            f"{'it' if drawn == 1 else 'them'} from `.released` of this release"
        )

    def _errors(self, bars: Bars) -> pa.Table:
        """Return error bars for the processed rows; NULL where a column has none."""
        if self._computation.linear is not None:
            return self._linear_errors(bars)
        columns = self._computation.columns
        if columns is None:
            raise RefusalError(NOT_FOLLOWED)
        table = self.to_arrow()
        if not self.measured:
            return pa.table([pa.nulls(len(table), pa.float64()) for _ in columns], names=table.schema.names)
        widths = bars._widths(self._releases[0]).take(self._rows)
        released = self._releases[0].to_arrow().take(self._rows)
        given, measured = [], self.measured
        for (shown_as, name), shown in zip(columns, table.columns, strict=True):
            bar = pa.nulls(len(table), pa.float64()) if name is None else widths[name]
            if shown_as in measured and not bars.standard:
                bar = _make_bars(shown, released[name], bar)
            given.append(bar)
        return pa.table(given, names=table.schema.names)

    def _linear_errors(self, bars: Bars) -> pa.Table:
        """Return error bars of columns that are computed from several released rows."""
        self._check_bars(bars)
        table, linear = self.to_arrow(), self._computation.linear
        if linear is None or self._rows is None:
            raise RefusalError(NOT_FOLLOWED)
        batches, weights = self._grouped("errors")._kept(), pa.Table.from_struct_array(self._rows)
        among = len(self.measured) * len(table) if bars.simultaneous else 1
        widths = LinearWidths.of(batches, (1 - bars.confidence) / max(among, 1))
        found = [
            pa.nulls(len(table), pa.float64())
            if c is None
            else arrow_column(widths(c, weights, _numbers(shown)))
            for c, shown in zip(linear.columns, table.columns, strict=True)
        ]
        return pa.table(found, names=table.schema.names)

    @property
    def _drawable(self) -> bool:
        """Whether a processed release has a chart: that of groups and totals before the SQL."""
        one = self._releases[0]
        return len(self._releases) == 1 and isinstance(one, Release) and one.plan.query.totals is not None

    def _chart(self, bars: Bars) -> Chart:
        """Return the chart of what was released before the SQL, if it has totals."""
        one = self._releases[0]
        if not self._drawable or not isinstance(one, Release):
            raise QueryError(
                "plot: only groups with their released aggregates are drawn. Plot .released, or the "
                "result of to_pandas()"
            )
        return one._chart(
            bars,
            "Groups and totals as they were released, before the SQL computes with them.",
        )

    def explain(self) -> Explanation:
        """Return the explanation of all releases, and last of the SQL around them."""
        explained = [release.explain().to_dict() for release in self._releases]
        computed = {"computed": self._computation.text}
        explained[0] |= {"notes": [*explained[0]["notes"], *self._selected]}
        if len(explained) == 1:
            return Explanation(explained[0] | computed)
        epsilon, delta = map(str, self._spent)
        return Explanation({"releases": explained, "budget": {"epsilon": epsilon, "delta": delta}} | computed)

    @property
    def _selected(self) -> tuple[str, ...]:
        """The note on rows that noisy numbers select, if they do."""
        return (_SELECTED,) if self._computation.selects else ()

    def _check_no_source(self, path: Path, name: str = "output path") -> None:
        """Refuse to write over a file that a release or the SQL around it reads."""
        for release in self._releases:
            release._check_no_source(path, name)
        check_no_source(path, self._computation.files, name)

    def _check_lists(self, path: Path) -> None:
        """Refuse a file without place for lists if the SQL returns any."""
        if path.suffix.lower() in NO_LISTS and any(map(pa.types.is_nested, self._computation.schema.types)):
            raise ParameterError("output path", str(path), ".parquet or .json, as a column holds lists")

    @property
    def measured(self) -> list[str]:
        """The columns of the processed table with error bars."""
        if (linear := self._computation.linear) is not None:
            named = zip(self._computation.schema.names, linear.columns, strict=True)
            return [name for name, column in named if column is not None]
        first, found = self._releases[0], self._computation.columns or ()
        keys = first.plan.query.shown_keys if isinstance(first, Release) else first.keys
        return [name for name, released in found if released is not None and released not in keys]

    def _card(self) -> Card:
        bars = self.bars if self.made is not None and self.measured else None
        hints = self.hints if self.made is not None else ()
        notes = [
            *(note for release in self._releases for note in release.explain().to_dict()["notes"]),
            *self._selected,
            *hints,
        ]
        said = [*processed_facts(self), *error_bars(self, bars)]
        texts = self._computation.schema
        keys = [name for name, kind in zip(texts.names, texts.types, strict=True) if not _numeric(kind)]
        return release_card(self, [*said, *(("note", note) for note in dict.fromkeys(notes))], keys)

    @property
    def _subject(self) -> str:
        return ", ".join(self._computation.schema.names)

    @property
    def _dummy(self) -> bool:
        return any(release._dummy for release in self._releases)

    def _take(self, paid: Sequence[Charge]) -> None:
        """Keep the ledger entries of all releases before the SQL; or take the journal's answer."""
        for release in self._releases:
            release._paid = tuple(paid)
        super()._take(paid)

    def _noisy_numbers(self) -> Any:
        """Return the noisy statistics of all releases, and what SQL computed with them."""
        numbers = [release._noisy_numbers() for release in self._releases]
        if self._table is None or any(one is None for one in numbers):
            return None
        return numbers, *self._pickled_numbers()[1:]

    def _pickled_numbers(self) -> tuple[Any, ...]:
        """Return what SQL computed, and which released row each of its rows is; the releases keep theirs."""
        return None, self._table, None if self._rows is None else pa.table({"rows": self._rows})

    def _restore(self, state: Any) -> None:
        """Have the noisy statistics of releases of the same queries, and what was computed with them."""
        numbers, self._table, rows = state
        self._rows = None if rows is None else rows["rows"].combine_chunks()
        for release, one in zip(self._releases, numbers or (), strict=numbers is not None):
            release._restore(one)

    @property
    def _repeatable(self) -> bool:
        """Whether a journal may give the same numbers once more, of every release."""
        return all(release._repeatable for release in self._releases)

    def _state(self) -> dict[str, Any]:
        """Return the processed release for another process: its releases, and what SQL computed with them."""
        what = self._computation
        computed = DetachedComputation(
            what.text, what.schema, what.columns, what.content(), selects=what.selects, linear=what.linear
        )
        return super()._state() | {"releases": tuple(map(copy, self._releases)), "computation": computed}

    def _set_state(self, state: Mapping[str, Any]) -> None:
        """Become the finished release that `_state` describes."""
        ProcessedRelease.__init__(self, state["releases"], state["computation"])
        super()._set_state(state)

    @property
    def _unsafe(self) -> bool:
        return any(release._unsafe for release in self._releases)

    def canonical(self) -> dict[str, Any]:
        """Return the canonical forms of all releases and the SQL around them."""
        return {
            "version": VERSION,
            "asks": "computed",
            "releases": [release.canonical() for release in self._releases],
            **self._computation.content(),
        }

    def _with_bars(self, bars: Bars) -> pa.Table:
        """Return the processed table with error bars, as `write` writes it."""
        table, widths = self.to_arrow(), bars._widths(self)
        for name in self.measured:
            behind = table.column_names.index(name) + 1
            table = table.add_column(behind, f"{name}{bars.suffix}", widths[name])
        return table

    def _check_bars(self, bars: Bars) -> None:
        """Refuse error bars that a processed release cannot write."""
        if not self._followed:
            raise RefusalError(NOT_FOLLOWED)
        if self._computation.linear is not None and (bars.standard or bars.sampling):
            raise RefusalError(HALF_WIDTHS_ALONE)
        self._releases[0]._check_kind(bars)
        check_error_names(self.measured, self._computation.schema.names, bars.suffix)


def _numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _make_bars(shown: pa.ChunkedArray, released: pa.ChunkedArray, bar: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return error bars around the numbers that SQL shows, from those around the released ones."""
    if not _numeric(bar.type):
        return bar
    apart = np.nan_to_num(np.abs(_numbers(shown) - _numbers(released)))
    return pa.chunked_array([arrow_column(_numbers(bar) + apart)]) if apart.any() else bar


def _numbers(column: pa.ChunkedArray) -> Floats:
    """Return a released column as float64 for the SQL; lists of one length in two dimensions."""
    if not pa.types.is_fixed_size_list(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False).astype(float))
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False).astype(float)
    return np.asarray(flat.reshape(-1, column.type.list_size))


def with_intervals(
    released: Release | TopRelease,
    intervals: tuple[tuple[str, str, bool, str], ...],
    bars: Bars,
    row: str,
) -> pa.Table:
    """Return the released table for the SQL, with ends of error bars and row numbers.

    Args:
        released: what is looked at, and drawn if it was not.
        intervals: of each column its name, of which output it is an end, whether the upper one, and what it
            is called.
        bars: the error bars.
        row: the name of the column of numbers.
    """
    table = released.to_arrow()
    widths = bars._widths(released) if intervals else None
    added = {}
    for name, of, high, _ in intervals:
        assert widths is not None
        values, width = _numbers(table[of]), _numbers(widths[of])
        added[name] = arrow_column(values + width if high else values - width)
    for name, column in added.items():
        table = table.append_column(name, column)
    return table.append_column(row, pa.array(np.arange(table.num_rows, dtype=np.int64)))
