"""Ask a service: the same question as beside the rows, with the same answer and the same errors."""

from __future__ import annotations

import http.client
import json
import secrets
import ssl
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, SupportsIndex
from urllib.parse import SplitResult, urlsplit

from sfumato.client.remote_release import Asked, Cost, Left, Paid, RemoteRelease
from sfumato.client.remote_tables import RemotePublicTable, RemoteTable, make_catalog
from sfumato.errors import EngineError, ParameterError, QueryError, RefusalError, in_own_words
from sfumato.exact import positive_int, truth_value
from sfumato.service.wire_format import error_from_json

if TYPE_CHECKING:
    from sfumato.engines.catalog import Catalog

_ARROW, _JSON = "application/vnd.apache.arrow.stream", "application/json"
# A connection that is lost on the way is tried again; one that cannot be made, or takes too long, is not.
_LOST = ConnectionResetError, ConnectionAbortedError, BrokenPipeError, http.client.IncompleteRead
_SENT, _PAUSE = 3, 0.5  # how often a request is sent, and seconds between
_UNDER_WAY = 409
_URL = "the address of a service, such as https://data.example.org"


class Client:
    """A client of a query service, as `connect` returns it.

    >>> clinic = connect(url, token)  # as `sfumato serve` and `sfumato token create` have printed them
    >>> sorted(clinic.tables)
    ['late_visits', 'reforms', 'visits']
    >>> [column["name"] for column in clinic.tables["visits"]["columns"]]
    ['id', 'year', 'age', 'docvis']
    >>> clinic.spent, clinic.remaining.epsilon, clinic.history
    (Cost(epsilon=0.0, delta=0.0), 5.0, ())
    """

    def __init__(self, url: str, token: str, seconds: float, context: ssl.SSLContext | None) -> None:
        parts = _address(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ParameterError("url", url, _URL)
        if parts.username is not None or parts.password is not None:
            raise QueryError("url: leave the user and the password out. The token identifies the analyst")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token:
            raise QueryError("token: it must be the text from sfumato token create")
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
        """Release a SQL query on the service's tables, as `sfumato.sql`, and charge your budget there.

        Args:
            text: a SELECT in the differential-privacy dialect; see docs/sql.md.
            confidence, simultaneous: of the error bars, as for `Release.errors`.
            dummy: query dummy rows at no cost, to see the form of the answer (docs/dummy.md).
        Returns:
            A `RemoteRelease`: the noisy numbers, their error bars, and what they cost.
        Raises:
            QueryError, SqlError, BudgetError, RefusalError: as for `sfumato.sql`; nothing is spent then.
            EngineError: the service did not answer, also after a retry. If it received the query, `history`
                shows the cost, and `answer` returns the answer that you were charged for.

        >>> clinic = connect(url, token)
        >>> answer = clinic.sql(
        ...     "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, max_rows_per_group = 1) "
        ...     "year, COUNT(*) AS n FROM visits GROUP BY year"
        ... )
        >>> answer.to_arrow().column_names, answer["year"], clinic.remaining.epsilon
        (['year', 'n'], [1984, 1985, 1986, 1987, 1988], 4.5)
        """
        flags = {"simultaneous": simultaneous, "dummy": dummy}
        for name, given in flags.items():
            truth_value(given, name)
        return self._release({"sql": _text(text)}, confidence, **flags)

    def table(self, name: str) -> RemoteTable:
        """Return a private table of the service, for queries in Python.

        Args:
            name: a name from `tables`.
        Returns:
            A table with the methods of a table from `sf.catalog`. Its declarations are fetched once, so
            mistakes, plans and previews need no request and are free. Only `release` sends a query to the
            service and spends.
        Raises:
            QueryError: the table does not exist, or is public.
            EngineError: the service does not answer.

        >>> connect(url, token).table("visits")
        <RemoteTable visits (read with DuckDB): 4 columns; privacy unit id>
        """
        return RemoteTable._open_by_name(self, self._catalog, name)

    def public(self, name: str) -> RemotePublicTable:
        """Return a public table of the service, to join with private ones.

        Args:
            name: the name that the owner declares.
        Returns:
            A public table.
        Raises:
            QueryError: the table does not exist, or is private.
            EngineError: the service does not answer.

        >>> connect(url, token).public("reforms")
        <RemotePublicTable reforms (read with DuckDB): 2 columns>
        """
        return RemotePublicTable._open_by_name(self, self._catalog, name)

    @cached_property
    def _catalog(self) -> Catalog:
        """The client's catalog of the service's tables, whose rows are elsewhere."""
        return make_catalog(self.tables)

    def _release(self, question: Mapping[str, Any], confidence: float, **flags: bool) -> RemoteRelease:
        """Send a release request to the service, again if the connection is lost, and return the release."""
        asked = {**question, "confidence": _confidence(confidence), **flags}
        # By which the service knows a request that is sent again: it is paid once, and has one answer.
        key, until = secrets.token_hex(16), time.monotonic() + self._seconds
        for left in reversed(range(_SENT)):
            try:
                status, found = self._sent("POST", "/v1/release", asked, _ARROW, key)
                while status == _UNDER_WAY and time.monotonic() < until:
                    time.sleep(1)
                    status, found = self._sent("POST", "/v1/release", asked, _ARROW, key)
            except _LOST as error:
                if not left:
                    raise self._silent(error) from None
                time.sleep(_PAUSE)
            except (OSError, http.client.HTTPException) as error:
                raise self._silent(error) from None
            else:
                return RemoteRelease(_check_response(status, found))
        raise AssertionError  # the last attempt returns or raises

    def answer(self, entry: int) -> RemoteRelease:
        """Return an answer that you were charged for again, at no charge.

        Args:
            entry: the number of an entry in `history`.
        Returns:
            The same `RemoteRelease` as the first time.
        Raises:
            QueryError: no answer of yours is kept for the entry.
            EngineError: the service does not answer.

        >>> connect(url, token).answer(1000)
        Traceback (most recent call last):
        sfumato.errors.QueryError: answers: no answer of yours is kept for entry 1000 of the ledger. ...
        """
        return RemoteRelease(
            self._request("GET", f"/v1/answers/{positive_int(entry, 'entry')}", None, _ARROW)
        )

    def ask(
        self, text: str, *, units: Sequence[int] = (100, 1_000, 10_000), confidence: float = 0.95
    ) -> Asked:
        """Ask the service for a query's cost and expected errors; nothing is read or charged.

        Args:
            text: as for `sql`.
            units: group sizes for which to report errors; without any the request is faster.
            confidence: the confidence of the error bars.
        Returns:
            An `Asked`: the cost, the remaining budget, and the expected errors.
        Raises:
            QueryError, SqlError, BudgetError, RefusalError: as for `sql`.
            EngineError: the service does not answer.

        >>> asked = connect(url, token).ask(
        ...     "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) AS n FROM visits",
        ...     units=[1000],
        ... )
        >>> asked.cost, asked.remaining.epsilon, asked.previews[0]["n_error"].to_pylist()
        (Cost(epsilon=1.0, delta=0.0), 5.0, [15.0])
        """
        return self._ask({"sql": _text(text)}, units, confidence)

    def _ask(self, question: Mapping[str, Any], units: Sequence[int], confidence: float) -> Asked:
        import pyarrow as pa

        found = self._json(
            "POST",
            "/v1/ask",
            {**question, "units": _sizes(units), "confidence": _confidence(confidence)},
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
        """The service's tables by name, as declared: columns, types, bounds, domains, limits, units."""
        return {table["name"]: table for table in self._json("GET", "/v1/tables")["tables"]}

    @property
    def spent(self) -> Cost:
        """What your budget at the service has spent."""
        return Cost(**self._json("GET", "/v1/budget")["spent"])

    @property
    def remaining(self) -> Left:
        """What is left of your budget at the service."""
        return Left(**self._json("GET", "/v1/budget")["remaining"])

    @property
    def history(self) -> tuple[Paid, ...]:
        """The queries charged to your budget at the service, with their costs, in order."""
        return tuple(Paid(**one) for one in self._json("GET", "/v1/history")["history"])

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return json.loads(self._request(method, path, body, _JSON))

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None, accept: str) -> bytes:
        try:
            return _check_response(*self._sent(method, path, body, accept))
        except (OSError, http.client.HTTPException) as error:
            raise self._silent(error) from None

    def _sent(
        self, method: str, path: str, body: Mapping[str, Any] | None, accept: str, key: str | None = None
    ) -> tuple[int, bytes]:
        # A connection for each: one that was kept and is gone would need a second try. Nor is a redirect
        # followed, which could take the token elsewhere.
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept}
        if key is not None:
            headers["Idempotency-Key"] = key
        if body is not None:
            headers["Content-Type"] = _JSON
        sent = None if body is None else json.dumps(body).encode()
        opened = self._open_table()
        try:
            opened.request(method, self._parts.path.rstrip("/") + path, sent, headers)
            response = opened.getresponse()
            return response.status, response.read()
        finally:
            opened.close()

    def _silent(self, error: Exception) -> EngineError:
        return EngineError(f"{self._parts.netloc} does not answer: {error or type(error).__name__}")

    def _open_table(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=self._seconds, context=self._context)
        return http.client.HTTPConnection(host, port, timeout=self._seconds)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Refuse to copy or pickle a client, which holds a token."""
        raise RefusalError(
            "a client has a token, which must not be saved or sent to another process. Call "
            "connect(...) there"
        )

    def __repr__(self) -> str:
        return f"<Client of {self._parts.scheme}://{self._parts.netloc}>"


def connect(url: str, token: str, *, seconds: float = 300.0, context: ssl.SSLContext | None = None) -> Client:
    """Return a client of a service that `sfumato serve` runs.

    Args:
        url: the address of the service, such as "https://data.example.org".
        token: the token from its owner; no error and no `repr` shows it.
        seconds: the seconds to wait for an answer.
        context: the TLS context; by default certificates are checked against those that this machine trusts.
    Returns:
        The client. Nothing has been sent yet.
    Raises:
        ParameterError, QueryError: the address or the token has the wrong form.

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


def _confidence(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise ParameterError("confidence", value, "between 0 and 1, such as 0.95")
    return value


def _sizes(value: Any) -> list[int]:
    if not isinstance(value, (list, tuple)) or not all(type(one) is int and one >= 1 for one in value):
        expected = "a list of sizes of groups, whole numbers of at least 1, such as [100, 1000]"
        raise ParameterError("units", value, expected)
    return list(value)


def _check_response(status: int, body: bytes) -> bytes:
    """Return the body of a service's response, or raise its error."""
    if status == 200:
        return body
    raise _error(status, body)


def _error(status: int, body: bytes) -> Exception:
    """Return the error in a service's response."""
    try:
        data = json.loads(body)["error"]
        return error_from_json(dict(data))
    except (ValueError, TypeError, KeyError, AttributeError):
        return EngineError(f"the service answered with status {status}, without an error message of sfumato")
