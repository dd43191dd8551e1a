"""What a file certifies: a description, or a receipt that holds one and must say the same."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from hashlib import sha256
from typing import Any

from sfumato.certificate.certificate import Certificate, certify
from sfumato.certificate.description import CertificateError

_TABLES = {
    "one_unit": "tables that differ by all rows of one privacy unit",
    "one_answer": "samples of the same respondents in which one answer differs",
}
_ODD = {
    "dummy": "the rows were made up, so the table is about nobody",
    "unsafe_words": "the noise came from a source for tests, so the table is not private",
}
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,30})?(E[+-][0-9]{1,4})?", re.ASCII)
NO_DESCRIPTION = "this receipt does not say what was drawn, so nothing can be recomputed from it"


def checked(found: Any) -> tuple[Certificate | None, list[str]]:
    """Return the certificate of a description, and what is wrong with it and with the receipt that holds it.

    Args:
        found: a description, or an object whose field `description` is one, as `json.load` gives it.
    """
    receipt = found if isinstance(found, dict) and {"description", "receipt"} & set(found) else {}
    if receipt and receipt.get("description") is None:
        return None, [f"description: {NO_DESCRIPTION}"]
    certificate, known, wrong = None, receipt.get("description", found), list[str]()
    try:
        certificate = certify(known)
    except CertificateError as error:
        wrong.append(str(error))
    wrong += [f"{name}: {why}" for name, why in _ODD.items() if receipt.get(name)]
    for name, where in (("epsilon", spent := receipt.get("spent")), ("delta", spent), ("unit", receipt)):
        told, own = (one.get(name) if isinstance(one, dict) else None for one in (where, known))
        if told != own and ("spent" in receipt or told is not None):
            wrong.append(f"{name}: the receipt says {told!r}, and the description says {own!r}")
    if certificate is not None and "certified" in receipt:
        for name, least in as_certified(certificate).items():
            told = receipt["certified"].get(name) if isinstance(receipt["certified"], dict) else None
            if not (isinstance(told, str) and _NUMBER.fullmatch(told) and Decimal(told) >= Decimal(least)):
                wrong.append(f"certified.{name}: the receipt says {told!r}, and {least} can be certified")
    if "sha256" in receipt and receipt["sha256"] != digest(receipt):
        wrong.append("sha256: something in the receipt was changed after it was made")
    return certificate, wrong


def as_certified(certificate: Certificate) -> dict[str, str]:
    """Return what is certified, as a receipt has it: in six digits, rounded up."""
    return {name: str(_rounded_up(getattr(certificate, name))) for name in ("epsilon", "delta")}


def digest(receipt: Mapping[str, Any]) -> str:
    """Return the digest of a receipt: of all of it but the ledger's entry.

    Args:
        receipt: as `json.load` gives it.
    """
    signed = {name: value for name, value in receipt.items() if name not in ("ledger", "sha256")}
    return sha256(json.dumps(signed, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def report(certificate: Certificate) -> str:
    """Write what is certified, in a few lines.

    Args:
        certificate: of a release.
    """
    known = certificate.description
    lines = [f"Certified: {_pair(certificate)}. Claimed: epsilon {known['epsilon']}, delta {known['delta']}."]
    # As `repr` has it: no text of a file looks like a line of the checker, or is obeyed by a terminal.
    lines.append(f"Protected: {repr(known['unit'])[1:-1]}. Neighbours: {_TABLES[known['neighbours']]}.")
    return "\n".join([*lines, *(f"Part {i}: {_pair(own)}." for i, own in enumerate(certificate.parts, 1))])


def _pair(proof: Any) -> str:
    return f"epsilon {_rounded_up(proof.epsilon)}, delta {_rounded_up(proof.delta)}"


def _rounded_up(x: Fraction) -> Decimal:
    """Return a number in six digits."""
    return Context(prec=6, rounding=ROUND_CEILING).divide(Decimal(x.numerator), Decimal(x.denominator))
