"""Check a description, or a receipt that holds one: `python -m sfumato.certificate receipt.json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from sfumato.certificate.certificate import checked, report


def main(arguments: Sequence[str]) -> int:
    """Print what a file is certified to stay within; return 0, 1 if it is refused, or 2 if it cannot be read.

    Args:
        arguments: the path of a JSON file: a description, or a receipt, or another object whose field
            `description` is one.
    """
    if len(arguments) != 1:
        print("Write the path of one JSON file, a receipt or a description.", file=sys.stderr)
        return 2
    try:
        with open(arguments[0], encoding="utf-8") as file:
            found, wrong = checked(json.load(file, object_pairs_hook=_fields))
    except (OSError, ValueError, RecursionError) as error:
        print(f"{arguments[0]} cannot be read: {error}", file=sys.stderr)
        return 2
    print(report(found) if found and not wrong else "\n".join(f"Refused: {one}" for one in wrong))
    return int(bool(wrong))


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a field is there twice")
    return dict(pairs)


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(main(sys.argv[1:]))
