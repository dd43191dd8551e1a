"""Check a description, or a receipt that holds one: `python -m sfumato.certificate receipt.json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

from sfumato.certificate.certificate import Certificate, certify
from sfumato.certificate.description import CertificateError

_TABLES = {
    "one_unit": "tables that differ by all rows of one privacy unit",
    "one_answer": "samples of the same respondents in which one answer differs",
}


def main(arguments: Sequence[str]) -> int:
    """Print what a file is certified to stay within; return 0, 1 if it is refused, or 2 if it cannot be read.

    Args:
        arguments: the path of a JSON file: a description, or an object whose field `description` is one.
    """
    if len(arguments) != 1:
        print("Write the path of one JSON file, a receipt or a description.", file=sys.stderr)
        return 2
    try:
        with open(arguments[0], encoding="utf-8") as file:
            found = json.load(file, object_pairs_hook=_fields)
        known = found.get("description", found) if isinstance(found, dict) else found
    except (OSError, ValueError, RecursionError) as error:
        print(f"{arguments[0]} cannot be read: {error}", file=sys.stderr)
        return 2
    try:
        print(report(certify(known)))
    except CertificateError as error:
        print(f"Refused: {error}")
        return 1
    return 0


def report(certificate: Certificate) -> str:
    """Write what is certified, in a few lines.

    Args:
        certificate: of a release.
    """
    known = certificate.description
    lines = [f"Certified: {_pair(certificate)}. Claimed: epsilon {known['epsilon']}, delta {known['delta']}."]
    lines.append(f"Protected: {known['unit']}. Neighbours: {_TABLES[known['neighbours']]}.")
    return "\n".join([*lines, *(f"Part {i}: {_pair(own)}." for i, own in enumerate(certificate.parts, 1))])


def _pair(proof: Any) -> str:
    return f"epsilon {_rounded_up(proof.epsilon)}, delta {_rounded_up(proof.delta)}"


def _rounded_up(x: Fraction) -> Decimal:
    """Return a number in six digits."""
    context = Context(prec=6, rounding=ROUND_CEILING)
    return context.divide(Decimal(x.numerator), Decimal(x.denominator))


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a field is there twice")
    return dict(pairs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
