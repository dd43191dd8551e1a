"""Is this the noise that it says it is? A sample against a law or another sample, with a stated error."""

from __future__ import annotations

from sfumato.audit.closeness.closeness_result import Check, Closeness
from sfumato.audit.closeness.law_checks import closeness
from sfumato.audit.closeness.reference_law import VectorLaw

__all__ = ["Check", "Closeness", "VectorLaw", "closeness"]
