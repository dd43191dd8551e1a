"""A Sphinx extension: formulas as MathML, which browsers set themselves, without a script or another host.

docutils reads TeX. Here is what it reads otherwise than TeX does, and the spaces and line breaks of TeX.
"""

import re
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

# What TeX reads as its first digit, and docutils as a number.
BARE = re.compile(r"(frac|sqrt|[_^])(\d)\d")
# With what is behind it, which docutils puts on the prime.
PRIMED = re.compile(r"('+)(?:\^(\{[^{}]*\}|[^\\]))?")
CLOSE = {"|", "‖", "/"}
RELATIONS = {"=", "≠", "<", ">", "≤", "≥", "∈", "→", ","}


def mathml(formula: str, block: bool) -> str:
    """Return a formula as MathML, in several parts where a line may break.

    Raises MathError where docutils does not know a command, or would read it otherwise than TeX does.
    """
    if bare := BARE.search(formula):
        raise MathError(f"write {bare[1]}{{{bare[2]}}}")
    primes = PRIMED.sub(lambda m: r"^{" + r"\prime " * len(m[1]) + (m[2] or "") + "}", formula)
    written = tex2mathml(primes, as_block=block).replace("&ApplyFunction;", "\u2061")
    root = ElementTree.fromstring(written.replace('xmlns="http://www.w3.org/1998/Math/MathML"', ""))
    stretched = r"\left" in formula or r"\begin" in formula
    for operator in root.iter("mo"):
        spaced(operator, stretched)
    for one in root.iter():
        one.tail = None
        one.text = None if len(one) else one.text
    parts = [root] if block else broken(root)
    return "<wbr>".join(ElementTree.tostring(part, encoding="unicode") for part in parts)


def spaced(operator: ElementTree.Element, stretched: bool) -> None:
    """Give an operator the space that TeX gives it."""
    text = operator.text or ""
    if text in CLOSE:
        operator.attrib |= {"stretchy": "false", "lspace": "0", "rspace": "0"}
    elif text == "\u2061":
        operator.set("lspace", "0.15em")  # between ln and x
    elif text.isalpha() and text.isascii():
        operator.attrib |= {"lspace": "0.15em", "rspace": "0.1em"}  # min, max
    elif text in "⌊⌋⌈⌉{}" and not stretched:
        operator.set("stretchy", "false")


def broken(root: ElementTree.Element) -> list[ElementTree.Element]:
    """Return parts of a formula within a line: a line may break behind a relation, a comma, a sum."""
    parts: list[list[ElementTree.Element]] = [[]]
    for one in root:
        before = parts[-1][-1] if parts[-1] else None
        operand = before is not None and (before.tag != "mo" or before.text in {")", "]"})
        parts[-1].append(one)
        if one.tag == "mo" and (one.text in RELATIONS or (one.text in {"+", "−"} and operand)):
            one.set("form", "infix")
            parts.append([])
    made = []
    for part in filter(None, parts):
        made.append(ElementTree.Element("math", root.attrib))
        made[-1].extend(part)
    return made


def visit(writer: Any, node: nodes.math | nodes.math_block) -> None:
    """Write a formula; one that cannot be written is a warning."""
    block = isinstance(node, nodes.math_block)
    tag, written = "div" if block else "span", ""
    try:
        written = mathml(node.astext(), block)
    except MathError as error:
        logging.getLogger(__name__).warning("%s, in the formula %s", error, node.astext(), location=node)
    writer.body.append(f'<{tag} class="math notranslate nohighlight">{written}</{tag}>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls it."""
    app.add_html_math_renderer("mathml", (visit, None), (visit, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
