"""Results from a service: remote releases, costs and what is left of a budget."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from sfumato.dataclass import dataclass
from sfumato.display.cards import Card
from sfumato.display.formatting import visible
from sfumato.display.result_table import ResultTable, pandas_frame
from sfumato.errors import ParameterError, QueryError, RefusalError
from sfumato.exact import truth_value
from sfumato.names import SuggestingArguments, foreign_names
from sfumato.release.release_files import schema_metadata

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

    from sfumato.release.receipt import Receipt

_ABOUT = b"sfumato"
_FILES = (
    "write",
    "to_csv",
    "to_parquet",
    "to_json",
    "write_csv",
    "write_parquet",
    "save",
    "export",
    "to_excel",
)
_NUMBERS = ("plot", "chart", "compare", "share_of_total", "measured")


class Cost(NamedTuple):
    """The cost of a remote release: an epsilon and a delta.

    Part of the answers of a `Client`, which `connect` returns.

    Args:
        epsilon, delta: as floats.
    """

    epsilon: float
    delta: float


class Left(NamedTuple):
    """What is left of a budget at a service, like `Budget.remaining`.

    `remaining` of a `Client`, which `connect` returns.

    Args:
        epsilon: the epsilon that the next query can surely spend.
        delta: the delta that the next query can spend with it.
        share: the share of the budget that is left, from 0 to 1.
    """

    epsilon: float
    delta: float
    share: float


class Paid(NamedTuple):
    """One query charged at a service.

    An entry in the `history` of the client that `connect` returns.

    Args:
        what: a short description of the query.
        epsilon, delta: its cost.
        at: the time, in UTC.
        analyst: the analyst who asked.
        entry: the number of the ledger entry, with which `Client.answer` returns the answer again.
    """

    what: str
    epsilon: float
    delta: float
    at: str | None = None
    analyst: str | None = None
    entry: int | None = None


@dataclass(frozen=True)
class Asked:
    """The cost and expected errors of a remote release, before anything is charged.

    Returned by `Client.ask` of the client that `connect` returns.

    Args:
        cost: the cost of a release.
        remaining: the remaining budget before it.
        explanation: each step, with bounds, noise and share of the budget; None if a release infers bounds.
        previews: expected errors by size of group, as from `Question.preview`: a table for each private
            SELECT of the text.
        notes: the assumptions.
        repeats: the ledger entry whose answer `sql` would repeat at no charge, for the same text and
            confidence; None if the answer would be new and charged.
    """

    cost: Cost
    remaining: Left
    explanation: str | None
    previews: tuple[pa.Table, ...]
    notes: tuple[str, ...]
    repeats: int | None = None


class RemoteRelease(SuggestingArguments, ResultTable):
    """A noisy table that a service released, like a `Release`, with error bars of one confidence.

    Returned by `Client.sql` of the client that `connect` returns.

    Args:
        stream: the answer, an Arrow stream.

    >>> from sfumato.client import connect
    >>> import sfumato as sf
    >>> visits = connect(url, token).table("visits")
    >>> answer = visits.group_by("year").agg(n=sf.count_units()).release(epsilon=1)
    >>> answer
    <RemoteRelease of year, n; epsilon=1, delta=0>
    >>> answer.spent, answer.dummy, answer.repeats, answer.hints
    ((1.0, 0.0), False, None, ())
    """

    _foreign: ClassVar[Mapping[str, str]] = foreign_names.RELEASE | {
        **dict.fromkeys(
            _FILES, "write to_pandas().to_csv('table.csv'), or any other method of pandas or Arrow"
        ),
        **dict.fromkeys(_NUMBERS, "a service sends numbers and half-widths: frame(errors=True) has both"),
    }

    def __init__(self, stream: bytes) -> None:
        import pyarrow as pa

        with pa.ipc.open_stream(stream) as reader:
            table = reader.read_all()
        self._about: dict[str, Any] = json.loads(table.schema.metadata[_ABOUT])
        names: dict[str, str] = self._about["errors"]
        self._widths = {name: table[width] for name, width in names.items()}
        self._table = table.drop_columns(list(names.values())).replace_schema_metadata(
            schema_metadata(self._attributes())
        )

    def _attributes(self, bars: object = None) -> dict[str, Any]:
        """Return the facts that accompany a remote release in data frames; with `bars` also on error bars."""
        found: dict[str, Any] = self._about.get("metadata", self._about["spent"])
        return {name: said for name, said in found.items() if bars or name != "error_bars"}

    @property
    def spent(self) -> tuple[float, float]:
        """The budget (epsilon, delta) that bounds the privacy loss of the remote release."""
        return self._about["spent"]["epsilon"], self._about["spent"]["delta"]

    @property
    def repeats(self) -> int | None:
        """The ledger entry whose answer this release repeats at no charge, or None if it is new."""
        found: int | None = self._about["repeats"]
        return found

    @property
    def dummy(self) -> bool:
        """Whether the remote release is about dummy rows."""
        return bool(self._about["dummy"])

    def receipt(self) -> Receipt:
        """Return the remote release's receipt, for `sfumato verify` (docs/receipts.md).

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> visits = connect(url, token).table("visits")
        >>> answer = visits.group_by("year").agg(n=sf.count_units()).release(epsilon=1)
        >>> answer.receipt().verify(answer.to_arrow()).ok
        True
        """
        from sfumato.release.receipt import Receipt

        return Receipt.of_dict(self._about["receipt"])

    @property
    def hints(self) -> tuple[str, ...]:
        """Hints from the noisy numbers that the query may not be the intended one."""
        return tuple(self._about["hints"])

    def to_arrow(self) -> pa.Table:
        """Return the release as an Arrow table; its schema's metadata state what is not included.

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> visits = connect(url, token).table("visits")
        >>> answer = visits.group_by("year").agg(n=sf.count_units()).release(epsilon=1)
        >>> answer.to_arrow().schema.types
        [DataType(int64), DataType(int64)]
        """
        return self._table

    def frame(self, *, errors: bool = False, confidence: float | None = None) -> pandas.DataFrame:
        """Return the remote release as a pandas data frame, optionally with error bars.

        Args:
            errors: whether to add the half-width of each number `n` in a column `n_error` after it.
            confidence: as for `errors`.
        Returns:
            A pandas data frame.
        Raises:
            ParameterError: the confidence is not the one that was asked for.
            QueryError: the name of an error-bar column is taken.
            RefusalError: there are no error bars.
            EngineError: pandas is not installed.

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> visits = connect(url, token).table("visits")
        >>> answer = visits.group_by("year").agg(n=sf.count_units()).release(epsilon=1)
        >>> list(answer.frame(errors=True))
        ['year', 'n', 'n_error']
        """
        if not truth_value(errors, "errors"):
            return self.to_pandas()
        self._check_confidence(confidence)
        if not self._widths:
            raise RefusalError("errors: this answer has no error bars. Write frame() for its numbers alone")
        made, taken = self._table, self._table.column_names
        for name, width in self._widths.items():
            column = f"{name}_error"
            if column in taken:
                raise QueryError(
                    f"errors: {column} is the name of a column of the answer. Call errors() instead"
                )
            made = made.add_column(made.column_names.index(name) + 1, column, width)
        return pandas_frame(made, self._attributes(bars=True))

    def errors(self, confidence: float | None = None) -> pa.Table:
        """Return half-widths of the error bars, row by row; NULL if there is none.

        Args:
            confidence: the confidence that was asked for, or None. No other is possible, because the service
                keeps no release.
        Returns:
            An Arrow table.
        Raises:
            ParameterError: the confidence is a different one.

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> visits = connect(url, token).table("visits")
        >>> answer = visits.group_by("year").agg(n=sf.count_units()).release(epsilon=1)
        >>> answer.errors().to_pylist()[0]
        {'year': 1984, 'n': 6.0}
        """
        import pyarrow as pa

        self._check_confidence(confidence)
        rows, keys, names = len(self._table), self._about["keys"], self._table.column_names
        own = {name: self._table[name] if name in keys else pa.nulls(rows, pa.float64()) for name in names}
        return pa.table(own | self._widths)

    def _check_confidence(self, confidence: float | None) -> None:
        given = self._about["confidence"]
        if confidence is not None and confidence != given:
            raise ParameterError("confidence", confidence, f"{given}, or be given to sql(..., confidence=)")

    def explain(self) -> str:
        """Return the steps of the release, with bounds, noise scales and budget shares.

        >>> from sfumato.client import connect
        >>> import sfumato as sf
        >>> visits = connect(url, token).table("visits")
        >>> answer = visits.group_by("year").agg(n=sf.count_units()).release(epsilon=1)
        >>> print(answer.explain())
        1. Read with DuckDB; drop rows without id, the privacy unit.
        2. Group by year (5 public groups). Let each id count in at most 5 groups, chosen at random.
        3. Let each id count in each of them once.
        4. Add exactly rounded K-norm noise to these numbers of each group...
        """
        return str(self._about["explanation"])

    def _card(self) -> Card:
        from sfumato.release.release_display import far_card

        about = self._about
        labels, said = {"error_bars": "±", "bias": "bias"}, self._attributes(bars=True)
        facts = [(label, said[name]) for name, label in labels.items() if name in said]
        if self.repeats is not None:
            facts.append(("again", f"the answer of entry {self.repeats} of the ledger, at no charge"))
        return far_card(
            self._table, self._widths, about["keys"], facts, self.hints, self.spent, dummy=self.dummy
        )

    def __repr__(self) -> str:
        epsilon, delta = self.spent
        names, of = ", ".join(self._table.column_names), ", of dummy rows" if self.dummy else ""
        return visible(f"<RemoteRelease of {names}; epsilon={epsilon:g}, delta={delta:g}{of}>")
