"""The auditor: find what is wrong in anybody's differentially private code."""

from __future__ import annotations

from sfumato.audit.auditor import assert_private, audit
from sfumato.audit.claims import Claim, Pair, approximate, curve, gaussian, zcdp
from sfumato.audit.closeness import Check, Closeness, closeness
from sfumato.audit.datasets import Edge, edges, halton, numbers, odd_numbers, units, without
from sfumato.audit.histogram import HistogramMethod
from sfumato.audit.mechanisms import Mechanism, MechanismError, Raised
from sfumato.audit.report import Excluded, Histogram, Point, Report, Witness
from sfumato.audit.task import Progress, Task

__all__ = [
    "Check",
    "Claim",
    "Closeness",
    "Edge",
    "Excluded",
    "Histogram",
    "HistogramMethod",
    "Mechanism",
    "MechanismError",
    "Pair",
    "Point",
    "Progress",
    "Raised",
    "Report",
    "Task",
    "Witness",
    "approximate",
    "assert_private",
    "audit",
    "closeness",
    "curve",
    "edges",
    "gaussian",
    "halton",
    "numbers",
    "odd_numbers",
    "units",
    "without",
    "zcdp",
]
