"""Small descriptions that ask for much work are refused, or checked, in a short time; each has up to 1 MB."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sfumato.certificate import CertificateError, certify
from tests.certificate.descriptions import (
    BINS,
    ROWS,
    SQUARES,
    SUMS,
    UNITS,
    independent,
    k_norm,
    part,
    release,
    threshold,
)  # fmt: skip
from tests.certificate.plans import GEOMETRIC, TOP

SECONDS = 4  # of a processor; about 2 as a rule
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
def thresholds_of_many_groups(n):
    one = private(
        independent("gaussian", units=400), selection=threshold(2900), per_unit=1 << 60, delta="1/1000000"
    )
    return alike(one, n)


@hostile
def different_laplace_numbers(n):
    statistics = [UNITS | {"name": f"u{i}"} for i in range(n)]
    scales = independent("laplace", **{f"u{i}": n + i for i in range(n)})
    return release(part(statistics, scales, delta="1/1000000", epsilon="1/2"))


@hostile
def long_fractions(n):
    statistics = [UNITS | {"name": f"u{i}"} for i in range(n)]
    scales = independent("laplace", **{f"u{i}": own for i, own in zip(range(n), primes(), strict=False)})
    return release(part(statistics, scales))


@hostile
def short_fractions(n):
    statistics = [UNITS | {"name": f"u{i}"} for i in range(n)]
    scales = independent("gaussian", **{f"u{i}": f"{10**9 + 2 * i + 1}/{10**9 + 2 * i}" for i in range(n)})
    return release(part(statistics, scales, delta="1/1000000"))


@hostile
def long_fractions_in_parts(n):
    return release(
        *(
            part([UNITS], independent("laplace", units=f"{own}/{own - 1}"), epsilon="3")
            for _, own in zip(range(n), primes(), strict=False)
        ),
        epsilon="1000000",
    )


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
def many_gaussian_parts(n):
    return alike(part([UNITS], independent("gaussian", units=99), delta="1/1000000"), n)


@hostile
def largest_groups_in_many_parts(n):
    return alike(TOP | {"rate": "1/3", "picks": 99, "delta": "1/1000"}, n)


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


@hostile
def squares_and_rows(n):
    statistics = [
        ROWS,
        *(
            SQUARES | {"name": f"s{i}", "squares": {"name": f"q{i}", "bits": 128, "centre": "0"}}
            for i in range(n)
        ),
    ]
    names = {f"{c}{i}": 10**9 + i for i in range(n) for c in "sq"}
    return release(part(statistics, independent("gaussian", rows=99, **names), delta="1/1000000"))


def largest(make: Make) -> Iterator[dict[str, Any]]:
    """Yield a small description, one of middle size, and the longest."""
    for size in (5_000, 60_000, LONGEST):
        n = 1
        while len(json.dumps(make(n * 3 // 2 + 1))) < size and n < 10**6:
            n = n * 3 // 2 + 1
        yield make(n)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_description_takes_long(name):
    for description in largest(HOSTILE[name]):
        start = time.process_time()
        try:
            certify(description)
            said = "certified"
        except CertificateError as refusal:
            said = str(refusal)
        taken = time.process_time() - start
        print(f"{name:32}{len(json.dumps(description)):9,} bytes{taken:7.2f} s  {said[:100]}")
        assert taken < SECONDS, (name, taken, said)
