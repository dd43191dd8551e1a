"""What a release's limits and bounds changed, told by a second question for a share of its budget."""

from sfumato.query.diagnostics.diagnosis_plan import Diagnosis, diagnosis, share_of
from sfumato.query.diagnostics.findings import Diagnostics, Finding
from sfumato.query.diagnostics.shifts import Shift

__all__ = ["Diagnosis", "Diagnostics", "Finding", "Shift", "diagnosis", "share_of"]
