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


def main(arguments: Sequence[str]) -> int:
    """Print what a file is certified to stay within; return 0, 1 if it is refused, or 2 if it cannot be read.

    Args:
        arguments: the path of a JSON file.
    """
    try:
        (path,) = arguments
        with open(path, encoding="utf-8") as file:
            found = json.load(file, object_pairs_hook=_without_twins)
    except (OSError, ValueError) as error:
        print(f"cannot be read: {error}\nWrite python -m sfumato.certificate receipt.json", file=sys.stderr)
        return 2
    if isinstance(found, dict) and "parts" not in found:
        found = found.get("description")
    try:
        print(report(certify(found)))
    except CertificateError as refusal:
        print(f"Refused: {refusal}")
        return 1
    return 0


def report(certificate: Certificate) -> str:
    """Write what is certified, in a few lines.

    Args:
        certificate: of a release.
    """
    known = certificate.description
    tables = {
        "one_unit": f"tables that differ by all rows of one {known['unit']}",
        "one_answer": "samples of the same respondents in which one answer differs",
    }
    lines = [f"Certified: epsilon {_up(certificate.epsilon)}, delta {_up(certificate.delta)}."]
    lines.append(f"Claimed: epsilon {_up(known['epsilon'])}, delta {_up(known['delta'])}.")
    lines.append(f"Neighbours: {tables[known['neighbours']]}.")
    for place, part in enumerate(certificate.parts, 1):
        lines.append(f"Part {place}: epsilon {_up(part.epsilon)}, delta {_up(part.delta)}.")
    return "\n".join(lines)


def _up(x: Fraction) -> str:
    """Write a number to six digits, rounded up."""
    context = Context(prec=6, rounding=ROUND_CEILING)
    return f"{context.divide(Decimal(x.numerator), Decimal(x.denominator)).normalize(context):g}"


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a field is there twice")
    return dict(pairs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
