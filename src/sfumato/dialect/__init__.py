"""Differentially private SQL: text to tokens, parsed SELECT, bound query and question."""

from typing import TYPE_CHECKING

from sfumato.names import face

if TYPE_CHECKING:
    from sfumato.dialect.binder import parse
    from sfumato.dialect.sql_query import SqlQuery

__all__ = ["SqlQuery", "parse"]

# The names of each module, which is loaded when one of them is first used.
_HOMES = {
    "dialect.binder": "parse",
    "dialect.sql_query": "SqlQuery",
}

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("dialect", __all__, _HOMES)
