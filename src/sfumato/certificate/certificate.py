"""The certificate of a release: what its parts, one by one and together, are proved to stay within."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import copy_context
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from sfumato.certificate.composition import Loss, any_of_many, exp_above, total
from sfumato.certificate.description import CertificateError, Description, limit_steps, read, require, take
from sfumato.certificate.unit_loss import Bounding, bounding, lone_chance, noise_losses


@dataclass(frozen=True, repr=False)
class Proof:
    """What a part is proved to lose, in four ways that a budget may count it. Made by `certify`.

    Args:
        epsilon, delta: a pair that it stays within.
        pure: a pure epsilon, but for `events`; None if there is Gaussian noise.
        mu_squared: of Gaussian DP, but for `events`; None if there is anything but Gaussian noise.
        rho: of zero-concentrated DP, but for `events`.
        events: a chance, of what these three leave out.
    """

    epsilon: Fraction
    delta: Fraction
    pure: Fraction | None
    mu_squared: Fraction | None
    rho: Fraction
    events: Fraction

    def __repr__(self) -> str:
        return f"{type(self).__name__}(epsilon={self.epsilon}, delta={self.delta})"


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
    return copy_context().run(_certified, description)  # which counts its steps


def _certified(description: Mapping[str, Any]) -> Certificate:
    """Return the certificate of a description."""
    known, proofs = read(description), list[Proof]()
    limit_steps(description)
    for place, part in enumerate(known["parts"]):
        survey = known["neighbours"] == "one_answer"
        try:
            require((part["kind"] == "survey") == survey, "kind", "not for these neighbours")
            proofs.append(_proved(part))
        except CertificateError as refusal:
            raise CertificateError(f"parts[{place}].{refusal.where}", refusal.problem) from None
        except ArithmeticError:
            raise CertificateError(f"parts[{place}]", "some number is too large or too small") from None
    numbers = ([getattr(proof, own.name) for proof in proofs] for own in fields(Proof))
    sums: Any = (None if None in own else total(own) for own in numbers)
    found = Certificate(*sums, known, tuple(proofs))  # type: ignore[call-arg]
    fit = found.epsilon <= known["epsilon"] and found.delta <= known["delta"]
    require(fit, "epsilon", "the parts may lose more than that together")
    return found


def _proved(part: Description) -> Proof:
    """Return what a part is proved to lose, or refuse."""
    take(300)
    losses, events = {"groups": _groups, "largest_groups": _largest, "survey": _survey}[part["kind"]](part)
    room, best = max(part["delta"] - events, Fraction(0)), Fraction(1)
    for loss in losses:
        best = best if best <= room else min(best, loss.delta(part["epsilon"], room))
    # What groups show of noise they show where none is shown that the unit is alone in.
    delta = events + best * (1 - events if part["kind"] == "groups" else 1)
    require(delta <= part["delta"], "delta", f"at the claimed epsilon at most {float(delta):.6g} is proved")
    pure = min((loss.epsilon for loss in losses if loss.epsilon is not None), default=None)
    only = losses[0].mu_squared if losses[0] == Loss(mu_squared=losses[0].mu_squared) else None
    epsilon = part["epsilon"] if pure is None else min(pure, part["epsilon"])
    return Proof(epsilon, delta, pure, only, min(loss.rho for loss in losses), events)


def _groups(part: Description) -> tuple[list[Loss], Fraction]:
    """Return losses of noise, choices and selection of groups, each a bound; and a chance beside them.

    Groups that are hidden without the unit are all hidden but for the chance `events`, and their noise too.
    """
    limits, rule = bounding(part), part["selection"]
    losses, times = noise_losses(part, limits), limits.groups if limits.total_rows is None else 1
    chance, beside = Fraction(0), Loss(ranged=tuple((_choice(own, limits), times) for own in part["choices"]))
    if rule and rule["kind"] == "threshold":
        chance = lone_chance(part)
    elif rule:
        chance, beside = rule["delta"], beside + Loss(pure=((rule["epsilon"], limits.groups),))
    return [loss + beside for loss in losses], any_of_many(chance, limits.groups)


def _choice(choice: Description, limits: Bounding) -> Fraction:
    """Return the pure epsilon of choosing places in one group.

    A row moves a distance up, or down, by at most max(q, 1 - q); up by at most 1 where targets are clamped.

    Source:
        McSherry and Talwar 2007, "Mechanism design via differential privacy".
    """
    down = [max(target["rank"], 1 - target["rank"]) for target in choice["targets"]]
    up = max(Fraction(1) if t["within"] else own for t, own in zip(choice["targets"], down, strict=True))
    return Fraction(limits.corner(choice["rows"])[0] * choice["one"] * (max(down) + up) / choice["scale"])


def _largest(part: Description) -> tuple[list[Loss], Fraction]:
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
    loss, events = Loss(ranged=((part["rate"] * spread, k),)), Fraction(0)
    if noise is not None:
        loss += _moved(noise, most, k)
    if private:
        require(lower >= 0 and candidates >= k, "candidates", "expected as many as picks, and none below 0")
        behind = part["rate"] * (margin - most + 1)
        missed = exp_above(-behind) + exp_above(part["epsilon"] - behind)  # e^epsilon alone may be too large
        events = min(candidates * missed, Fraction(1))
    return [loss], events


def _moved(noise: Description, distance: Fraction, times: int) -> Loss:
    """Return what noise of one law loses of numbers that move."""
    ratio = distance / noise["scale"]
    return Loss(laplace=((ratio, times),)) if noise["law"] == "laplace" else Loss(mu_squared=times * ratio**2)


def _survey(part: Description) -> tuple[list[Loss], Fraction]:
    return [_moved(part, part["one"], 1)], Fraction(0)
