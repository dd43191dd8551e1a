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

    Part of what a `Client` says, which `connect` gives.

    Args:
        epsilon, delta: as floats.
    """

    epsilon: float
    delta: float


class Left(NamedTuple):
    """What is left of a budget at a service, as `Budget.remaining` has it locally.

    What a `Client` that `connect` gives says by `remaining`.

    Args:
        epsilon: what the next question may surely ask for.
        delta: what it may name beside.
        share: the part of the budget that is left, from 0 to 1.
    """

    epsilon: float
    delta: float
    share: float


class Paid(NamedTuple):
    """One paid query at a service.

    An entry of the `history` of what `connect` gives.

    Args:
        what: was asked, in a few words.
        epsilon, delta: what it cost.
        at: when, in UTC.
        analyst: by whom.
        entry: of the ledger, by which `Client.answer` gives the answer again.
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

    Made by `Client.ask`, of what `connect` gives.

    Args:
        cost: of a release.
        remaining: of the budget, before it.
        explanation: each step, with bounds, noise and share of the budget; None where a release finds bounds.
        previews: expected errors by size of group, as `Question.preview` tells them: a table for each
            private SELECT of the text.
        notes: what was assumed.
        repeats: the entry of the ledger whose answer `sql` would give once more, for nothing, to the same
            text and confidence; None where it would be new, and paid.
    """

    cost: Cost
    remaining: Left
    explanation: str | None
    previews: tuple[pa.Table, ...]
    notes: tuple[str, ...]
    repeats: int | None = None


class RemoteRelease(SuggestingArguments, ResultTable):
    """A noisy table that a service released, like a `Release`, with error bars of one confidence.

    Made by `Client.sql`, of what `connect` gives.

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
        """The budget (epsilon, delta) that the remote release stays within."""
        return self._about["spent"]["epsilon"], self._about["spent"]["delta"]

    @property
    def repeats(self) -> int | None:
        """The ledger entry whose answer the remote release repeats without charge; None if it is new."""
        found: int | None = self._about["repeats"]
        return found

    @property
    def dummy(self) -> bool:
        """Whether the remote release is of made-up rows."""
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
        """Hints that the remote release's noisy numbers give about the query."""
        return tuple(self._about["hints"])

    def to_arrow(self) -> pa.Table:
        """Return the remote release as an Arrow table; schema metadata says what is not included.

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
            errors: whether each number `n` has its half-width in a column `n_error` behind it.
            confidence: as of `errors`.
        Raises:
            ParameterError: it is another confidence than that which was asked for.
            QueryError: a name of an error bar's column is taken.
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
        """Return half-widths of the remote release's error bars, row by row; NULL if there is none.

        Args:
            confidence: that which was asked for, or left out: the service keeps no release.
        Raises:
            ParameterError: it is another one.

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
        """Return the steps of the remote release with bounds, noise scales and budget shares.

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
        names, of = ", ".join(self._table.column_names), ", of made-up rows" if self.dummy else ""
        return visible(f"<RemoteRelease of {names}; epsilon={epsilon:g}, delta={delta:g}{of}>")
