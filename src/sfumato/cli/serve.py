"""`sfumato serve` and `sfumato token`: questions over HTTP, and who may ask them."""

from __future__ import annotations

import time
from enum import IntEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from sfumato.cli.ledgers import ledger_option
from sfumato.cli.mistaken import Commands
from sfumato.cli.options import fail, flag, optional
from sfumato.errors import EngineError, SfumatoError

_TOKENS = Annotated[
    Path, typer.Option("--tokens", metavar="PATH", help="The file of tokens, of which it holds hashes alone.")
]


class ServeCode(IntEnum):
    """Exit codes."""

    DONE = 0
    ENGINE = 1  # a source, a file or the installation must be fixed
    SETTINGS = 2  # the catalog, the budget or the command line must be fixed


def serve(
    catalog: Annotated[
        Path, typer.Argument(metavar="PATH", help="catalog.toml: the tables.", show_default=False)
    ],
    ledger: Annotated[
        str, ledger_option("The ledger that pays: a path, or postgresql://USER@HOST/DATABASE.")
    ] = "budget.db",
    dataset: Annotated[
        str | None,
        optional(
            "--dataset",
            metavar="NAME",
            help="What the ledger calls the data. Default: the name of the catalog.",
        ),
    ] = None,
    tokens: _TOKENS = Path("tokens.db"),
    host: Annotated[str, typer.Option("--host", metavar="NAME", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", help="Where to listen.")] = 8000,
    certfile: Annotated[
        Path | None, optional("--certfile", metavar="PATH", help="The certificate of TLS, with its chain.")
    ] = None,
    keyfile: Annotated[Path | None, optional("--keyfile", metavar="PATH", help="Its private key.")] = None,
    behind_proxy: Annotated[
        bool, flag("--behind-proxy", help="A proxy that brings TLS is all that can reach the port.")
    ] = False,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", help="Processes that answer questions.")
    ] = 2,
    seconds: Annotated[
        float,
        typer.Option("--seconds", metavar="N", help="That one question may compute: CPU time."),
    ] = 60.0,
    constant_time: Annotated[
        float | None,
        optional(
            "--constant-time",
            metavar="SECONDS",
            help="Answer so long after a question's turn came, however long its rows took. Default: at once.",
        ),
    ] = None,
    memory_limit: Annotated[
        str | None,
        optional(
            "--memory-limit", metavar="AMOUNT", help="Of each process, before rows are spilled to disk."
        ),
    ] = None,
    threads: Annotated[
        int | None, optional("--threads", metavar="N", help="Of each process at most.")
    ] = None,
) -> None:
    """Answer questions over HTTP, for those who have a token: noisy tables, and never a row."""
    from sfumato.query.released.output import require

    try:
        for part in ("uvicorn", "starlette"):
            require(part, "serve")
        from sfumato.service.serving import Settings, run

        limits = {"memory_limit": memory_limit, "threads": threads}
        run(
            Settings(
                str(catalog),
                ledger,
                dataset,
                str(tokens),
                host,
                port,
                None if certfile is None else str(certfile),
                None if keyfile is None else str(keyfile),
                behind_proxy,
                workers,
                seconds,
                constant_time,
                {name: value for name, value in limits.items() if value is not None},
            )
        )
    except SfumatoError as error:
        _stop(error)


token: typer.Typer = typer.Typer(
    cls=Commands,
    help="Tokens of those who may ask a service.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@token.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is: ann.", show_default=False)],
    role: Annotated[
        str, typer.Option("--role", metavar="ROLE", help="analyst; or owner, who also sees metrics.")
    ] = "analyst",
    days: Annotated[
        int | None, optional("--days", metavar="N", help="How long it is valid. Default: for ever.")
    ] = None,
    tokens: _TOKENS = Path("tokens.db"),
) -> None:
    """Make a token and print it: this once, as only its hash is kept."""
    from sfumato.service.tokens import Tokens

    try:
        typer.echo(Tokens(tokens).create(name, role=role, days=days))
    except SfumatoError as error:
        _stop(error)


@token.command("list")
def listed(tokens: _TOKENS = Path("tokens.db")) -> None:
    """Print what is known of each token, which is not the token."""
    from sfumato.service.tokens import Tokens

    try:
        for one in Tokens(tokens, make=False).all():
            made = time.strftime("%Y-%m-%d", time.gmtime(one.created))
            until = "" if one.expires is None else time.strftime(" until %Y-%m-%d", time.gmtime(one.expires))
            typer.echo(f"{one.id}  {one.name}  {one.role}  {one.state}  made {made}{until}")
    except SfumatoError as error:
        _stop(error)


@token.command()
def revoke(
    known: Annotated[
        str, typer.Argument(metavar="ID", help="As sfumato token list prints it.", show_default=False)
    ],
    tokens: _TOKENS = Path("tokens.db"),
) -> None:
    """Let a token be valid no more, from the next request on."""
    from sfumato.service.tokens import Tokens

    try:
        Tokens(tokens, make=False).revoke(known)
    except SfumatoError as error:
        _stop(error)


def _stop(error: SfumatoError) -> NoReturn:
    fail(error, ServeCode.ENGINE if isinstance(error, EngineError) else ServeCode.SETTINGS)
