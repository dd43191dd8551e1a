"""The proof of each kind of part: what it loses, and the delta at the epsilon that it claims."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import exp, log, log1p

from sfumato.certificate.composition import Loss
from sfumato.certificate.contributions import Bounding, Description, bounding
from sfumato.certificate.description import require
from sfumato.certificate.noise import noise_loss
from sfumato.certificate.numbers import WIDE, any_of_many, exp_above
from sfumato.certificate.selection import lone_chance, threshold_delta


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
        shown = {name: getattr(self, name) for name in Proof.__dataclass_fields__}
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in shown.items())})"


def prove(part: Description) -> Proof:
    """Return what a part is proved to lose.

    Args:
        part: as it was read.
    Raises:
        CertificateError: it is more than the part claims, or unknown.
    """
    losses, delta, events = {"groups": _groups, "largest_groups": _largest, "survey": _survey}[part["kind"]](
        part
    )
    require(delta <= part["delta"], "delta", f"at the claimed epsilon at most {float(delta):.6g} is proved")
    pures = [loss.epsilon for loss in losses if loss.epsilon is not None]
    only = losses[0].mu_squared if losses[0] == Loss(mu_squared=losses[0].mu_squared) else None
    pure, rho = min(pures) if len(pures) == len(losses) else None, min(loss.rho for loss in losses)
    epsilon = part["epsilon"] if pure is None else min(pure, part["epsilon"])
    return Proof(epsilon, delta, pure, only, rho, events)


Proved = tuple[list[Loss], Fraction, Fraction]  # losses of which each is a bound, delta, and events


def _groups(part: Description) -> Proved:
    limits, rule = bounding(part), part["selection"]
    noise, claim, k = noise_loss(part, limits), part["delta"], limits.groups
    chosen = [_choice(choice, limits) for choice in part["choices"]]
    besides, events = Loss(), Fraction(0)
    if rule is not None and rule["kind"] == "truncated_geometric":
        besides, events = Loss(pure=((rule["epsilon"], k),)), any_of_many(rule["delta"], k)

    def losses(groups: int) -> list[Loss]:
        times = groups if limits.total_rows is None else 1
        own = besides + Loss(ranged=tuple((each, times) for each in chosen))
        return [loss + own for loss in noise(groups)]

    def delta(groups: int) -> Fraction:
        room, best = max(claim - events, Fraction(0)), Fraction(1)
        for loss in losses(groups):
            best = best if best <= room else min(best, loss.delta(part["epsilon"], room))
        return best

    if rule is not None and rule["kind"] == "threshold":
        return losses(k), threshold_delta(part, k, delta, claim), any_of_many(lone_chance(part), k)
    return losses(k), events + (1 - events) * delta(k), events


def _choice(choice: Description, limits: Bounding) -> Fraction:
    """Return the pure epsilon of choosing places in one group.

    A row moves a distance up, or down, by at most max(q, 1 - q); up by at most 1 where targets are clamped.

    Source:
        McSherry and Talwar 2007, "Mechanism design via differential privacy".
    """
    down = [max(target["rank"], 1 - target["rank"]) for target in choice["targets"]]
    up = max(Fraction(1) if t["within"] else own for t, own in zip(choice["targets"], down, strict=True))
    return Fraction(
        choice["one"] * (limits.total_rows or choice["rows"]) * (max(down) + up) / choice["scale"]
    )


def _largest(part: Description) -> Proved:
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
    if noise is not None and noise["law"] == "gaussian":
        loss += Loss(mu_squared=k * (most / noise["scale"]) ** 2)
    elif noise is not None:
        loss += Loss(pure=((most / noise["scale"], k),))
    if private:
        require(
            lower >= 0 and candidates >= k, "candidates", "expected as many as picks, and no number below 0"
        )
        missed = candidates * exp_above(-part["rate"] * (margin - most + 1))
        events = Fraction(min(1.0, (1 + exp_above(part["epsilon"])) * missed * WIDE))
    if loss.epsilon is None or loss.epsilon > part["epsilon"]:
        return [loss], events + _concentrated_delta(loss.rho, part["epsilon"]), events
    return [loss], events, events


def _concentrated_delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    """Return a bound of the delta of zero-concentrated DP: any order is one, and one that is about the best.

    Source:
        Canonne, Kamath and Steinke 2020, "The discrete Gaussian for differential privacy", proposition 12.
    """
    r, e = float(rho), float(epsilon)

    def terms(order: float) -> tuple[float, ...]:
        return (order - 1) * order * r, -(order - 1) * e, -log(order - 1), order * log1p(-1 / order)

    low, high = 1 + 1e-9, (e + r) / r + 2
    for _ in range(100):
        one, other = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, other) if sum(terms(one)) <= sum(terms(other)) else (one, high)
    power = sum(terms(low)) + 2.0**-48 * sum(map(abs, terms(low)))  # each is right to 2^-50 of it
    return Fraction(min(1.0, exp(min(power, 1.0)) * WIDE))


def _survey(part: Description) -> Proved:
    ratio = part["one"] / part["scale"]
    loss = Loss(laplace=((ratio, 1),)) if part["law"] == "laplace" else Loss(mu_squared=ratio**2)
    return [loss], loss.delta(part["epsilon"], part["delta"]), Fraction(0)
