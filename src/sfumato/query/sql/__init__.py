"""SQL text to question: words, syntax, meaning, and the question itself."""

from sfumato.query.sql.meaning import parse
from sfumato.query.sql.question import SqlQuery

__all__ = ["SqlQuery", "parse"]
