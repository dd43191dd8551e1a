"""The documentation site: `sphinx-build -W docs site`."""

import re
import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

import sfumato

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
            lines[i] = re.sub(r"(`[^`]*`)|\|", lambda found: found[1] or r"\|", linked)


def setup(app: Any) -> None:
    """Sphinx calls it."""
    sys.path.append(str(Path(__file__).parent / "extensions"))
    app.setup_extension("formulas")
    app.connect("autodoc-process-docstring", as_rst)
