"""The HTTP server of the service: settings, uvicorn with time limits and TLS, and budgets from a ledger."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sfumato.dataclass import dataclass
from sfumato.engines.catalog import catalog
from sfumato.errors import BudgetError, EngineError, ParameterError, QueryError, SfumatoError, shown
from sfumato.exact import positive_int
from sfumato.files import check_private
from sfumato.service.access_tokens import Tokens
from sfumato.service.analyst_catalog import AnalystsCatalog
from sfumato.service.http_app import Limits, Service
from sfumato.service.monitoring import LinesQueue, log
from sfumato.service.query_service import QueryService
from sfumato.service.worker_processes import Pace, Workers

if TYPE_CHECKING:
    from sfumato.budget import Budget
    from sfumato.budget.ledger import Ledger


# The ledger's own words name the place where it lies.
_NOTHING = "no budget is granted to {!r}. Ask the owner of the tables"


@dataclass(frozen=True)
class LedgerBudgets:
    """The budgets of the served dataset, in a ledger.

    Args:
        ledger: that holds them.
        dataset: what it calls the data.
    """

    ledger: Ledger
    dataset: str

    def charged_by(self, analyst: str | None) -> Budget:
        """Return the ledger budget that an analyst's queries charge; for None the budget of all.

        Raises:
            BudgetError: nothing is granted to them.
        """
        try:
            return self.ledger.budget(self.dataset, analyst=analyst)
        except BudgetError:
            pass
        raise BudgetError(_NOTHING.format(analyst))

    def refused(self, analyst: str, text: str, error: SfumatoError) -> None:
        """Record in the ledger's journal that a query was refused; failures to record are ignored."""
        with suppress(SfumatoError):
            self.ledger.journal._record_rejected_text(self.dataset, analyst, text, type(error).__name__)


def open_budgets(place: str, dataset: str) -> LedgerBudgets:
    """Return the budgets of the served dataset in a ledger.

    Raises:
        BudgetError: the ledger has none.
        EngineError: it cannot be opened, or others can read or change its file.
    """
    from sfumato.budget.ledger import Ledger

    if "://" not in place and os.path.exists(place):
        check_private(os.stat(place), f"the ledger {shown(place)}")
    ledger = Ledger(place)
    ledger.budget(dataset)
    return LedgerBudgets(ledger, dataset)


PAGE = Path(__file__).parent / "page"
_KEPT = 5  # seconds that a connection may be silent between two requests
_HEADERS = 16 * 1024  # bytes of a request's headers
_CONNECTIONS = 200
_LOCAL = ("localhost",)


@dataclass(frozen=True)
class Settings:
    """The settings of a server.

    Args:
        catalog: the path of the file that declares its tables.
        ledger: the path or URL of the ledger that pays.
        dataset: what the ledger calls the data; None for the name of the catalog's file.
        tokens: the path of the file of tokens.
        host, port: where it listens.
        certfile, keyfile: of TLS; None without.
        behind_proxy: whether a proxy brings TLS, so that it may listen to other machines without.
        workers: processes that answer questions.
        seconds: that one question may compute, all its threads together; it may take four times as long.
        constant_time: seconds after which each answer that rows were read for is sent; None for at once.
        limits: `memory_limit`, `threads` and `temp_directory` of each question.
    Raises:
        QueryError: tokens would cross a network in the clear.
        ParameterError: something is not admissible.
    """

    catalog: str
    ledger: str = "budget.db"
    dataset: str | None = None
    tokens: str = "tokens.db"
    host: str = "127.0.0.1"
    port: int = 8000
    certfile: str | None = None
    keyfile: str | None = None
    behind_proxy: bool = False
    workers: int = 2
    seconds: float = 60.0
    constant_time: float | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        positive_int(self.workers, "workers")
        if not 0 < self.seconds <= 86_400:
            raise ParameterError("seconds", self.seconds, "more than 0, and at most a day, 86400")
        if self.constant_time is not None and not 0.1 <= self.constant_time <= 86_400:
            form = "from 0.1 second to a day, 86400; or None for answers as soon as they are there"
            raise ParameterError("constant_time", self.constant_time, form)
        if not 0 <= self.port < 65_536:
            raise ParameterError("port", self.port, "from 0, for any that is free, to 65535")
        if (self.certfile is None) != (self.keyfile is None):
            missing = "certfile" if self.certfile is None else "keyfile"
            raise QueryError(f"{missing} is missing. Give both --certfile and --keyfile, or neither")
        if self.certfile is None and not self.behind_proxy and not _is_local(self.host):
            raise QueryError(
                f"host is {self.host!r}, which other machines reach, so tokens and answers would "
                "cross the network unencrypted. Give --certfile and --keyfile, or --behind-proxy if "
                "only a TLS proxy can reach this port"
            )

    @property
    def dataset_name(self) -> str:
        """The name of the served dataset in the ledger."""
        return self.dataset or Path(self.catalog).stem


def make_query_service(settings: Settings) -> QueryService:
    """Return the query service for a server's settings; each worker process makes its own.

    Raises:
        CatalogError, EngineError: tables are not as declared, or cannot be opened.
        BudgetError: the ledger has no budget for them.
    """
    declared = AnalystsCatalog.from_catalog(catalog(settings.catalog))
    declared.described(**settings.limits)  # what is wrong with a table is the owner's to hear, and now
    return QueryService(declared, open_budgets(settings.ledger, settings.dataset_name), settings.limits)


# As that of localhost in IPv6, on a machine that has none.
_NO_SUCH_ADDRESS = errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT


@contextmanager
def listening(settings: Settings) -> Iterator[list[socket.socket]]:
    """Open the server's port on each address of its host; early connections wait.

    Args:
        settings: of which host and port count.
    Raises:
        EngineError: the port cannot be had, and why.
    """
    host, port = settings.host, settings.port
    with ExitStack() as held:
        sockets, missing = list[socket.socket](), list[OSError]()
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, _, _, _, address in dict.fromkeys(found):
                try:
                    sockets.append(held.enter_context(socket.create_server(address, family=family)))
                except OSError as error:
                    if error.errno not in _NO_SUCH_ADDRESS:
                        raise
                    missing.append(error)
            if not sockets:
                raise missing[0]
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise EngineError(
                    f"port {port} of {host} is in use by another program, perhaps another "
                    "service. Stop that, or choose another port"
                ) from None
            raise EngineError(f"cannot listen on port {port} of {host}: {error.strerror}") from None
        yield sockets


class Impatient(H11Protocol):
    """A server connection with time limits for the next request and for reading answers.

    uvicorn waits for ever for the first byte of a connection, and for the last one of its headers.
    """

    patience: float = 10.0  # seconds for a request's headers: up to twice that, as it is looked at so often
    longest: float = 600.0  # seconds for one request and its answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the server connection's time limits."""
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        self._before: object = None
        self._looks = 0
        self._was_idle = True
        self.loop.call_later(self.patience, self._close_idle)

    def _close_idle(self) -> None:
        """Close a server connection that was silent since the last look, or busy for too long."""
        if self.transport.is_closing():
            return
        idle = self.cycle is None or self.cycle.response_complete
        same = self.cycle is self._before
        self._looks = self._looks + 1 if same else 0
        if same and ((idle and self._was_idle) or self._looks * self.patience > self.longest):
            self.transport.abort()
            return
        self._before, self._was_idle = self.cycle, idle
        self.loop.call_later(self.patience, self._close_idle)


class Server(uvicorn.Server):
    """The uvicorn server, which logs where it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the server and log its address."""
        await super().startup(sockets)
        if self.started:
            port = self.servers[0].sockets[0].getsockname()[1]
            log("listening", host=self.config.host, port=port, tls=self.config.is_ssl)


def server(service: Service, settings: Settings) -> Server:
    """Return the uvicorn server for an application, not running yet."""
    patient = type("Impatient", (Impatient,), {"patience": service.limits.arrival})
    config = uvicorn.Config(
        service,
        host=settings.host,
        port=settings.port,
        http=patient,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,  # it would show paths and what is asked in them
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=_KEPT,
        timeout_graceful_shutdown=round(max(settings.seconds, settings.constant_time or 0)) + 5,
        h11_max_incomplete_event_size=_HEADERS,
        ssl_certfile=settings.certfile,
        ssl_keyfile=settings.keyfile,
    )
    return Server(config)


def run(settings: Settings, limits: Limits | None = None, sockets: list[socket.socket] | None = None) -> None:
    """Run the server until SIGTERM or SIGINT; requests in progress are finished first.

    Args:
        settings: how.
        limits: of one request.
        sockets: of `listening`; None to listen as the settings say.
    Raises:
        SfumatoError: port, tables, ledger or tokens are not as they must be. The catalog is read first,
            then the port is looked at, and no other file is opened where it cannot be had.
    """
    if sockets is None:
        catalog(settings.catalog)  # whoever misspells its path learns that, and not that a port is taken
        with listening(settings) as held:
            return run(settings, limits, held)
    tokens = Tokens(settings.tokens, make=False)
    lines = write_lines()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises it again when it has ended
    try:
        pace = Pace(settings.constant_time)
        workers = Workers(partial(make_query_service, settings), settings.workers, settings.seconds, pace)
        try:
            server(Service(workers, tokens, limits or Limits(), PAGE), settings).run(sockets)
        except KeyboardInterrupt:
            pass
        finally:
            workers.stop()
            log("ended")
    finally:
        lines.stop()


def write_lines() -> LinesQueue:
    """Write the server's log to standard error as JSON lines; end by `stop`."""
    handler = LinesQueue(sys.stderr)
    for name, level in (("sfumato.service", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    return handler


def _is_local(host: str) -> bool:
    """Whether a host is this machine only."""
    if host in _LOCAL:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
