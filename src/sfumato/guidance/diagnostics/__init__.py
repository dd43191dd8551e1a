"""What a release's limits and bounds changed, told by a second question for a share of its budget."""

from sfumato.guidance.diagnostics.diagnosis_plan import Diagnosis, diagnosis, share_of
from sfumato.guidance.diagnostics.findings import Diagnostics, Finding
from sfumato.guidance.diagnostics.shifts import Shift

__all__ = ["Diagnosis", "Diagnostics", "Finding", "Shift", "diagnosis", "share_of"]
