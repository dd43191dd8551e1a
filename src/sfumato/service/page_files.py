"""The files of the page, which anybody may read, and what a browser lets them do."""

from __future__ import annotations

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

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
    """Return the routes of a folder of files: / is its index.html, the others are below /page/.

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
