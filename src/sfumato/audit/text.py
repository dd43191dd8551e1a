"""A report in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.audit.report import Report


def text(report: Report) -> str:
    """Return the report as a few lines for a terminal or a failed test."""
    raise NotImplementedError
