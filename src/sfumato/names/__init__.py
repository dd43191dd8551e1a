"""Suggestions for wrong names: unknown attributes and arguments, and names of other libraries."""

from sfumato.names.suggestions import Helpful, Suggesting, advising, face, helpful, not_a_column, unknown_name

__all__ = ["Helpful", "Suggesting", "advising", "face", "helpful", "not_a_column", "unknown_name"]
