"""What commands are given: SQL in a file, and files by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.errors import ParameterError, QueryError


def text_of(file: Path, option: str) -> str:
    """Return the SQL in a file.

    Raises:
        QueryError: it cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise QueryError(f"{option}: {str(file)!r} is not text in UTF-8") from None
    except OSError as error:
        raise QueryError(f"{option}: {str(file)!r} cannot be read: {error.strerror}") from None


def sources(private: list[str], public: list[str]) -> dict[str, Any]:
    """Read NAME=PATH.

    Raises:
        ParameterError: an entry has another form.
        QueryError: a name is given twice.
    """
    import sfumato

    found: dict[str, Any] = {}
    for option, entry in [*(("--table", one) for one in private), *(("--public", one) for one in public)]:
        name, equals, path = entry.partition("=")
        if not (name and equals and path) or "://" in name:
            # The address of a database may hold a password.
            hidden = entry if "://" not in entry else entry.partition("://")[0] + "://..."
            raise ParameterError(option, hidden, "NAME=PATH, such as visits=data/visits.parquet")
        if name in found:
            raise QueryError(f"{option}: {name!r} is given twice; keep one")
        found[name] = path if option == "--table" else sfumato.public(path)
    return found
