"""Names that are not here: what other libraries call a thing, and what is said to whoever writes it."""

from sfumato.names.suggestions import Helpful, Suggesting, advising, face, helpful, not_a_column, unknown_name

__all__ = ["Helpful", "Suggesting", "advising", "face", "helpful", "not_a_column", "unknown_name"]
