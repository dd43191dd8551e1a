"""Is this the noise that it says it is? A sample against a law or another sample, with a stated error."""

from __future__ import annotations

from sfumato.audit.closeness.checks import closeness
from sfumato.audit.closeness.reference import VectorLaw
from sfumato.audit.closeness.results import Check, Closeness

__all__ = ["Check", "Closeness", "VectorLaw", "closeness"]
