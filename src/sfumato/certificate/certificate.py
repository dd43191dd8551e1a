"""The certificate of a release: what all of its parts together are proved to stay within."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.certificate.description import CertificateError, read, require
from sfumato.certificate.numbers import gaussian_delta
from sfumato.certificate.parts import Proof, prove


@dataclass(frozen=True, repr=False)
class Certificate(Proof):
    """What a release is proved to lose: at most its claim. Made by `certify`.

    Args:
        epsilon, delta, pure, mu_squared, rho, events: of all parts.
        description: as it was read.
        parts: the proof of each part, in order.
    """

    description: Mapping[str, Any]
    parts: tuple[Proof, ...]


def certify(description: Mapping[str, Any]) -> Certificate:
    """Prove what a release loses, from what it will draw.

    Args:
        description: plain data of version 1, see docs/certificate.md.
    Returns:
        A certificate: epsilon and delta that the release stays within, which are at most what it claims.
    Raises:
        CertificateError: it may lose more than it claims, or something is unknown.

    >>> count = {"kind": "rows", "name": "n", "rows": 2, "one": "1"}
    >>> groups = {"keys": "public", "shown": 1, "per_unit": 1, "beyond": "sample", "total_rows": None}
    >>> noise = {"shape": "independent", "law": "laplace", "scales": {"n": "4"}}
    >>> claim = {"epsilon": "1/2", "delta": "0"}
    >>> part = {"kind": "groups", **claim, "groups": groups, "statistics": [count], "choices": []}
    >>> parts = [part | {"noise": noise, "selection": None}]
    >>> certify({"version": 1, "unit": "id", "neighbours": "one_unit", **claim, "parts": parts}).epsilon
    Fraction(1, 2)
    """
    known, proofs = read(description), []
    survey = known["neighbours"] == "one_answer"
    for place, part in enumerate(known["parts"]):
        where = f"parts[{place}]"
        require((part["kind"] == "survey") == survey, f"{where}.kind", "not for these neighbours")
        try:
            proofs.append(prove(part))
        except CertificateError as refusal:
            raise CertificateError(f"{where}.{refusal.where}", refusal.problem) from None

    def total(name: str) -> Any:
        numbers = [getattr(proof, name) for proof in proofs]
        return None if None in numbers else sum(numbers, Fraction(0))

    epsilon, delta, pure, mu_squared, rho, events = map(total, Proof.__dataclass_fields__)
    claim = known["epsilon"], known["delta"]
    if mu_squared is not None and (epsilon > claim[0] or delta > claim[1]):
        # Gaussian parts, whose sizes may depend on earlier results, add up as squares under a fixed sum.
        epsilon, delta = claim[0], events + gaussian_delta(mu_squared, claim[0], claim[1])
    require(
        epsilon <= claim[0] and delta <= claim[1], "epsilon", "the parts may lose more than that together"
    )
    return Certificate(epsilon, delta, pure, mu_squared, rho, events, known, tuple(proofs))
