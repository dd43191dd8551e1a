"""What a release's limits and bounds changed, told by a second question for a share of its budget."""

from sfumato.query.diagnostics.asked import Diagnosis, diagnosis, share_of
from sfumato.query.diagnostics.release import Diagnostics, Finding

__all__ = ["Diagnosis", "Diagnostics", "Finding", "diagnosis", "share_of"]
