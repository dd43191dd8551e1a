"""Ask a service: the same question as beside the rows, with the same answer and the same errors."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from sfumato.display.card import Card
from sfumato.display.displayed import Displayed
from sfumato.display.text import visible
from sfumato.errors import EngineError, ParameterError, QueryError, in_own_words
from sfumato.exact import truth_value
from sfumato.service.faults import of_data

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

    from sfumato.query.released.receipt import Receipt

_ARROW, _JSON = "application/vnd.apache.arrow.stream", "application/json"
_ABOUT = b"sfumato"
_URL = "the address of a service, such as https://data.example.org"


class Cost(NamedTuple):
    """An epsilon and a delta."""

    epsilon: float
    delta: float


class Left(NamedTuple):
    """What is left of a budget, as `Budget.remaining` says it."""

    epsilon: float
    delta: float
    share: float


class Paid(NamedTuple):
    """One question that was paid; `at` is when, in UTC, and `analyst` by whom."""

    what: str
    epsilon: float
    delta: float
    at: str | None = None
    analyst: str | None = None


@dataclass(frozen=True)
class Asked:
    """What a question would cost and give, before anything is spent.

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


class RemoteRelease(Displayed):
    """A noisy table that a service released: the face of a `Release`, with one confidence of its error bars.

    Args:
        stream: the answer, an Arrow stream.
    """

    def __init__(self, stream: bytes) -> None:
        import pyarrow as pa

        with pa.ipc.open_stream(stream) as reader:
            table = reader.read_all()
        self._about: dict[str, Any] = json.loads(table.schema.metadata[_ABOUT])
        names: dict[str, str] = self._about["errors"]
        self._widths = {name: table[width] for name, width in names.items()}
        self._table = table.drop_columns(list(names.values())).replace_schema_metadata(None)

    @property
    def spent(self) -> tuple[float, float]:
        """The budget (epsilon, delta) that the release stays within."""
        return self._about["spent"]["epsilon"], self._about["spent"]["delta"]

    @property
    def repeats(self) -> int | None:
        """The entry of the ledger whose answer it is once more, for nothing; None where it is new."""
        found: int | None = self._about["repeats"]
        return found

    @property
    def dummy(self) -> bool:
        """Whether its rows are made up, so that it is an answer about nobody."""
        return bool(self._about["dummy"])

    def receipt(self) -> Receipt:
        """Return its cost, plan and a digest of the answer, for `sfumato verify` (docs/receipts.md)."""
        from sfumato.query.released.receipt import Receipt

        return Receipt.of_dict(self._about["receipt"])

    @property
    def hints(self) -> tuple[str, ...]:
        """What the noisy numbers say of the question."""
        return tuple(self._about["hints"])

    def to_arrow(self) -> pa.Table:
        """Return the released table."""
        return self._table

    def to_pandas(self) -> pandas.DataFrame:
        """Return the released table as a pandas data frame."""
        from sfumato.query.released.output import require

        require("pandas", "pandas")
        return self._table.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return the released table as a Polars data frame."""
        from sfumato.query.released.output import to_polars

        return to_polars(self._table)

    def errors(self, confidence: float | None = None) -> pa.Table:
        """Return half-widths of error bars, row by row; NULL for what has none.

        Args:
            confidence: that which was asked for, or left out: the service keeps no release.
        Raises:
            ParameterError: it is another one.
        """
        import pyarrow as pa

        given = self._about["confidence"]
        if confidence is not None and confidence != given:
            raise ParameterError("confidence", confidence, f"{given}, or be given to sql(..., confidence=)")
        rows, keys, names = len(self._table), self._about["keys"], self._table.column_names
        own = {name: self._table[name] if name in keys else pa.nulls(rows, pa.float64()) for name in names}
        return pa.table(own | self._widths)

    def explain(self) -> str:
        """Return each step with its bounds, noise scale and share of the budget."""
        return str(self._about["explanation"])

    def _card(self) -> Card:
        from sfumato.query.cards.far import far_card

        about = self._about
        facts = [("±", f"{about['confidence'] * 100:g}% error bars: what the noise may have changed.")]
        if self.repeats is not None:
            facts.append(("again", f"the answer of entry {self.repeats} of the ledger, for nothing"))
        return far_card(
            self._table, self._widths, about["keys"], facts, self.hints, self.spent, dummy=self.dummy
        )

    def __repr__(self) -> str:
        epsilon, delta = self.spent
        names, of = ", ".join(self._table.column_names), ", of made-up rows" if self.dummy else ""
        return visible(f"<RemoteRelease of {names}; epsilon={epsilon:g}, delta={delta:g}{of}>")


class Client:
    """Somebody at a service. Made by `connect`."""

    def __init__(self, url: str, token: str, seconds: float, context: ssl.SSLContext | None) -> None:
        parts = _address(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ParameterError("url", url, _URL)
        if parts.username is not None or parts.password is not None:
            raise QueryError("url: leave the user and the password out; the token says who asks")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token:
            raise QueryError("token: it must be the text that sfumato token create has shown")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < 10**6:
            raise ParameterError("seconds", seconds, "a number above 0")
        if not isinstance(context, ssl.SSLContext | None):
            raise ParameterError("context", context, "an SSLContext of ssl, or left out")
        self._parts, self._token, self._seconds = parts, token, seconds
        self._context = (
            context if context is not None or parts.scheme == "http" else ssl.create_default_context()
        )

    def sql(
        self, text: str, *, confidence: float = 0.95, simultaneous: bool = False, dummy: bool = False
    ) -> RemoteRelease:
        """Ask in SQL, and spend its cost; as `sfumato.sql`, of the tables of the service.

        Args:
            text: one SELECT in the differential-privacy dialect; see docs/sql.md.
            confidence, simultaneous: of the error bars, as of `Release.errors`.
            dummy: ask made-up rows, for free: to see what comes back (docs/dummy.md).
        Raises:
            QueryError, SqlError, BudgetError, RefusalError: as beside the rows; nothing is spent then.
            EngineError: the service does not answer. Where it had the question, it may have spent its cost:
                `history` tells.
        """
        flags = {"simultaneous": simultaneous, "dummy": dummy}
        for name, given in flags.items():
            truth_value(given, name)
        asked = {"sql": _text(text), "confidence": _confidence(confidence), **flags}
        return RemoteRelease(self._request("POST", "/v1/release", asked, _ARROW))

    def ask(
        self, text: str, *, units: Sequence[int] = (100, 1_000, 10_000), confidence: float = 0.95
    ) -> Asked:
        """Say what a question costs and which errors to expect; nothing is read, and nothing spent.

        Args:
            text: as of `sql`.
            units: sizes of groups of which to tell errors; none is faster.
            confidence: of the errors.
        Raises:
            QueryError, SqlError, BudgetError, RefusalError: as from `sql`.
            EngineError: the service does not answer.
        """
        import pyarrow as pa

        found = self._json(
            "POST",
            "/v1/ask",
            {"sql": _text(text), "units": _sizes(units), "confidence": _confidence(confidence)},
        )
        previews = []
        for one in found.get("previews", ()):
            names = [column["name"] for column in one["columns"]]
            columns = zip(*one["rows"], strict=True) if one["rows"] else [()] * len(names)
            previews.append(pa.table([pa.array(c, pa.float64()) for c in columns], names=names))
        notes = [*found["notes"], *(note for one in found.get("previews", ()) for note in one["notes"])]
        return Asked(
            Cost(**found["cost"]),
            Left(**found["remaining"]),
            found["explanation"],
            tuple(previews),
            tuple(dict.fromkeys(notes)),
            found.get("repeats"),
        )

    @cached_property
    def tables(self) -> Mapping[str, Mapping[str, Any]]:
        """What the owner declares, by name of the table: columns, types, bounds, domains, limits, units."""
        return {table["name"]: table for table in self._json("GET", "/v1/tables")["tables"]}

    @property
    def spent(self) -> Cost:
        """What was spent of your budget."""
        return Cost(**self._json("GET", "/v1/budget")["spent"])

    @property
    def remaining(self) -> Left:
        """What is left of your budget."""
        return Left(**self._json("GET", "/v1/budget")["remaining"])

    @property
    def history(self) -> tuple[Paid, ...]:
        """What you asked and what it cost, in order."""
        return tuple(Paid(**one) for one in self._json("GET", "/v1/history")["history"])

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return json.loads(self._request(method, path, body, _JSON))

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None, accept: str) -> bytes:
        # A connection for each: one that was kept and is gone would need a second try, and a question that
        # was sent twice may be paid twice. Nor is a redirect followed, which could take the token elsewhere.
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept}
        if body is not None:
            headers["Content-Type"] = _JSON
        sent = None if body is None else json.dumps(body).encode()
        opened = self._opened()
        try:
            opened.request(method, self._parts.path.rstrip("/") + path, sent, headers)
            response = opened.getresponse()
            found = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise EngineError(
                f"{self._parts.netloc} does not answer: {error or type(error).__name__}"
            ) from None
        finally:
            opened.close()
        if response.status == 200:
            return found
        raise _error(response.status, found)

    def _opened(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=self._seconds, context=self._context)
        return http.client.HTTPConnection(host, port, timeout=self._seconds)

    def __repr__(self) -> str:
        return f"<Client of {self._parts.scheme}://{self._parts.netloc}>"


def connect(url: str, token: str, *, seconds: float = 300.0, context: ssl.SSLContext | None = None) -> Client:
    """Return somebody at a service that `sfumato serve` runs.

    Args:
        url: where it is, such as "https://data.example.org".
        token: what its owner has given you; it is in no error and no `repr`.
        seconds: to wait for an answer.
        context: of TLS; by default certificates are checked against those that this machine trusts.
    Raises:
        ParameterError, QueryError: the address or the token has no such form. Nothing is sent yet.

    >>> connect("http://127.0.0.1:8000", "sfumato_0123456789ab_secret")
    <Client of http://127.0.0.1:8000>
    """
    return Client(url, token, seconds, context)


@in_own_words(lambda _: QueryError(f"url: it must be {_URL}"), ValueError)
def _address(url: Any) -> SplitResult:
    if not isinstance(url, str):
        raise ParameterError("url", url, _URL)
    parts = urlsplit(url)
    _ = parts.port  # raises where it is none
    return parts


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise ParameterError("text", text, "SQL, such as 'SELECT WITH DIFFERENTIAL_PRIVACY ...'")
    return text


def _confidence(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given < 1:
        raise ParameterError("confidence", given, "between 0 and 1, such as 0.95")
    return given


def _sizes(given: Any) -> list[int]:
    if not isinstance(given, (list, tuple)) or not all(type(one) is int and one >= 1 for one in given):
        expected = "a list of sizes of groups, whole numbers of at least 1, such as [100, 1000]"
        raise ParameterError("units", given, expected)
    return list(given)


def _error(status: int, body: bytes) -> Exception:
    """Return the error that an answer is."""
    try:
        data = json.loads(body)["error"]
        return of_data(dict(data))
    except (ValueError, TypeError, KeyError, AttributeError):
        return EngineError(f"the service answered with status {status}, and not in words of sfumato")
