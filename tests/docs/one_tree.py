"""An extension of Sphinx for tests: pages of one folder share their tree of pages, half of what a build costs.

The tree of the first page stands beside the others too, so that it does not say where a reader is. All else of the site is
the same, byte for byte.
"""

from typing import Any


def setup(app: Any) -> None:
    """Sphinx calls it; links are relative, so each folder has a tree of its own."""
    trees: dict[tuple[Any, ...], str] = {}

    def shared(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
        resolve, folder = context.get("toctree"), page.rpartition("/")[0]

        def toctree(**options: Any) -> str:
            asked = (folder, *sorted(options.items()))
            if asked not in trees:
                trees[asked] = resolve(**options)
            return trees[asked]

        if resolve is not None:
            context["toctree"] = toctree

    app.connect("html-page-context", shared, priority=1)  # before the theme, which makes the navigation of it
