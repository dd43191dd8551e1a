"""The certificate of a release, and whether the loss that a budget pays is at least what it proves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sfumato.budget.filters import Concentrated
from sfumato.budget.loss import Loss
from sfumato.certificate import Certificate, CertificateError, certify
from sfumato.errors import RefusalError

_LONGEST_KEPT = 2**16  # characters of a description; those of long series take some MB each


def proved(description: Mapping[str, Any], loss: Loss | None = None) -> Certificate:
    """Return the certificate of a release, if the charged loss is at least the certified one.

    Args:
        description: everything that is drawn, and the claim (docs/certificate.md).
        loss: the loss that a budget pays; None if the budget pays epsilon and delta alone.
    Raises:
        RefusalError: the release may lose more than it claims or pays, or something is unknown.
    """
    text = json.dumps(description)
    try:
        found = _certified(text) if len(text) <= _LONGEST_KEPT else certify(json.loads(text))
    except CertificateError as refusal:
        raise _refused(str(refusal)) from None
    for what, paid, least in () if loss is None else _paid(loss, found):
        if least is not None and paid < least:
            raise _refused(f"{what} of {float(paid):.6g} would be paid, and {float(least):.6g} is proved")
    return found


# The text of a description says all that is drawn, so that equal questions are certified once.
@lru_cache(maxsize=256)
def _certified(text: str) -> Certificate:
    return certify(json.loads(text))


def _paid(loss: Loss, found: Certificate) -> tuple[tuple[str, Any, Any], ...]:
    """Return, for each measure of loss that budgets charge, the charged and the certified value."""
    one = [(epsilon, delta) for epsilon, delta, times in loss.approximate if times == 1]
    if len(one) == len(loss.approximate) == 1 and not (loss.gaussian or loss.laplace or loss.additive_delta):
        # One mechanism of any kind: budgets know its epsilon, and its delta as a chance of events.
        ((epsilon, delta),) = one
        if delta >= found.delta:
            return (("an epsilon", epsilon, found.epsilon),)
    pure = None if loss.gaussian else loss.basic_epsilon
    return (
        ("a pure epsilon", pure, None if pure is None else found.pure),
        ("a squared mu", loss.gaussian, found.mu_squared),
        ("a rho", Concentrated.rho(loss), found.rho),
        ("a chance of events", loss.least_delta, found.events),
    )


def _refused(problem: str) -> RefusalError:
    return RefusalError(
        f"release: its certificate is refused, so nothing is read, charged or drawn: {problem}. This is a "
        "mistake in sfumato; please report it"
    )
