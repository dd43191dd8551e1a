"""The noisy table: base class of all releases, with error bars, files, receipts and pickling."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, SupportsIndex
from uuid import uuid4

import pyarrow as pa

from sfumato.budget.epsilon_delta import ExactCost
from sfumato.display.cards import Card
from sfumato.display.formatting import visible
from sfumato.display.result_table import ResultTable, pandas_frame
from sfumato.errors import (
    EngineError,
    RefusalError,
    SfumatoError,
    in_own_words,
    require,
    with_article,
)
from sfumato.files import check_no_source
from sfumato.names import SuggestingArguments, foreign_names
from sfumato.ownership import Owned
from sfumato.plan.plan import Described, describe
from sfumato.plan.serialization import deserialize, deserialize_release, serialize
from sfumato.query.engine_protocol import Evaluator
from sfumato.query.error_bars import BarKind, Bars, Bias, Errors, check_confidence, requested_kind
from sfumato.query.inferred_parameters import Found
from sfumato.release import release_files
from sfumato.release.group_comparison import Comparison
from sfumato.release.payment import Charge, log_answered

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from sfumato.api.largest_groups import TopExplanation
    from sfumato.guidance.diagnostics import Diagnostics
    from sfumato.plan.explanation import Explanation
    from sfumato.query.query import Query
    from sfumato.release.chart import Chart
    from sfumato.release.receipt import Receipt
    from sfumato.release.release import Release


class NoisyTable(SuggestingArguments, ResultTable, Owned, ABC):
    """A noisy table that is safe to publish, with its error bars, explanation and cost.

    It is a `Release` of aggregates by group, a `TopRelease` of the largest groups, or a `ProcessedRelease`,
    which SQL computes from these. The noise is drawn once, on first access, and every later access returns
    the same numbers. A forked process sees the numbers that were drawn before the fork and cannot draw any
    itself. A drawn table can be copied and pickled; copies have the same numbers, hold no rows, and cannot
    draw. A table that is not yet drawn refuses copying and pickling.

    Args:
        engine: the engine that reads the rows.

    >>> import pyarrow as pa, sfumato as sf
    >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
    >>> release = visits.agg(people=sf.count_units()).release(epsilon=1)
    >>> import pickle
    >>> table = release.to_arrow()  # before it is drawn, it stays where it is
    >>> pickle.loads(pickle.dumps(release)).to_arrow() == table
    True
    """

    _foreign = foreign_names.RELEASE
    _elsewhere = (
        "drawn in two places, its noise would be two releases for one charge. Draw it first and send "
        "the result of to_arrow(), or make another release there"
    )

    def __init__(self, engine: Evaluator) -> None:
        self._engine = engine
        self._identity = uuid4().hex  # copies keep it: their noise is the same
        # Of one that was passed on: what was said of its noise and of ledgers where it was drawn.
        self._was_unsafe: bool = False
        self._from_ledger: list[Any] | None = None
        # What a ledger entered for it, which only whoever paid knows; and whether what comes of it is written
        # there as soon as it is drawn.
        self._paid: tuple[Charge, ...] = ()
        self._journals = True
        self._lock = threading.RLock()  # a handler of a signal may look in the middle of a draw
        self._table: pa.Table | None = None
        self._began = 0.0

    @property
    def spent(self) -> tuple[float, float]:
        """The budget (epsilon, delta) that bounds the privacy loss of the noisy table."""
        epsilon, delta = self._spent
        return float(epsilon), float(delta)

    @property
    @abstractmethod
    def _spent(self) -> ExactCost:
        """The exact budget that the noisy table stays within."""

    @property
    @abstractmethod
    def _plans(self) -> tuple[Described, ...]:
        """The plans of all that the noisy table draws."""

    @property
    @abstractmethod
    def drawn(self) -> bool:
        """Whether the noise of the table has been drawn."""

    @property
    def made(self) -> pa.Table | None:
        """The noisy table if it is drawn and in memory, otherwise None. It never reads or draws."""
        return self._table

    @property
    @abstractmethod
    def measured(self) -> list[str]:
        """The columns of the noisy table with error bars."""

    @property
    def _query(self) -> Query | None:
        """The query of each group of the noisy table, if these are its rows."""
        return None

    @property
    def bars(self) -> Bars:
        """The default error bars of the noisy table."""
        return Bars()

    @property
    def bias(self) -> Bias:
        """The bias that limits and bounds can cause in the noisy table, which error bars do not include."""
        return Bias()

    def _attributes(self, bars: Bars | None = None) -> dict[str, Any]:
        """Return the facts that go with the noisy table into frames and files.

        Args:
            bars: the error bars beside the numbers; None without any.
        """
        (epsilon, delta), bias = self.spent, self.bias
        found: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
        if sentence := bias.describe():
            found["bias"] = sentence
        return found | ({} if bars is None else {"error_bars": bars.describe(bias)})

    def _with_metadata(self, made: pa.Table, bars: Bars | None = None) -> pa.Table:
        """Return the noisy table with facts about its numbers in the metadata of its schema.

        Args:
            bars: the error bars beside the numbers; None without any.
        """
        if release_files.METADATA in (made.schema.metadata or {}):
            return made
        return made.replace_schema_metadata(release_files.schema_metadata(self._attributes(bars)))

    @property
    def repeats(self) -> int | None:
        """The ledger entry whose answer this table repeats at no charge, or None if it is new."""
        return next((one.entry.number for one in self._paid if one.again.body is not None), None)

    def _take(self, paid: Sequence[Charge]) -> None:
        """Keep the ledger entries of the noisy table; take the answer if a journal has it.

        Raises:
            EngineError: that is no answer, by somebody's hand or damage.
        """
        self._paid = tuple(paid)
        for one in self._paid:
            if one.again.body is not None:
                with in_own_words(_no_answer, Exception):
                    self._restore(deserialize(one.again.body))

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Pickle or copy a noisy table that was drawn; refuse otherwise.

        Raises:
            RefusalError: it was not drawn.
        """
        with self._turn():
            if not self.drawn:
                return super().__reduce_ex__(protocol)  # which refuses
            return deserialize_release, (type(self), self._state())

    def _state(self) -> dict[str, Any]:
        """Return the finished noisy table for another process: its noisy statistics and plan, and no rows."""
        state = {"identity": self._identity, "unsafe": self._unsafe, "entered": self._entered}
        return state | {"numbers": serialize(self._pickled_numbers())}

    def _set_state(self, state: Mapping[str, Any]) -> None:
        """Become the finished noisy table that `_state` describes."""
        self._from_ledger = state["entered"]
        self._identity = state["identity"]
        self._was_unsafe = state["unsafe"]
        if (numbers := deserialize(state["numbers"])) is not None:
            self._restore(numbers)

    @property
    def _entered(self) -> list[Any] | None:
        """The ledger entries of the noisy table, as plain data."""
        return self._from_ledger or [paid.entry.row() for paid in self._paid] or None

    @abstractmethod
    def _noisy_numbers(self) -> Any:
        """Return the noisy statistics as `serialize` takes them; None where they are not kept."""

    def _pickled_numbers(self) -> Any:
        """Return the noisy statistics that go along when the noisy table is copied or pickled."""
        return self._noisy_numbers()

    @abstractmethod
    def _restore(self, state: Any) -> None:
        """Have the noisy statistics of a release of the same query, in place of a draw."""

    @property
    def _repeatable(self) -> bool:
        """Whether a journal may give the same numbers once more, for nothing."""
        return True

    @property
    def diagnostics(self) -> Diagnostics | None:
        """The diagnostics of limits and bounds, if `diagnostics=` was given; drawn on first access."""
        return None

    @property
    def found(self) -> tuple[Found, ...]:
        """The parameters that the release inferred, such as bounds, with their costs."""
        return ()

    @property
    def hints(self) -> tuple[str, ...]:
        """Signs in the noisy table that the query may not be the intended one; free of charge."""
        return ()

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return the noisy table; its schema's metadata states what the numbers do not include.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> release = visits.agg(people=sf.count_units()).release(epsilon=1)
        >>> release.to_arrow().column_names
        ['people']
        """

    def frame(
        self,
        *,
        errors: Errors = False,
        confidence: float | None = None,
        simultaneous: bool = False,
        sampling: bool | None = None,
    ) -> pandas.DataFrame:
        """Return the noisy table as a pandas data frame, optionally with error bars.

        `frame.attrs["sfumato"]` states what the error bars cover and whether limits and bounds may bias the
        numbers.

        Args:
            errors: True to add the half-width of each number `n` in a column `n_error` after it; "standard"
                to add its standard error in `n_standard_error`.
            confidence: the confidence of half-widths, in (0, 1); the default is that of the release, or 0.95.
            simultaneous, sampling: as for `errors`.
        Returns:
            A pandas data frame.
        Raises:
            ParameterError: confidence is not in (0, 1).
            QueryError: the name of an error-bar column is taken.
            RefusalError: there are no error bars.
            EngineError: pandas is not installed.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> release = visits.agg(people=sf.count_units()).release(epsilon=1)
        >>> list(release.frame(errors=True))
        ['people', 'people_error']
        """
        require("pandas", "pandas")
        bars = self._requested_bars(errors, confidence, simultaneous, sampling)
        if bars is None or not errors:
            return self.to_pandas()
        self._check_bars(bars)
        return pandas_frame(self._with_bars(bars), self._attributes(bars))

    def _bars(
        self,
        confidence: float | None = None,
        simultaneous: bool = False,
        sampling: bool | None = None,
        kind: BarKind = "half_width",
    ) -> Bars:
        """Return the requested error bars, with the defaults of the noisy table."""
        given = self.bars.confidence if confidence is None else confidence
        default = self.bars.sampling and kind != "standard"
        bars = Bars._check(given, simultaneous, default if sampling is None else sampling, kind)
        return replace(bars, selected=self.bars.selected)

    def _requested_bars(
        self, errors: Errors, confidence: float | None, simultaneous: bool, sampling: bool | None
    ) -> Bars | None:
        """Return the error bars to put beside the numbers; None if none are requested."""
        kind = requested_kind(errors)
        bars = self._bars(confidence, simultaneous, sampling, kind or "half_width")
        return bars if kind or confidence is not None else None

    def plot(
        self,
        path: str | Path | None = None,
        *,
        confidence: float | None = None,
        simultaneous: bool = False,
        sampling: bool | None = None,
    ) -> Figure | None:
        """Draw a bar chart with error bars: a panel for each output, a bar for each group.

        With more than 9 outputs or 60 groups it draws the first ones, and the chart says so. The same release
        always gives the same file, byte for byte.

        Args:
            path: where to write a .png or .svg; leave it out to display the figure in a notebook.
            confidence, simultaneous, sampling: of the error bars, as for `errors`.
        Returns:
            A matplotlib figure, or None if it was written to a path.
        Raises:
            ParameterError: the path or the confidence is not valid.
            QueryError: the groups were processed further, or the release has no numbers.
            EngineError: matplotlib is not installed.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> release = visits.agg(people=sf.count_units()).release(epsilon=1)
        >>> len(release.plot().axes)  # a panel for each output
        1
        """
        from sfumato.release.chart import bar_chart

        return bar_chart(self, path, self._bars(confidence, simultaneous, sampling))

    @abstractmethod
    def _chart(self, bars: Bars) -> Chart:
        """Return the chart of the noisy table, as plain data.

        Raises:
            QueryError: as of `plot`.
        """

    def errors(
        self,
        confidence: float = 0.95,
        *,
        kind: BarKind = "half_width",
        simultaneous: bool = False,
        sampling: bool | None = None,
    ) -> pa.Table:
        """Return half-widths of error bars or standard errors: the keys, and a column for each output.

        For columns that SQL computes, sums with public weights and their ratios have error bars; other
        columns are NULL.

        Args:
            confidence: in (0, 1), the probability that an exact statistic of the bounded contributions is
                within its half-width of the released number. Standard errors do not depend on it.
            kind: "half_width", or "standard" for the standard deviation of the noise in each output. It is
                exact for counts and sums, and of first order for means, ratios and variances: NULL where
                these are clamped or divide by a number below 5 of its own standard errors. Quantiles have
                none.
            simultaneous: let the confidence hold for all groups and outputs at once.
            sampling: let error bars cover a large population of which the units are a simple random sample:
                its mean or share, and the count or sum that such samples have on average, of bounded
                contributions. It covers counts, sums, means and proportions; error bars of other outputs are
                NULL. The default is what the release was asked for.
        Returns:
            An Arrow table.
        Raises:
            ParameterError: confidence is not in (0, 1), or the kind does not exist.
            QueryError: no output has such error bars, as for standard errors of quantiles, or for means with
                sampling where rows is more than 1.
            RefusalError: the release was streamed to a file, which keeps outputs alone; the release has no
                numbers of the largest groups; or error bars cannot be traced through the SQL.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> release = visits.agg(people=sf.count_units()).release(epsilon=1)
        >>> release.errors(0.95).to_pylist(), release.errors(kind="standard")["people"][0].as_py()
        ([{'people': 3.0}], 1.35...)
        """
        return self._errors(self._bars(check_confidence(confidence), simultaneous, sampling, kind))

    @abstractmethod
    def _errors(self, bars: Bars) -> pa.Table:
        """Return the requested error bars, as of `errors`."""

    def compare(
        self,
        output: str,
        first: object,
        second: object,
        confidence: float = 0.95,
        *,
        sampling: bool | None = None,
    ) -> Comparison:
        """Compare an output of two groups: return the difference and the ratio, with intervals.

        Without `sampling` the intervals cover the noise alone and say nothing about a population: two random
        halves of a table differ by more.

        Args:
            output: the name of the output.
            first, second: the groups: a key, or several keys in order or by name, such as {"year": 1984}.
            confidence: in (0, 1), the chance that each interval contains the value of the exact statistics.
            sampling: let the intervals cover a large population, as for `errors`.
        Returns:
            A `Comparison`, with `difference` and `ratio`.
        Raises:
            ParameterError: confidence is not in (0, 1).
            QueryError: the output does not exist, or the release does not show such a group.
            RefusalError: the release keeps no noisy parts to compare.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2, 3], "year": [1984, 1984, 1985]}), privacy_unit="id")
        >>> by_year = visits.group_by("year", keys=[1984, 1985]).bound(groups=1)
        >>> release = by_year.agg(people=sf.count_units()).release(epsilon=1)
        >>> release.compare("people", 1985, 1984).confidence
        0.95
        """
        release = self._grouped("compare")
        return release._compared(
            output, first, second, release._bars(check_confidence(confidence), sampling=sampling)
        )

    def share_of_total(
        self, output: str, confidence: float = 0.95, *, sampling: bool | None = None
    ) -> pa.Table:
        """Return each group's share of a count or a sum over all shown groups, with intervals.

        Args:
            output: the name of the output.
            confidence: in (0, 1), the chance that each interval from `low` to `high` contains the exact share
                among the shown groups.
            sampling: let the intervals cover a large population, as for `errors`.
        Returns:
            The keys, `share`, `low` and `high`; the schema's metadata state what the intervals cover.
        Raises:
            ParameterError: confidence is not in (0, 1).
            QueryError: the output does not exist, or does not add up.
            RefusalError: the release keeps no noisy parts to compare.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2, 3], "year": [1984, 1984, 1985]}), privacy_unit="id")
        >>> by_year = visits.group_by("year", keys=[1984, 1985]).bound(groups=1)
        >>> release = by_year.agg(people=sf.count_units()).release(epsilon=1)
        >>> release.share_of_total("people").column_names
        ['year', 'share', 'low', 'high']
        """
        release = self._grouped("share_of_total")
        return release._shares(output, release._bars(check_confidence(confidence), sampling=sampling))

    def _grouped(self, method: str) -> Release:
        """Return the release behind the noisy table whose groups a method compares.

        Raises:
            RefusalError: there is none.
        """
        raise RefusalError(_NOT_BY_GROUP.format(method))

    def write(
        self,
        path: str | Path,
        *,
        errors: Errors = False,
        confidence: float | None = None,
        simultaneous: bool = False,
        sampling: bool | None = None,
    ) -> None:
        """Write the noisy table to .parquet, .csv, .json (one object per line) or .xlsx (Excel).

        A complete new file replaces a file of the same name. A release by group that was not accessed before
        is streamed, one batch of groups at a time, except to a workbook. A workbook has error bars next to
        the numbers, where there are any, and a sheet that describes the release: cost, privacy unit, limits,
        bounds, and a digest of its plan. That sheet also states what error bars cover and whether limits and
        bounds may bias the numbers. Other formats state it in the metadata of the Parquet schema or, for CSV
        and JSON, in a second file such as `people.csv-metadata.json`, which also replaces a file of that
        name.

        Args:
            path: where to write; the ending selects the format.
            errors: True to add error bars, in columns named `<output>_error` after each number, at the
                release's confidence or 0.95; a workbook always has them. For columns that SQL computes, only
                numbers that stay as released have them. "standard" to add standard errors in columns named
                `<output>_standard_error`.
            confidence: add error bars at this confidence.
            simultaneous: as for `errors(...)`. It needs the number of groups, so nothing is streamed.
            sampling: as for `errors(...)`.
        Raises:
            ParameterError: the path is not valid or is a source of the rows, or a column has lists or the
                like, which CSV and Excel cannot hold.
            EngineError: XlsxWriter is not installed, for .xlsx.
            QueryError: the name of an error-bar column is taken.
            RefusalError: error bars are requested and there are none, or the release was streamed.
            OSError: the file cannot be written; nothing is drawn if that is known before.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> release = visits.agg(people=sf.count_units()).release(epsilon=1)
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release.write(f"{folder}/people.csv", errors=True)
        ...     print((Path(folder) / "people.csv").read_text().split()[0])
        "people","people_error"
        """
        target = release_files.check_path(path, workbook=True)

        def check() -> None:
            for file in release_files.written_files(target):
                self._check_no_source(file)

        check()
        self._check_lists(Path(path))
        bars = self._requested_bars(errors, confidence, simultaneous, sampling)
        if bars is not None:
            self._check_bars(bars)
        if release_files.is_workbook(target):
            self._write_workbook(target, bars, check)
        else:
            self._write(target, bars, check)

    def _write_workbook(self, target: Path, bars: Bars | None, check: Callable[[], object]) -> None:
        """Write the noisy table to a workbook, with error bars if it has any, and facts about it."""
        if bars is None and self.measured:
            with suppress(SfumatoError):  # of names that are taken
                self._check_bars(self.bars)
                bars = self.bars
        table = self.to_arrow() if bars is None else self._with_bars(bars)
        release_files.write_workbook(target, table, release_files.about(self, bars), check)

    def _write(self, target: Path, bars: Bars | None, check: Callable[[], object]) -> None:
        """Write the noisy table to a file, with error bars if requested; `check` runs last."""
        table = self.to_arrow() if bars is None else self._with_bars(bars)
        self._write_batches(target, iter(table.to_batches()), bars, check)

    def _write_batches(
        self,
        target: Path,
        batches: Iterator[pa.RecordBatch],
        bars: Bars | None,
        check: Callable[[], object],
    ) -> tuple[int, ...]:
        """Write batches of the noisy table, with facts about its numbers."""
        return release_files.write(target, batches, check, self._attributes(bars))

    @abstractmethod
    def explain(self) -> Explanation | TopExplanation:
        """Return the explanation of the noisy table: each step with its noise and cost.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> release = visits.agg(people=sf.count_units()).release(epsilon=1)
        >>> print(str(release.explain()).splitlines()[1])
        2. Let each id count once.
        """

    def receipt(
        self,
        *,
        errors: Errors = False,
        confidence: float | None = None,
        simultaneous: bool = False,
        sampling: bool | None = None,
    ) -> Receipt:
        """Return a receipt for `sfumato verify`: cost, plan, a digest of the answer, and the ledger entry.

        It draws the noise if it was not drawn before. The digest comes from the noisy answer alone, so the
        receipt reveals nothing else about the rows and costs nothing.

        Args:
            errors: also cover the error bars that `write(..., errors=True)` writes.
            confidence: also cover error bars, at this confidence.
            simultaneous, sampling: as for `errors`.
        Returns:
            A `Receipt`.
        Raises:
            ParameterError, QueryError, RefusalError: about error bars, as for `write`.
        Source:
            docs/receipts.md.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> receipt = visits.agg(people=sf.count_units()).release(epsilon=1).receipt()
        >>> receipt.spent[0], receipt.answer.rows, [column.name for column in receipt.answer.columns]
        (Fraction(1, 1), 1, ['people'])
        """
        from sfumato.release.answer_digest import Answer
        from sfumato.release.receipt import Receipt

        given = self._requested_bars(errors, confidence, simultaneous, sampling)
        if given is not None:
            self._check_bars(given)
        answer = Answer._from_table(self.to_arrow())
        bars = None if given is None else Answer._from_table(self._with_bars(given))
        return Receipt(
            self._spent,
            self.canonical(),
            answer,
            bars,
            dummy=self._dummy,
            unsafe_words=self._unsafe,
            ledger=self._entered,
            bias=self.bias.describe(),
            description=describe(self._plans),
        )

    def _record_answer(self, **said: Any) -> None:
        """Record in the journal of the ledger that the noisy table was drawn."""
        for paid in self._paid:
            found = {"plan": self.canonical()} if self.found else {}
            paid.record("answered", **found, unsafe_words=self._unsafe or None, **said)

    def _failed(self, error: Exception) -> None:
        """Record in the journal that no noisy table was drawn, and the kind of error, not its text."""
        for paid in self._paid:
            paid.record("failed", error=type(error).__name__)

    def _drew(self, rows: int | None) -> None:
        """Record that the noisy table was drawn; with its digest, if that takes no time.

        Args:
            rows: how many it has; None where nobody counted them.
        """
        log_answered(self._engine.name, monotonic() - self._began)
        if self._paid and self._journals:
            digest = None
            if rows is not None and rows <= _DIGESTED:
                with suppress(Exception):  # which would cost an answer that is there
                    digest = self.receipt().sha256
            self._record_answer(rows=rows, receipt=digest, **self._to_be_given_again())

    def _to_be_given_again(self) -> dict[str, Any]:
        """Return what the journal needs to repeat the noisy table at no charge."""
        again = next((one.again for one in self._paid if one.again.question is not None), None)
        if again is None or self._unsafe or not self._repeatable:
            return {}
        if (found := self._noisy_numbers()) is None:
            return {}
        return {"question": again.question, "data": again.data, "body": serialize(found)}

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Write what fails within."""
        self._began = monotonic()
        try:
            yield
        except Exception as error:
            if self._journals:
                self._failed(error)
            raise

    @property
    def _dummy(self) -> bool:
        """Whether the rows behind the noisy table are made up."""
        return self._engine.made_up

    @property
    @abstractmethod
    def _unsafe(self) -> bool:
        """Whether the noise of the table is from an insecure source."""

    @abstractmethod
    def canonical(self) -> dict[str, Any]:
        """Return the canonical form of the query behind the noisy table.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> release = visits.agg(people=sf.count_units()).release(epsilon=1)
        >>> release.canonical()["privacy_unit"]
        'id'
        """

    @abstractmethod
    def _check_bars(self, bars: Bars) -> None:
        """Refuse error bars that cannot be written beside the noisy table, before it is drawn.

        Raises:
            ParameterError, QueryError, RefusalError: as of `write`.
        """

    def _check_lists(self, path: Path) -> None:
        """Refuse a file without place for lists if the noisy table has any, before it is drawn.

        Raises:
            ParameterError: it is a CSV file.
        """

    @abstractmethod
    def _with_bars(self, bars: Bars) -> pa.Table:
        """Return the noisy table with error bars, as `write` writes it."""

    @abstractmethod
    def _card(self) -> Card:
        """Return the rich display of the noisy table; nothing is read, drawn or spent for it."""

    @property
    @abstractmethod
    def _subject(self) -> str:
        """The columns or groups of the noisy table, in words."""

    def __repr__(self) -> str:
        (epsilon, delta), dummy = self.spent, ", of dummy rows" if self._dummy else ""
        name = type(self).__name__
        return visible(f"<{name} of {self._subject}; epsilon={epsilon:g}, delta={delta:g}{dummy}>")

    def _check_no_source(self, path: Path, name: str = "output path") -> None:
        """Refuse to write a file of the noisy table over a file that its rows come from.

        Raises:
            ParameterError: the path, which came by the parameter `name`, is a file that is read.
        """
        check_no_source(path, self._engine.files, name)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Take the lock of the noisy table: one access at a time, in the process that made it."""
        if self._at_home:
            with self._lock:
                yield
        else:
            yield


def _no_answer(_: Exception) -> EngineError:
    return EngineError(
        "the kept answer to the same query was changed by hand, or is damaged. Run sfumato journal "
        "verify, or query a new version of the data (journal declare)"
    )


NO_LISTS = (".csv", ".xlsx")
_DIGESTED = 10_000  # rows, of which digests take some milliseconds
_NOT_BY_GROUP = (
    "{} is for a release by groups. For the largest groups, to_arrow() has the numbers and errors() "
    "their error bars"
)


def make_draw_error(error: Exception) -> EngineError:
    """Make the error of a noisy table whose draw stopped, without the text that may quote rows."""
    kind = type(error).__name__
    return EngineError(
        f"the release failed with {with_article(kind)} (its text is left out, as it may quote rows)"
    )
