"""A ledger on a server of PostgreSQL, for analysts on several machines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from sqlalchemy import Connection, create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool

from sfumato.budget.ledger.store import UNTOLD, WAIT, Store
from sfumato.budget.ledger.written import damage
from sfumato.errors import EngineError, in_own_words

SCHEMES = ("postgresql://", "postgres://")
_FORM = (
    "write postgresql://USER@HOST/DATABASE; /, @, : and % in a name or a password are %2F, %40, %3A and "
    "%25, and a password is better in PGPASSWORD or ~/.pgpass"
)
# By the beginnings of SQLSTATE.
_STATES = {
    "28": "the user or the password is refused",
    "3D000": "the server has no such database",
    "3F000": "no schema is there to make tables in; see search_path",
    "42501": f"this user may not do that there; {UNTOLD}. Caps and tables are for the ledger's owner, and "
    "docs/ledger.md lists what spenders need",
    "42P01": "the database has no ledger; see sfumato budget create, or search_path",
    "42703": damage("its tables are not those of a ledger"),
    "23": damage("its tables refuse what a ledger writes"),
    "XX001": damage("the server cannot read its pages"),
    "XX002": damage("the server cannot read its indexes"),
    "25006": f"the server, or this user's transactions, can only be read; {UNTOLD}",
    "53": f"the server has no disk, memory or connections left; {UNTOLD}",
    "55P03": f"another process has kept the ledger for {WAIT} seconds; {UNTOLD}",
    "40": f"the server undid the change each time, as others changed the same; {UNTOLD}",
    "57014": f"the server stopped the question, as its statement_timeout says; {UNTOLD}",
}
_TEXTS = {
    "no password supplied": "it asks for a password, which is in the address, PGPASSWORD or ~/.pgpass",
    "authentication failed": "the user or the password is refused",
    "does not exist": "it has no such database or user",
    "translate host name": "there is no such host",
    "resolve host": "there is no such host",
    "refused": "no server answers there",
    "No such file": "no server answers there",
    "timeout": "no server answers in time",
    "timed out": "no server answers in time",
}


class PostgresqlStore(Store):
    """A database of a server.

    Args:
        address: postgresql://...
    """

    def __init__(self, address: str) -> None:
        wrong = ""
        try:
            with in_own_words():
                url = make_url(address).set(drivername="postgresql+psycopg")
                host = url.host or url.query.get("host") or "localhost"
                shown = f"postgresql://{host}/{quote(url.database or '')}"
                engine = create_engine(
                    url,
                    poolclass=NullPool,
                    hide_parameters=True,
                    use_native_hstore=False,  # which would be looked up on the server
                    # Of a pool of servers each may be asked once.
                    connect_args={"prepare_threshold": None}
                    | ({} if "connect_timeout" in url.query else {"connect_timeout": WAIT}),
                )
        except (ArgumentError, ValueError):
            wrong = f"the address of the ledger cannot be read: {_FORM}"
        except ImportError:
            wrong = "install what a ledger on PostgreSQL needs: pip install 'sfumato[ledger]'"
        if not wrong and not url.database:
            wrong = f"the address of the ledger names no database: {_FORM}"
        if wrong:
            raise EngineError(wrong)
        super().__init__(shown, engine)

    def begin_read(self, connection: Connection) -> None:
        """Begin a transaction that sees one moment."""
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def begin_change(self, connection: Connection) -> None:
        """Begin one whose end is on the server's disk before it is told."""
        # Who waited for the ledger's row sees what was changed meanwhile.
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{WAIT}s'")
        connection.exec_driver_sql(
            "SELECT set_config('synchronous_commit', 'on', true) "
            "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
        )

    def now(self, connection: Connection) -> datetime:
        """Return the time by the server's clock."""
        # A number, as no setting of the server's writes it otherwise.
        asked = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        since = timedelta(microseconds=connection.exec_driver_sql(asked).scalar_one())
        return datetime(1970, 1, 1, tzinfo=UTC) + since

    def again(self, error: DBAPIError) -> bool:
        """Whether a serialization failed, or the server broke a circle of locks."""
        return getattr(error.orig, "sqlstate", None) in ("40001", "40P01")

    def why(self, error: Exception, ending: bool) -> str:
        """Say what is wrong and what to do."""
        original = error.orig if isinstance(error, DBAPIError) else error
        state = getattr(original, "sqlstate", None) or ""
        for part, reason in _STATES.items():
            if state.startswith(part):
                return reason
        if ending:
            return (
                "the connection broke while a change ended, so that it may have been entered, or not: see "
                "sfumato budget history. Nothing was released"
            )
        text = str(original)
        for part, reason in _TEXTS.items():
            if not state and part in text:
                return f"{reason}; {UNTOLD}"
        return (
            f"the server cannot be used ({state or type(original).__name__}): see whether psql can; {UNTOLD}"
        )

    def check_empty(self, connection: Connection) -> None:
        """One at a time makes the tables; those of others may be beside them."""
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('sfumato_ledger'))")
