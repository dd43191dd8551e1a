"""The auditor, for anybody's private mechanism, and the falsifier, for stability maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.audit.audit_task import Progress, Task
from sfumato.audit.auditor import assert_private, audit
from sfumato.audit.claims import Claim, Pair, approximate, curve, gaussian, zcdp
from sfumato.audit.closeness.closeness_result import Check, Closeness
from sfumato.audit.closeness.law_checks import closeness
from sfumato.audit.closeness.reference_law import VectorLaw
from sfumato.audit.datasets import Edge, edges, halton, numbers, odd_numbers, units, without
from sfumato.audit.falsifier.falsification import Falsification, falsify
from sfumato.audit.histogram_method import HistogramMethod
from sfumato.audit.mechanisms import Mechanism, MechanismError, Raised
from sfumato.audit.report import Excluded, Histogram, Point, Report, Witness
from sfumato.names import face

__all__ = [
    "Check",
    "Claim",
    "Closeness",
    "Edge",
    "Excluded",
    "Falsification",
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
    "VectorLaw",
    "Witness",
    "approximate",
    "assert_private",
    "audit",
    "closeness",
    "curve",
    "edges",
    "falsify",
    "gaussian",
    "halton",
    "numbers",
    "odd_numbers",
    "units",
    "without",
    "zcdp",
]

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("audit", __all__)
