"""Pieces of SQL text, as `sfumato.sql_text` writes them."""

from sfumato.sql_text import double, identifier, literal, same_name

__all__ = ["double", "identifier", "literal", "same_name"]
