"""The certificate of a release, or of its receipt: what its parts are proved to stay within.

`main` checks a receipt, or a description, in a file.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from hashlib import sha256
from typing import Any

from sfumato.certificate.composition import DIGITS, Loss, any_of_many, exp_above, sum_exactly
from sfumato.certificate.description import CertificateError, Description, limit_steps, read, require, take
from sfumato.certificate.unit_loss import Bounding, bounding, lone_chance, noise_loss, pure

_TEXTS = {
    "one_unit": "tables that differ by all rows of one privacy unit",
    "one_answer": "samples of the same respondents in which one answer differs",
    "dummy": "the rows were made up, so the table is about nobody",
    "unsafe_words": "the noise came from a source for tests, so the table is not private",
}
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,30})?(E[+-][0-9]{1,4})?", re.ASCII)
_RANGED = 8  # rho of choices by the exponential mechanism is an eighth of the square of their epsilon
NO_DESCRIPTION = "this receipt does not say what was drawn, so nothing can be recomputed from it"


@dataclass(frozen=True, repr=False)
class Proof:
    """The proved loss of one part, in four measures that a budget may add up; from `certify`.

    Args:
        epsilon, delta: a pair that bounds the loss.
        pure: a pure epsilon, without `events`; None if there is Gaussian noise.
        mu_squared: mu^2 of Gaussian DP, without `events`; None if there is anything but Gaussian noise.
        rho: rho of zero-concentrated DP, without `events`.
        events: the probability of events that `pure`, `mu_squared` and `rho` leave out.
    """

    epsilon: Fraction
    delta: Fraction
    pure: Fraction | None
    mu_squared: Fraction | None
    rho: Fraction
    events: Fraction

    def __repr__(self) -> str:
        return f"epsilon {_rounded_up(self.epsilon)}, delta {_rounded_up(self.delta)}"


@dataclass(frozen=True, repr=False)
class Certificate(Proof):
    """The proved loss of a release, at most its claim; from `certify`.

    Args:
        epsilon, delta, pure, mu_squared, rho, events: of all parts together, as in `Proof`.
        description: the description as it was read.
        parts: the proof of each part, in order.
    """

    description: Mapping[str, Any]
    parts: tuple[Proof, ...]


def certify(description: Mapping[str, Any]) -> Certificate:
    """Prove a bound on the loss of a release from the description of its noise.

    Args:
        description: plain data of version 1, see docs/certificate.md.
    Returns:
        A certificate: an epsilon and a delta that bound the loss of the release, at most what it claims.
    Raises:
        CertificateError: the release may lose more than it claims, or something is unknown.

    >>> count = {"kind": "rows", "name": "n", "rows": 2, "one": "1"}
    >>> groups = {"keys": "public", "shown": 1, "per_unit": 1, "beyond": "sample", "total_rows": None}
    >>> noise = {"shape": "independent", "law": "laplace", "scales": {"n": "4"}}
    >>> claim = {"epsilon": "1/2", "delta": "0"}
    >>> part = {"kind": "groups", **claim, "groups": groups, "statistics": [count], "choices": []}
    >>> parts = [part | {"noise": noise, "selection": None}]
    >>> certify({"version": 1, "unit": "id", "neighbours": "one_unit", **claim, "parts": parts}).epsilon
    Fraction(1, 2)
    """
    known, proofs = read(description), list[Proof]()
    limit_steps(description)
    for place, part in enumerate(known["parts"]):
        try:
            with localcontext(DIGITS):
                proofs.append(_prove_part(part))
        except CertificateError as refusal:
            raise CertificateError(f"parts[{place}].{refusal.where}", refusal.problem) from None
        except ArithmeticError:
            raise CertificateError(f"parts[{place}]", "some number is too large or too small") from None
    numbers = ([getattr(proof, own.name) for proof in proofs] for own in fields(Proof))
    sums: Any = (None if None in own else sum_exactly(own) for own in numbers)
    found = Certificate(*sums, known, tuple(proofs))  # type: ignore[call-arg]
    fit = found.epsilon <= known["epsilon"] and found.delta <= known["delta"]
    require(fit, "epsilon", "the parts may lose more than that together")
    return found


def _prove_part(part: Description) -> Proof:
    """Return what a part is proved to lose, or refuse."""
    take(300 + 130 * len(part.get("statistics", ())))
    loss, events = {"groups": _groups, "largest_groups": _largest, "survey": _survey}[part["kind"]](part)
    best = loss.delta(part["epsilon"], max(part["delta"] - events, Fraction(0)))
    # What groups show of noise they show where none is shown that the unit is alone in.
    delta = events + best * (1 - events if part["kind"] == "groups" else 1)
    require(delta <= part["delta"], "delta", f"at the claimed epsilon at most {float(delta):.6g} is proved")
    pure = None if loss.mu_squared else loss.pure
    epsilon = part["epsilon"] if pure is None else min(pure, part["epsilon"])
    return Proof(epsilon, delta, pure, None if loss.coins else loss.mu_squared, loss.all_rho, events)


def _groups(part: Description) -> tuple[Loss, Fraction]:
    """Return the loss of noise, choices and selection of groups, and a chance beside it.

    Groups that are hidden without the unit are all hidden but for the chance `events`, and their noise too.
    """
    limits, rule, events = bounding(part), part["selection"], Fraction(0)
    loss = noise_loss(part, limits)
    for choice in part["choices"]:
        loss += _choice(choice, limits)
    if rule and rule["kind"] == "threshold":
        events = lone_chance(part, limits)
    elif rule:
        events, loss = any_of_many(rule["delta"], limits.groups), loss + pure(rule["epsilon"], limits.groups)
    return loss, events


def _choice(choice: Description, limits: Bounding) -> Loss:
    """Return the loss of choosing places.

    A row moves a distance up, or down, by at most max(q, 1 - q); up by at most 1 where targets are clamped.

    Source:
        McSherry and Talwar 2007, "Mechanism design via differential privacy".
    """
    down = [max(target["rank"], 1 - target["rank"]) for target in choice["targets"]]
    up = max(Fraction(1) if t["within"] else own for t, own in zip(choice["targets"], down, strict=True))
    rows, times = limits.corner(choice["rows"])
    return pure(rows * choice["one"] * (max(down) + up) / choice["scale"], times, _RANGED)


def _largest(part: Description) -> tuple[Loss, Fraction]:
    """Return what picking the largest groups loses.

    Source:
        Durfee and Rogers 2019, "Practical differentially private top-k selection with pay-what-you-get
        composition".
    """
    lower, upper, k, noise = part["lower"], part["upper"], part["picks"], part["noise"]
    candidates, margin, private = part["candidates"], part["margin"], part["keys"] == "private"
    require(lower <= upper, "lower", "is above upper")
    known = {candidates is not None, margin is not None} == {private}
    require(known, "candidates", "expected with a margin for private keys, else null")
    most, spread = max(abs(lower), abs(upper)), max(upper, Fraction(0)) - min(lower, Fraction(0))
    loss, events = pure(part["rate"] * spread, k, _RANGED), Fraction(0)
    if noise is not None:
        loss += _prove_shift(noise, most, k)
    if private:
        require(lower >= 0 and candidates >= k, "candidates", "expected as many as picks, and none below 0")
        behind = part["rate"] * (margin - most + 1)
        missed = exp_above(-behind) + exp_above(part["epsilon"] - behind)  # e^epsilon alone may be too large
        events = min(candidates * missed, Fraction(1))
    return loss, events


def _prove_shift(noise: Description, distance: Fraction, times: int) -> Loss:
    """Return what noise of one law loses of numbers that move."""
    ratio = distance / noise["scale"]
    return Loss(mu_squared=times * ratio**2) if noise["law"] == "gaussian" else pure(ratio, times)


def _survey(part: Description) -> tuple[Loss, Fraction]:
    """Return the loss of one answer."""
    return _prove_shift(part, part["one"], 1), Fraction(0)


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
    wrong += [f"{name}: {_TEXTS[name]}" for name in ("dummy", "unsafe_words") if receipt.get(name)]
    for name, where in (("epsilon", spent := receipt.get("spent")), ("delta", spent), ("unit", receipt)):
        stated, own = (one.get(name) if isinstance(one, dict) else None for one in (where, known))
        if stated != own and ("spent" in receipt or stated is not None):
            wrong.append(f"{name}: the receipt says {stated!r}, and the description says {own!r}")
    for name, least in as_certified(certificate).items() if certificate and "certified" in receipt else ():
        stated = receipt["certified"].get(name) if isinstance(receipt["certified"], dict) else None
        if not (isinstance(stated, str) and _NUMBER.fullmatch(stated) and Decimal(stated) >= Decimal(least)):
            wrong.append(f"certified.{name}: the receipt says {stated!r}, and {least} can be certified")
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
    lines = [f"Certified: {certificate}. Claimed: epsilon {known['epsilon']}, delta {known['delta']}."]
    # As `repr` has it: no text of a file looks like a line of the checker, or is obeyed by a terminal.
    lines.append(f"Protected: {repr(known['unit'])[1:-1]}. Neighbours: {_TEXTS[known['neighbours']]}.")
    return "\n".join([*lines, *(f"Part {i}: {own}." for i, own in enumerate(certificate.parts, 1))])


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


def _rounded_up(x: Fraction) -> Decimal:
    """Return a number in six digits."""
    return Context(prec=6, rounding=ROUND_CEILING).divide(Decimal(x.numerator), Decimal(x.denominator))
