"""Engines compute exact statistics; `scan` and `sql` open a source on the engine that fits it."""
