"""Row expressions: what may be asked of a row, and its form that cannot raise."""

from sfumato.engines.duckdb.expressions.texts import MOST_HELD
from sfumato.engines.duckdb.expressions.validation import LONGEST, ValidatedExpression, validated

__all__ = ["LONGEST", "MOST_HELD", "ValidatedExpression", "validated"]
