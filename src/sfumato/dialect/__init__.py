"""SQL text to question: words, syntax, meaning, and the question itself."""

from sfumato.dialect.meaning import parse
from sfumato.dialect.question import SqlQuery

__all__ = ["SqlQuery", "parse"]
