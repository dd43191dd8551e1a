"""Is this the noise that it says it is? A sample against an exact law, with a stated error probability."""

from __future__ import annotations

from sfumato.audit.closeness.checks import Check, Closeness, closeness

__all__ = ["Check", "Closeness", "closeness"]
