"""Row expressions: what may be asked of a row, and its form that cannot raise."""

from sfumato.engines.duckdb.expressions.judge import Judged, judged

__all__ = ["Judged", "judged"]
