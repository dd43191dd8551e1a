"""What an expression costs where it is evaluated: the texts that it holds at once, the size of its patterns.

DuckDB evaluates 2,048 rows at a time, and keeps what each part of an expression makes of them until all
parts are made: memory grows with the parts, however short each text is.
"""

from __future__ import annotations

import re

from sfumato.dialect.syntax_tree import Node, children, descendants

# How many texts of 4,096 characters, or as much else, the expressions of one question may hold for a row:
# 2,048 of each take a gigabyte for a thread.
MOST_HELD = 128
# How many characters a pattern may have with its repetitions written out.
LARGEST_PATTERN = 2000

_TEXTS = (
    "greatest lcase least left left_grapheme lower ltrim nfc_normalize regexp_extract regexp_full_match "
    "regexp_matches regexp_replace replace reverse right right_grapheme rtrim split_part strftime "
    "strip_accents substr substring substring_grapheme translate trim ucase upper"
)
_EACH = ("||", "concat", "concat_ws", "list_value")
# A list of 4,096 texts has 16 bytes for each, and more where it grows.
_LISTS = "split str_split str_split_regex string_split string_split_regex string_to_array"
# A vector of 4,096 numbers takes 32 kB, as a list and as what is made of it.
_VECTORS = "list_transform"
_DOCUMENTS = (
    "->> json_array_length json_exists json_extract json_extract_string json_type json_valid json_value"
)
_HELD = {
    **dict.fromkeys(_TEXTS.split(), 1),
    **dict.fromkeys(_LISTS.split(), 16),
    **dict.fromkeys(_VECTORS.split(), 16),
    **dict.fromkeys(_DOCUMENTS.split(), 6),
}
_TOKEN = re.compile(
    r"\\[pP]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\((?:\?(?:P?<\w+>|[-imsU]*:?))?|\{\d+(?:,\d*)?\}|.",
    re.DOTALL,
)


def held(node: Node) -> int:
    """Return how many texts of 4,096 characters a total form holds at most for a row.

    Texts that are longer in the table itself count as such.
    """
    return sum(map(_held, descendants(node)))


def _held(node: Node) -> int:
    if node["class"] == "FUNCTION":
        name = node["function_name"].lower()
        return len(children(node)) if name in _EACH else _HELD.get(name, 0)
    if node["class"] == "CAST":
        return {"VARCHAR": 1, "JSON": 6}.get(node["type_expr"]["type_name"].upper(), 0)
    return int(node["type"] == "ARRAY_SLICE")


def pattern_size(pattern: str) -> int:
    """Return how many characters, classes and groups a regular expression has, its repetitions written out.

    >>> pattern_size("[ab]{3}"), pattern_size("(a{2}b{1,3}){10}c"), pattern_size("\\\\d+|x")
    (3, 61, 2)
    """
    sizes, last = [0], 0  # of the groups that are open, and of what a repetition would repeat
    for token in _TOKEN.findall(pattern):
        if token[0] == "(" and not token.endswith(")"):
            sizes.append(1)
            last = 0
        elif token == ")":
            last = sizes.pop() if len(sizes) > 1 else 0
            sizes[-1] += last
        elif token[0] == "{" and len(token) > 1:
            least, _, most = token[1:-1].partition(",")
            again = max(int(least), int(most or 0), 1) - 1
            sizes[-1] += last * again
            last += last * again
        elif token not in "*+?|^$":
            sizes[-1] += 1
            last = 1
    return sum(sizes)
