"""Suggestions for wrong names: unknown attributes and arguments, and names of other libraries."""

from sfumato.names.suggestions import (
    Suggesting,
    SuggestingArguments,
    advising,
    face,
    not_a_column,
    suggest_arguments,
    unknown_name,
)

__all__ = [
    "Suggesting",
    "SuggestingArguments",
    "advising",
    "face",
    "not_a_column",
    "suggest_arguments",
    "unknown_name",
]
