"""Engines compute exact statistics; `sfumato.scan` opens a source on the engine that fits it."""
