"""Groups of commands: what their help lists, and what to write instead of unknown commands and options."""

from __future__ import annotations

import inspect
import re
from typing import Any

from typer import echo
from typer.core import TyperGroup

from sfumato.names.foreign import COMMAND_LINE


class Commands(TyperGroup):
    """Commands whose help lists each with the first paragraph of its description, not cut."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the help where nothing else is asked; click would print it as an error."""
        if not args and not ctx.resilient_parsing:
            echo(ctx.get_help())
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write what each command does."""
        paragraphs = {
            name: inspect.cleandoc(self.commands[name].help or "").partition("\n\n")[0]
            for name in self.list_commands(ctx)
        }
        with formatter.section("Commands"):
            formatter.write_dl([(name, " ".join(text.split())) for name, text in paragraphs.items()])


class Told(Commands):
    """Commands that say, of foreign names, what to write instead; Typer offers similar ones by itself."""

    def invoke(self, ctx: Any) -> Any:
        """Run what was asked."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            _tell(error)
            raise


def _tell(error: Any) -> None:
    """Add what to write to an error of Typer's, by the name in its text, where that is known."""
    text = str(getattr(error, "message", ""))
    named = re.match(r"No such (?:option: |command ')([-\w]+)", text)
    advice = COMMAND_LINE.get(named[1]) if named else None
    if advice:
        error.message, error.possibilities = f"{text.partition('. Did')[0].rstrip('.')}; {advice}", None
