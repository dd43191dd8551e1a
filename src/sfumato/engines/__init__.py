"""Engines compute exact statistics; `scan` and `sql` open a source on the engine that fits it."""

from sfumato.engines.asked import sql
from sfumato.engines.scan import scan

__all__ = ["scan", "sql"]
