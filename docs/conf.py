"""The documentation site: `sphinx-build -W docs site`."""

import os
import re
import sys
from html import escape
from pathlib import Path
from textwrap import shorten
from typing import Any

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

import sfumato

REPOSITORY = os.environ.get("SFUMATO_REPOSITORY")  # its address, for links to it and to its issues

project = "sfumato"
version = release = sfumato.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"  # which browsers set themselves: no script, no other host
exclude_patterns = ["extensions", "pictures/*.py"]
html_theme = "furo"
html_title = "sfumato"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
lexers["map"] = TextLexer()  # the formula of a map, which a test evaluates
# Output that may be wrapped; an example may be other words in each run (tests/docs/test_tutorials.py).
lexers["prose"] = lexers["example"] = TextLexer()

# Docstrings are written in Google's style, with code in single ticks; types stand in signatures.
default_role = "code"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
maximum_signature_line_length = 90
napoleon_use_param = napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Source"]
suppress_warnings = ["ref.python"]  # of two classes of one name a signature means the one that is meant


def as_rst(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Make a link of each page that a docstring names, and leave |x| what it is."""
    example = False
    for i, line in enumerate(lines):
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        if not example:
            linked = re.sub(r"\bdocs/([\w/-]+)\.md\b", r":doc:`/\1`", line)
            linked = re.sub(r"(`[^`]+`)(?=\w)", r"\1\\ ", linked)  # as in `Edge`s
            lines[i] = re.sub(r"(`[^`]*`)|\|", lambda found: found[1] or r"\|", linked)


def without_last_lines(app: Any, page: str, source: list[str]) -> None:
    """Leave out the empty line at the end of an example, by which doctest knows where it ends."""
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


def with_project(app: Any, page: str, source: list[str]) -> None:
    """End the list of pages with the repository and its issues, if its address is known."""
    if page == "index" and REPOSITORY:
        links = f"Repository <{REPOSITORY}>\nIssues <{REPOSITORY}/issues>"
        source[0] += f"\n```{{toctree}}\n:caption: Project\n:hidden:\n{links}\n```\n"


def described(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Describe a page to search engines by its first paragraph."""
    if first := doctree and next(doctree.findall(nodes.paragraph), None):
        words = escape(shorten(first.astext(), 240, placeholder=" ..."))
        context["metatags"] += f'<meta name="description" content="{words}" />\n'


def breakable(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Let code in a line be broken behind its signs, before a browser breaks it anywhere."""
    if "body" in context:
        context["body"] = re.sub(
            r'(?<=<span class="pre">)[^<]+(?=</span>)',
            lambda code: re.sub(r"([/_(,=])(?=\w)", r"\1<wbr>", code[0]),
            context["body"],
        )


def setup(app: Any) -> None:
    """Sphinx calls it."""
    sys.path.append(str(Path(__file__).parent / "extensions"))
    app.setup_extension("formulas")
    app.setup_extension("reference")
    app.connect("autodoc-process-docstring", as_rst)
    app.connect("source-read", without_last_lines)
    app.connect("source-read", with_project)
    app.connect("html-page-context", breakable)
    app.connect("html-page-context", described)
