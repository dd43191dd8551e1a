"""What is said to whoever writes a command or an option that is not there."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperGroup

from sfumato.names.foreign import COMMAND_LINE


class Told(TyperGroup):
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
