"""The documentation site: `sphinx-build -W docs site`."""

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

import sfumato

project = "sfumato"
version = release = sfumato.__version__
extensions = ["myst_parser", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["pictures/*.py"]
html_theme = "furo"
html_title = "sfumato"
html_static_path = ["_static"]
html_css_files = ["site.css"]
lexers["map"] = TextLexer()  # the formula of a map, which a test evaluates
lexers["prose"] = TextLexer()  # output that is sentences, which may be wrapped
