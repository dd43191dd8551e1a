"""Closeness of a sample of noise to its law, or to another sample, with a stated error."""

from __future__ import annotations

from sfumato.audit.closeness.closeness_result import Check, Closeness
from sfumato.audit.closeness.law_checks import closeness
from sfumato.audit.closeness.reference_law import VectorLaw

__all__ = ["Check", "Closeness", "VectorLaw", "closeness"]
