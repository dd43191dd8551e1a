"""What may stand around private SELECTs: all that DuckDB computes with released and public tables, no more.

An allow-list over DuckDB's syntax tree: nodes, tables and functions that are not known are refused. Nothing
private is within reach there; this keeps files, settings, the clock and other tables out too, so that the
answer follows from the noisy numbers, public tables and the text alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from sfumato.dataclass import dataclass
from sfumato.dialect.overloads import functions
from sfumato.dialect.tree import Node, byte_of, in_scope
from sfumato.dialect.vocabulary import refusals
from sfumato.errors import SqlError, nearest

_EXPRESSIONS = (
    "BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA OPERATOR "
    "POSITIONAL_REFERENCE STAR SUBQUERY TYPE WINDOW"
)
_NODES = (
    "SELECT_NODE SET_OPERATION_NODE BASE_TABLE SUBQUERY JOIN EMPTY EXPRESSION_LIST DISTINCT_MODIFIER "
    "LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER ORDER_MODIFIER ORDER_DEFAULT ASCENDING DESCENDING"
)
_SAID = refusals("around")
_WITHIN = (
    "outside the private SELECT there are released tables, by the names that they have in WITH name AS "
    "(SELECT WITH ...) SELECT ..., and public ones"
)
_HIDDEN = (
    "{0} is a name of WITH where this private SELECT reads {0}, and hides the table, as SQL has it; give "
    "that name of WITH another one"
)
_DECLARED = (
    "Those are declared: public = true in a catalog, tables={...: sf.public(...)}, or --public NAME=PATH"
)
_VALUES = (
    "current_catalog current_date current_role current_schema current_time current_timestamp current_user "
    "localtime localtimestamp session_user user"
)
_KNOWN_EXPRESSIONS, _KNOWN_NODES, _KNOWN_VALUES = (
    frozenset(words.split(" ")) for words in (_EXPRESSIONS, _NODES, _VALUES)
)


@dataclass(frozen=True)
class _Known:
    """What a text may name: released tables, their columns, and public tables; private ones it may not."""

    released: Mapping[str, Collection[str]]
    columns: Collection[str]
    public: Mapping[str, Sequence[str]]
    private: Collection[str]


def check_outside(
    tree: Node,
    released: Mapping[str, Collection[str]],
    columns: Collection[str],
    public: Iterable[str],
    private: Iterable[str],
    refuse: Callable[[int, str], SqlError],
) -> list[str]:
    """Refuse what is not known to compute with released and public tables alone.

    Args:
        tree: DuckDB's, of the whole text.
        released: of each released table the names of what its private SELECT reads.
        columns: their columns, in lower case.
        public, private: names of other tables.
        refuse: makes an error, of a byte in the text, or -1, and a message.
    Returns:
        The public tables that it reads.
    """
    by_name: dict[str, list[str]] = {}
    for name in public:
        by_name.setdefault(name.casefold(), []).append(name)
    known = _Known(released, columns, by_name, {name.casefold() for name in private})
    read: dict[str, None] = {}
    for node, scope in in_scope(tree):
        message = _message(node, known, scope, read)
        if message:
            raise refuse(byte_of(node), message)
    return list(read)


def _message(node: Node, known: _Known, scope: Counter[str], read: dict[str, None]) -> str:
    kind, named = node.get("class"), node.get("type")
    if node.get("sample"):
        return (
            "TABLESAMPLE and USING SAMPLE have no place here: what they take does not follow from the numbers"
        )
    if kind is None and (not isinstance(named, str) or named.endswith("_TYPE_INFO")):
        return ""
    if (kind is None and named not in _KNOWN_NODES) or (kind is not None and kind not in _KNOWN_EXPRESSIONS):
        return _SAID.get(str(kind or named), f"{kind or named} has no place outside the private SELECT")
    if kind in ("FUNCTION", "WINDOW"):
        name = node["function_name"].lower()
        if node.get("schema") or node.get("catalog") or name not in functions().around:
            return (
                f"{node['function_name']} is not known outside the private SELECT: only functions are whose "
                "results follow from the noisy numbers alone"
            )
    if kind == "COLUMN_REF" and len(node["column_names"]) == 1:
        (name,) = node["column_names"]
        if name.casefold() in _KNOWN_VALUES and name.casefold() not in known.columns:
            return f"{name}: write the value itself"
    if kind is None and named == "BASE_TABLE":
        return _of_table(node, known, scope, read)
    return ""


def _of_table(node: Node, known: _Known, scope: Counter[str], read: dict[str, None]) -> str:
    """Say what is wrong with a table, or note that a public one is read. A name of WITH hides all others."""
    path = node["qualified_name"]["path"]
    name = ".".join(path)
    folded = name.casefold()
    if node.get("at_clause"):
        return f"{name}: AT has no place here"
    if len(path) == 1 and name in known.released:
        hidden = [one for one in known.released[name] if scope[one.casefold()] > 0]
        return _HIDDEN.format(hidden[0]) if hidden else ""
    if len(path) == 1 and scope[folded] > 0:
        return ""
    if folded in known.private or (len(path) > 1 and path[-1].casefold() in known.private):
        return f"{name} is a private table: {_WITHIN}"
    # DuckDB takes names for equal that differ by the case of ASCII.
    public = known.public.get(folded, ())
    if len(path) == 1 and (name in public or (len(public) == 1 and (name + public[0]).isascii())):
        if len(public) > 1:
            return f"{name}: two public tables have names that differ by case alone; rename one"
        read[public[0]] = None
        return ""
    if name in known.public.get(folded, ()):
        return f'{name}: write the name of a public table in quotes, "{name}"'
    near = nearest(name, [one for names in known.public.values() for one in names])
    return f"{name} is another table: {_WITHIN}. {f'Did you mean {near}?' if near else _DECLARED}"
