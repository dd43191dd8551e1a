"""Descriptions that ask for much work are refused, or checked, in a short time: steps count what is done.

A tenth of the steps is admitted here, so that a description that did more than it counts would be seen soon.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sfumato.certificate import CertificateError, certify, description
from tests.certificate.descriptions import (
    BINS,
    SUMS,
    UNITS,
    independent,
    k_norm,
    part,
    release,
    threshold,
)  # fmt: skip
from tests.certificate.plans import GEOMETRIC, TOP

MAX = description._MAX_STEPS // 10
SECONDS = 2  # of a processor, at best; a fifth of one as a rule, beside what a long text takes to be read
LONGEST = 1_000_000
Make = Callable[[int], dict[str, Any]]
HOSTILE: dict[str, Make] = {}


def hostile(make: Make) -> Make:
    """Register a description that grows with a number."""
    HOSTILE[make.__name__] = make
    return make


def private(
    noise: Any, statistics: Any = (UNITS,), selection: Any = GEOMETRIC, **given: Any
) -> dict[str, Any]:
    return part(statistics, noise, keys="private", selection=selection, **given)


def primes() -> Iterator[int]:
    """Yield odd numbers of a thousand digits, most of which have no factor in common."""
    return (10**1000 + 2 * i + 1 for i in range(10**6))


def alike(one: dict[str, Any], times: int) -> dict[str, Any]:
    return release(*[one] * times, epsilon="1000000", delta="999/1000")


@hostile
def coins_beside_gaussian_noise(n):
    rule = GEOMETRIC | {"epsilon": "1/10000", "delta": "1/10000000000"}
    one = private(independent("gaussian", units=99), selection=rule, per_unit=4096, delta="1/1000000")
    return alike(one, n)


@hostile
def many_laplace_numbers(n):
    return alike(
        part([UNITS], independent("laplace", units=3001), per_unit=9000, shown=9000, delta="1/1" + "0" * 300),
        n,
    )


@hostile
def coins_beside_laplace_noise(n):
    rule = GEOMETRIC | {"epsilon": "1/10000", "delta": "1/1" + "0" * 200}
    one = private(independent("laplace", units=999), selection=rule, per_unit=4000, delta="1/1" + "0" * 190)
    return alike(one, n)


@hostile
def long_fractions(n):
    statistics = [UNITS | {"name": f"u{i}"} for i in range(n)]
    scales = independent("laplace", **{f"u{i}": own for i, own in zip(range(n), primes(), strict=False)})
    return release(part(statistics, scales))


@hostile
def long_fractions_in_bins(n):
    one = str(next(primes()))
    names = {f"b{i}": 10**1000 for i in range(n)}
    return release(
        part([BINS | {"names": [*names], "one": one}], independent("laplace", **names), epsilon="99")
    )


@hostile
def columns_and_their_products(n):
    ends = {"lower": "-9", "upper": "9", "centre": "0", "square_centre": "80"}
    columns = [{"name": f"x{i}"} | ends for i in range(10)]
    pairs = [{"name": f"x{i}x{j}", "first": i, "second": j} for i in range(10) for j in range(i, 10)]
    cross = {"kind": "cross", "rows": 1, "complete": None, "columns": columns, "pairs": pairs}
    names = [own["name"] for own in columns + pairs]
    return alike(part([cross], independent("laplace", **dict.fromkeys(names, 10**6))), n)


@hostile
def many_columns(n):
    ends = {"lower": "-9", "upper": "9", "centre": "0", "square_centre": "80"}
    columns = [{"name": f"x{i}"} | ends for i in range(n)]
    pairs = [{"name": f"y{i}", "first": i, "second": i} for i in range(n)]
    cross = {"kind": "cross", "rows": 1, "complete": None, "columns": columns, "pairs": pairs}
    names = [own["name"] for own in columns + pairs]
    return release(part([cross], independent("laplace", **dict.fromkeys(names, 10**6))))


@hostile
def series_of_many_steps(n):
    weights = [1000, *[999] * 499]
    noise = {
        "shape": "series_gaussian",
        "series": 1000,
        "weights": weights,
        "weight_bits": 10,
        "scales": {"units": "9"},
    }
    weights[0] = 1024
    one = part([UNITS], noise, per_unit=500_000, shown=500_000, delta="1/1000000", epsilon="1000000")
    return alike(one, n)


@hostile
def one_long_series(n):
    weights = [1024, *[9] * (n - 1)]
    noise = {
        "shape": "series_gaussian",
        "series": 2,
        "weights": weights,
        "weight_bits": 10,
        "scales": {"units": "99"},
    }
    return release(part([UNITS], noise, per_unit=n, shown=2 * n, delta="1/1000000"))


@hostile
def levels_of_many_totals(n):
    totals = [{"cells": i + 1, "times": 1} for i in range(n)]
    whole = sum(range(n + 1))
    levels = [{"size": "1", "totals": [{"cells": 1, "times": whole}]}, {"size": "1", "totals": totals}]
    noise = {"shape": "levels_gaussian", "scales": {"units": "9"}, "levels": levels}
    return release(part([UNITS], noise, per_unit=n, shown=whole, delta="1/1000000"))


@hostile
def k_norm_noise_of_many_numbers(n):
    names = [f"s{i}" for i in range(n)]
    statistics = [UNITS, *(SUMS | {"name": name} for name in names)]
    noise = k_norm(["units", *names], joint=False, body="cube", **dict.fromkeys(names, 10**6))
    noise["scales"]["units"] = "99"
    return release(private(noise, statistics, threshold(2900), delta="1/1000000"))


@hostile
def many_parts(n):
    return alike(part([UNITS], independent("laplace", units=9)), n)


@hostile
def largest_groups_far_beyond_the_margin(n):
    one = TOP | {"keys": "private", "candidates": 100, "margin": 200, "upper": f"1{'0' * (n % 17)}"}
    return alike(one | {"delta": "1/1000000"}, n)


@hostile
def many_choices(n):
    own = {
        "kind": "quantiles",
        "name": "x",
        "rows": 3,
        "one": "1",
        "targets": [{"rank": "1/2", "within": False}],
    }
    choices = [own | {"scale": str(10**6 + i)} for i in range(n)]
    return release(
        part([UNITS], independent("laplace", units=9), choices=choices, delta="1/1000000", epsilon="1/3")
    )


@hostile
def tiny_claims(n):
    one = part(
        [UNITS],
        independent("laplace", units=f"1/1{'0' * 2900}"),
        per_unit=3,
        delta="1/1" + "0" * 2990,
        epsilon="1/1" + "0" * 2990,
    )
    return alike(one, n)


def largest(make: Make, size: int) -> dict[str, Any]:
    """Return a description of nearly so many bytes."""
    n = 1
    while len(json.dumps(make(n * 3 // 2 + 1))) < size and n < 10**6:
        n = n * 3 // 2 + 1
    return make(n)


def taken(known: dict[str, Any]) -> float:
    """Return the seconds of a processor that a description takes."""
    start = time.process_time()
    with contextlib.suppress(CertificateError):
        certify(known)
    return time.process_time() - start


@pytest.mark.parametrize(
    "size",
    [
        5_000,
        pytest.param(60_000, marks=pytest.mark.long),
        pytest.param(LONGEST, marks=pytest.mark.long),
    ],
)
def test_no_description_takes_long(size, monkeypatch):
    monkeypatch.setattr(description, "_MAX_STEPS", MAX)
    for name, make in HOSTILE.items():
        known = largest(make, size)
        # A machine that does much else may be slow once, or twice.
        assert any(taken(known) < SECONDS for _ in range(3)), name


def test_steps_are_counted_and_their_end_refuses(monkeypatch):
    """What is certified with all steps is refused where they are too few for it."""
    known = private(independent("laplace", units=9), per_unit=3, delta="1/10")
    certify(release(known))
    left = description._MAX_STEPS - description._steps_left.get()
    assert left > 0
    monkeypatch.setattr(description, "_MAX_STEPS", left - 1)
    with pytest.raises(CertificateError, match="takes too long"):
        certify(release(known))
