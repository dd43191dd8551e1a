"""The page of the service in a browser: its files, its security policy, and the SQL words it completes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.dialect.keywords import BOUNDS, PRIVATE
from sfumato.dialect.options_clause import OPTION_NAMES
from sfumato.engines.duckdb.expressions.safe_forms import FORMS
from sfumato.names.foreign_names import sql_example

# Said here: a browser runs no script whose type another table of the machine has wrong.
_MEDIA = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
# What the page may do, should anything of it ever be another's: load from this service alone, be in no frame,
# send no form, and make no markup of a text (`require-trusted-types-for`). Scripts and styles are files.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)


def routes(folder: Path) -> list[Route]:
    """Return the routes of the page's files: / is index.html, the others are below /page/.

    They are read once, so that no path of a request ever meets a file system.

    Args:
        folder: of .html, .css and .js.
    """
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in _MEDIA}

    async def file(request: Request) -> Response:
        request.state.route = "page"
        name = request.path_params.get("name", "index.html")
        if name not in files:
            raise HTTPException(404)
        return Response(files[name], media_type=_MEDIA[Path(name).suffix])

    return [Route("/", file, methods=["GET"]), Route("/page/{name}", file, methods=["GET"])]


_KEYWORDS = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS FROM WHERE GROUP BY ORDER LIMIT AS AND OR NOT IN BETWEEN CASE "
    "WHEN THEN ELSE END JOIN LEFT ON USING DISTINCT HAVING UNION ALL"
)


# Of DuckDB's grammar: words that are no column's where they stand without quotes.
_RESERVED = (
    "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')"
)
_OURS = "over"  # which our own reader takes for a window's


def list_sql_words() -> dict[str, Any]:
    """Return the SQL words that the page completes: aggregates, functions, options and keywords.

    `reserved` are the words that a column of this name has to be quoted for.

    >>> next(one for one in list_sql_words()["aggregates"] if one["name"] == "COUNT")
    {'name': 'COUNT', 'form': 'COUNT(*)'}
    """
    aggregates = [name for name in PRIVATE if not name.startswith("ANON_")]  # the older clause's
    with duckdb.connect() as connection:
        reserved = {str(word) for (word,) in connection.execute(_RESERVED).fetchall()}
    return {
        "aggregates": [{"name": name, "form": sql_example(name)} for name in aggregates],
        "functions": sorted(name for name in FORMS if name.isidentifier()),
        "options": [*OPTION_NAMES, *BOUNDS],
        "keywords": _KEYWORDS.split(" "),
        "reserved": sorted(reserved | {_OURS}),
    }
