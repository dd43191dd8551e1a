"""The query service behind HTTP: charges the budget, then runs the query, on tables for analysts only.

Nothing here knows of HTTP, and nothing that comes out of here holds more than a release, a plan, or an error
of ours. It runs in processes that are killed when they take too long (`worker.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

from sfumato.api.question import Question
from sfumato.budget import Budget
from sfumato.budget.epsilon_delta import admissible_delta, admissible_epsilon
from sfumato.budget.filters import Spent
from sfumato.budget.ledger import LedgerBudget, PriorAnswer
from sfumato.dataclass import dataclass
from sfumato.engines.sql import ParsedQuery, ask
from sfumato.errors import (
    BudgetError,
    CatalogError,
    EngineError,
    ParameterError,
    QueryError,
    RefusalError,
    SfumatoError,
)
from sfumato.release.canonical_form import canonical_digest
from sfumato.release.canonical_form import plain as canonical_data
from sfumato.release.noisy_table import NoisyTable
from sfumato.service.analyst_catalog import AnalystsCatalog, ChainQuery, read_chain_query
from sfumato.service.answer_formats import (
    CSV,
    JSON,
    Answer,
    answer,
    as_json,
    encode_answer,
    pack,
    plain,
    plain_table,
    unpack,
)
from sfumato.service.wire_format import error_to_json, query_as_python

_STATUS: tuple[tuple[type[SfumatoError], int], ...] = (
    (BudgetError, 402),
    (RefusalError, 403),
    (QueryError, 400),
)
_OF_OWNERS = CatalogError, EngineError
_NO_DUMMY = (
    "dummy: these tables have no dummy rows, as their owner does not declare the types of their "
    "columns. Ask the owner for that, and leave dummy out"
)
_SIZES = 20  # of groups, in one preview
_PREVIEWED = 40  # pairs of a size and a budget in one request, each some tenths of a second
_OWNERS = (
    "the tables cannot be read. Ask their owner, who can find the reason in the log by this request's id"
)
_UNSAID = (
    "the query cannot be answered, for a reason that only the owner may see. Ask the owner of the "
    "tables, who can find it in the log by this request's id"
)
_NO_LEDGER = (
    "the ledger that pays for queries is missing, or its server cannot be reached. Ask its owner, "
    "who can find the reason in the log by this request's id"
)
_UNDER_WAY = (
    "idempotency-key: entry {} of the ledger is charged for the request with this key, but has no "
    "answer yet, as it is running or was stopped. Send the same request again later, or use another "
    "key to pay again"
)
_NO_ANSWER = "answers: no answer of yours is kept for entry {} of the ledger. See /v1/history"
_NOT_BEFORE = (
    "bounds or limits are 'auto', so a release finds them with a preliminary query. Expected errors "
    "are known only after it"
)


@dataclass(frozen=True)
class QueryRequest:
    """A request to the query service, as plain data.

    Args:
        kind: "tables", "ask", "release", "budget", "history", "answer" or "ready".
        analyst: who asks, and pays.
        text: SQL, or the chain as its request had it.
        chain, options: a question of Python as `recorded.py` writes it, and those of its release; None where
            the text asks.
        media: what an answer is written as.
        confidence, simultaneous: of error bars.
        units: sizes of groups of which a preview tells the errors; none for no preview.
        epsilons: budgets that a preview compares; none for that of each private SELECT.
        dummy: whether to query dummy rows, at no cost.
        everybody: whether the budget or history of all is asked for, which an owner may.
        role: of who asks.
        key: by which the same request, sent again, gets the answer that it has paid for; or None.
        entry: of the ledger, whose answer is asked for.
    """

    kind: str
    analyst: str
    text: str = ""
    chain: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    media: str = JSON
    confidence: float = 0.95
    simultaneous: bool = False
    units: tuple[int, ...] = ()
    epsilons: tuple[float, ...] = ()
    dummy: bool = False
    everybody: bool = False
    role: str = "analyst"
    key: str | None = None
    entry: int = 0

    @property
    def is_account(self) -> bool:
        """Whether the request needs no query to run: tables, budget, history or a kept answer."""
        return self.kind in ("tables", "budget", "history", "answer", "ready")

    @property
    def written(self) -> str:
        """The requested query as its author wrote it, in SQL or Python."""
        return self.text if self.chain is None else query_as_python(self.chain, self.options) or self.text

    @property
    def reads_rows(self) -> bool:
        """Whether the request can read private rows."""
        return self.kind == "release" and not self.dummy


@dataclass(frozen=True)
class QueryResponse:
    """A response of the query service: bytes for the client, and facts for the owner's log.

    Args:
        status: of HTTP.
        media, body: the answer.
        log: what the log may say of it: no value of a row, and nothing of the question but numbers.
        headers: of HTTP, beside.
    """

    status: int
    media: str
    body: bytes
    log: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


class Budgets(Protocol):
    """The budgets of one dataset, by analyst, as the query service charges them."""

    def charged_by(self, analyst: str | None) -> Budget:
        """Return the budget that an analyst's queries charge; for None the budget of all.

        Raises:
            BudgetError: there is none.
        """
        ...

    def refused(self, analyst: str, text: str, error: SfumatoError) -> None:
        """Record in the journal, if there is one, that a query was refused."""
        ...


class QueryService:
    """The query service: responds to requests, one at a time.

    Args:
        catalog: the tables.
        budgets: what pays.
        limits: `memory_limit`, `threads` and `temp_directory` of each question.
    """

    def __init__(self, catalog: AnalystsCatalog, budgets: Budgets, limits: Mapping[str, Any]) -> None:
        self.catalog = catalog
        self.budgets = budgets
        unlimited = {"memory_limit": None, "threads": None, "temp_directory": None}
        self.limits: dict[str, Any] = unlimited | dict(limits)

    def answer(self, job: QueryRequest) -> QueryResponse:
        """Respond to a request; an error of ours becomes its response.

        Raises:
            Exception: a fault of ours, whose text may hold anything: it is for nobody's eyes.
        """
        kinds: dict[str, Callable[[QueryRequest], QueryResponse]] = {
            "tables": self._tables,
            "ask": self._ask,
            "release": self._release,
            "budget": self._budget,
            "history": self._history,
            "ready": self._ready,
            "answer": self._answer,
        }
        try:
            return kinds[job.kind](job)
        except SfumatoError as error:
            if not isinstance(error, _OF_OWNERS) and self._names_a_source(error, job):
                return _log_reason(make_refusal(QueryError(_UNSAID), 400), error)
            return failed(error)

    def _names_a_source(self, error: SfumatoError, job: QueryRequest) -> bool:
        """Whether an error message names a source that the query does not: the last safeguard."""
        sources = [one.source for one in self.catalog.tables.values() if isinstance(one.source, str)]
        names = {name for source in sources for name in (source, source.rpartition("/")[2])}
        text = str(error)
        return any(name in text and name not in job.text for name in names - set(self.catalog.tables))

    @cached_property
    def _dummy(self) -> AnalystsCatalog:
        """The catalog with dummy rows, on which queries can be tried."""
        try:
            return AnalystsCatalog.from_catalog(self.catalog.dummy())
        except (CatalogError, EngineError):
            raise QueryError(_NO_DUMMY) from None

    def _tables(self, job: QueryRequest) -> QueryResponse:
        """Respond with the public facts about all tables."""
        return _json({"role": job.role, "tables": self.catalog.described(**self.limits)})

    def _parse_query(self, job: QueryRequest) -> ParsedQuery | ChainQuery:
        """Return the requested query, parsed and checked."""
        if not 0 < job.confidence < 1:
            raise ParameterError("confidence", job.confidence, "between 0 and 1, such as 0.95")
        catalog = self._dummy if job.dummy else self.catalog
        if job.chain is not None:
            return read_chain_query(job.chain, job.options, catalog, self.limits)
        return ask(job.text, None, catalog, None, self.limits)

    def _ask(self, job: QueryRequest) -> QueryResponse:
        """Respond with a query's cost and preview; no row is read and nothing is charged."""
        if len(job.units) > _SIZES:
            raise ParameterError("units", len(job.units), f"at most {_SIZES} sizes of groups")
        if len(job.units) * len(job.epsilons) > _PREVIEWED:
            expected = f"at most {_PREVIEWED} together with units: sizes times budgets"
            raise ParameterError("epsilons", len(job.epsilons), expected)
        asked = self._parse_query(job)
        trial = None if asked.needs_preliminary_queries else asked.trial()  # which is never looked at
        if trial is None:
            # A release would look at the rows: here are stand-ins.
            for question, one in zip(asked.questions, asked.queries, strict=True):
                if isinstance(question, Question):
                    question._check_plan(**one.release_options)
            epsilon = float(sum(admissible_epsilon(one.epsilon) for one in asked.queries))
            delta = float(sum(admissible_delta(one.delta) for one in asked.queries))
            found: dict[str, Any] = {"explanation": None, "notes": [_NOT_BEFORE]}
        else:
            epsilon, delta = trial.spent
            found = {"explanation": str(trial.explain()), "notes": []}
            found["previews"] = self._previews(asked, job)
        budget = self.budgets.charged_by(job.analyst)
        same = None if job.dummy else self._same(asked, trial, job)
        found["repeats"] = None
        if same is not None and isinstance(budget, LedgerBudget):
            found["repeats"] = budget._find_answer(same).entry
        cost = {"epsilon": epsilon, "delta": delta}
        return _json({"cost": cost, "remaining": budget.remaining._asdict(), **found})

    def _previews(self, query: ParsedQuery | ChainQuery, job: QueryRequest) -> list[dict[str, Any]]:
        """Return the expected errors of each private SELECT of a requested query."""
        found = []
        for question, one in zip(query.questions, query.queries, strict=True):
            if isinstance(question, Question) and job.units:
                options = {k: v for k, v in one.release_options.items() if k in _PLANNED}
                if job.epsilons:
                    options["epsilon"] = list(job.epsilons)
                made = question.preview(units=list(job.units), confidence=job.confidence, **options)
                found.append(plain_table(made.to_arrow()) | {"notes": list(made.notes)})
        return found

    def _release(self, job: QueryRequest) -> QueryResponse:
        """Charge the budget, run the query and respond; or repeat the answer to the same query."""
        if job.dummy:
            made = answer(
                self._parse_query(job).release(_nobodys()), job.confidence, job.simultaneous, dummy=True
            )
            return _format_response(made, job.media, {"dummy": True})
        if (sent := self._sent_before(job)) is not None:
            return sent
        try:
            budget = self.budgets.charged_by(job.analyst)
            if isinstance(budget, LedgerBudget) and job.key is not None:
                budget = budget._keyed(_digest(job))
            asked = self._parse_query(job)
            trial = None if asked.needs_preliminary_queries else asked.trial()
            same = self._same(asked, trial, job)
            again = PriorAnswer(None)
            if same is not None and isinstance(budget, LedgerBudget):
                again = budget._repeat_answer(same)
            if again.body is not None:
                assert again.entry is not None
                return _again(again.body, again.entry, job.media)
            release = asked.release(budget) if trial is None else asked.charge_for(trial, budget)
        except (QueryError, RefusalError, BudgetError) as error:
            if isinstance(error, BudgetError) and (sent := self._sent_before(job)) is not None:
                return sent  # by another process, which was quicker
            if not getattr(error, "journaled", False):  # as of what costs more than is left
                self.budgets.refused(job.analyst, job.written, error)
            raise
        release._journals = False  # what comes of it is written with the answer
        try:
            # As it is given again, so that it is the same, byte for byte.
            packed = pack(answer(release, job.confidence, job.simultaneous, dummy=False))
            made = unpack(packed)
        except Exception as error:
            release._failed(error)
            raise
        receipt = made.about["receipt"]["sha256"]
        kept = {"question": again.question, "data": again.data, "body": packed}  # for its payer at least
        release._record_answer(rows=made.table.num_rows, receipt=receipt, **kept)
        log = {"epsilon": made.about["spent"]["epsilon"], "delta": made.about["spent"]["delta"]}
        return _format_response(made, job.media, log)

    def _sent_before(self, job: QueryRequest) -> QueryResponse | None:
        """Return the response to a request that was sent before; None if it was never paid."""
        budget = None
        if job.key is not None:
            with suppress(BudgetError):
                budget = self.budgets.charged_by(job.analyst)
        if not isinstance(budget, LedgerBudget):
            return None
        found = budget._paid_answer(key=_digest(job))
        if found.body is not None and found.entry is not None:
            return _again(found.body, found.entry, job.media)
        if found.entry is None:
            return None
        return replace(
            make_refusal(QueryError(_UNDER_WAY.format(found.entry)), 409), headers={"retry-after": "1"}
        )

    def _answer(self, job: QueryRequest) -> QueryResponse:
        """Respond with a kept answer, to its payer."""
        budget = self.budgets.charged_by(job.analyst)
        found = budget._paid_answer(entry=job.entry) if isinstance(budget, LedgerBudget) else None
        if found is None or found.body is None or found.entry is None:
            return make_refusal(QueryError(_NO_ANSWER.format(job.entry)), 404)
        return _again(found.body, found.entry, job.media)

    def _same(
        self, query: ParsedQuery | ChainQuery, trial: NoisyTable | None, job: QueryRequest
    ) -> dict[str, Any] | None:
        """Return all that a query's answer depends on except rows; None if tables have no address.

        Bounds that are left to the release are in no plan before it: then it is the text that is the same.
        """
        if self._declarations_digest is None:
            return None
        return {
            "asks": job.text if trial is None else trial.canonical(),
            "bars": [
                *(job.confidence, job.simultaneous),
                *(one.confidence for one in query.queries),
                *(one.release_options.get("sampling", False) for one in query.queries),
            ],
            "tables": self._declarations_digest,
        }

    @cached_property
    def _declarations_digest(self) -> str | None:
        """A digest of the declarations of all tables; None if one has no address."""
        tables = self.catalog.tables
        if not all(isinstance(table.source, str) for table in tables.values()):
            return None
        places = [os.path.abspath(table.source) for table in tables.values()]  # as the service finds them
        declared = {name: canonical_data(table) for name, table in tables.items()}
        return canonical_digest({"tables": declared, "places": places})

    def _budget(self, job: QueryRequest) -> QueryResponse:
        """Respond with an analyst's budget."""
        analyst = None if job.everybody else job.analyst
        budget = self.budgets.charged_by(analyst)
        pairs = {"total": budget.total, "spent": budget.spent}
        found = {name: dict(zip(("epsilon", "delta"), pair, strict=True)) for name, pair in pairs.items()}
        remaining = budget.remaining._asdict()
        return _json({"analyst": analyst, "role": job.role, **found, "remaining": remaining})

    def _ready(self, _: QueryRequest) -> QueryResponse:
        """Respond that the ledger can be read; no analyst's budget is looked up."""
        self.budgets.charged_by(None).remaining  # noqa: B018  raises where the ledger cannot be read
        return _json({"status": "ready"})

    def _history(self, job: QueryRequest) -> QueryResponse:
        """Respond with the paid queries of an analyst."""
        analyst = None if job.everybody else job.analyst
        budget = self.budgets.charged_by(analyst)
        return _json({"analyst": analyst, "history": [_spent_to_json(one) for one in budget.history]})


def _digest(job: QueryRequest) -> str:
    """Return the digest by which a repeated request is recognized, whatever its format."""
    asks = [job.text, job.confidence, job.simultaneous]
    return canonical_digest({"key": job.key, "asks": asks})


def _again(body: bytes, entry: int, media: str) -> QueryResponse:
    """Return the response that repeats a kept answer without charge."""
    return _format_response(unpack(body), media, {"repeats": entry}, entry)


def _format_response(
    made: Answer, media: str, log: Mapping[str, Any], repeats: int | None = None
) -> QueryResponse:
    """Return the response with an answer in the requested format; CSV gets metadata in a header."""
    headers = {} if repeats is None else {"sfumato-repeats": str(repeats)}
    if media == CSV and "metadata" in made.about:  # which answers of old have not
        headers["sfumato-metadata"] = as_json(made.about["metadata"]).decode()
    return QueryResponse(200, media, encode_answer(made, media, repeats=repeats), log, headers)


def _nobodys() -> Budget:
    """Return a budget for queries that are not drawn, or that read dummy rows."""
    return Budget(10**300, Fraction(10**9 - 1, 10**9), composition="adding")


# Options of a release that change its plan; not what finds bounds, or stands beside it.
_PLANNED = ("epsilon", "delta", "noise", "group_selection", "pre_threshold")


def failed(error: SfumatoError) -> QueryResponse:
    """Return the response to an error; of a source, it says only that it cannot be read."""
    if isinstance(error, _OF_OWNERS):
        # Their words name files and columns as the owner knows them, and no row: the log has them.
        if isinstance(error, EngineError) and error.of_ledger:
            return _log_reason(make_refusal(EngineError(_NO_LEDGER), 503), error)
        return _log_reason(make_refusal(EngineError(_OWNERS), 503), error)
    return make_refusal(error, next((status for kind, status in _STATUS if isinstance(error, kind)), 400))


def _log_reason(outcome: QueryResponse, error: SfumatoError) -> QueryResponse:
    """Return a response whose reason only the owner reads, in the log."""
    return replace(outcome, log={"error": type(error).__name__, "why": str(error)})


def make_refusal(error: SfumatoError, status: int) -> QueryResponse:
    """Return the response to an error that the analyst may read."""
    return QueryResponse(
        status, JSON, as_json({"error": error_to_json(error)}), {"error": type(error).__name__}
    )


def _spent_to_json(one: Spent) -> dict[str, Any]:
    """Return a paid query of the history as JSON data; a ledger adds time, analyst and entry."""
    found = {"what": one.what, "epsilon": float(one.epsilon), "delta": float(one.delta)}
    at, analyst = getattr(one, "at", None), getattr(one, "analyst", None)
    if at is None:
        return found
    return found | {"at": plain(at), "analyst": analyst, "entry": getattr(one, "number", None)}


def _json(data: Any) -> QueryResponse:
    return QueryResponse(200, JSON, as_json(data))
