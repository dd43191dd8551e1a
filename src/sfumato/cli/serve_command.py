"""`sfumato serve` and `sfumato token`: questions over HTTP, and who may ask them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import answering, argument, commands, option

_TOKENS = Annotated[Path, option("tokens")]


def serve(
    catalog: Annotated[Path, argument("path.serve")],
    ledger: Annotated[str, option("ledger.serve")] = "budget.db",
    dataset: Annotated[str | None, option("dataset.serve")] = None,
    tokens: _TOKENS = Path("tokens.db"),
    host: Annotated[str, option("host")] = "127.0.0.1",
    port: Annotated[int, option("port")] = 8000,
    certfile: Annotated[Path | None, option("certfile")] = None,
    keyfile: Annotated[Path | None, option("keyfile")] = None,
    behind_proxy: Annotated[bool, option("behind-proxy")] = False,
    workers: Annotated[int, option("workers")] = 2,
    seconds: Annotated[float, option("seconds.serve")] = 60.0,
    constant_time: Annotated[float | None, option("constant-time")] = None,
    memory_limit: Annotated[str | None, option("memory-limit.serve")] = None,
    threads: Annotated[int | None, option("threads.serve")] = None,
) -> None:
    """Answer queries over HTTP for token holders, with noisy tables and never a row."""
    from sfumato.errors import require

    with answering():
        for part in ("uvicorn", "starlette"):
            require(part, "serve")
        from sfumato.service.server import Settings, run

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


token: typer.Typer = commands("Manage the access tokens of a service.")


@token.command()
def create(
    name: Annotated[str, argument("name")],
    role: Annotated[str, option("role")] = "analyst",
    days: Annotated[int | None, option("days")] = None,
    tokens: _TOKENS = Path("tokens.db"),
) -> None:
    """Create a token and print it once; only its hash is kept."""
    from sfumato.service.access_tokens import Tokens

    with answering():
        typer.echo(Tokens(tokens).create(name, role=role, days=days))


@token.command("list")
def listed(tokens: _TOKENS = Path("tokens.db")) -> None:
    """List the tokens, without the tokens themselves."""
    from sfumato.service.access_tokens import Tokens

    with answering():
        for one in Tokens(tokens, make=False).all():
            made = time.strftime("%Y-%m-%d", time.gmtime(one.created))
            until = "" if one.expires is None else time.strftime(" until %Y-%m-%d", time.gmtime(one.expires))
            typer.echo(f"{one.id}  {one.name}  {one.role}  {one.state}  made {made}{until}")


@token.command()
def revoke(
    known: Annotated[str, argument("id")],
    tokens: _TOKENS = Path("tokens.db"),
) -> None:
    """Revoke a token, from the next request on."""
    from sfumato.service.access_tokens import Tokens

    with answering():
        Tokens(tokens, make=False).revoke(known)
