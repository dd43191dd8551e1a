"""Numbers of every numeric part, computed in a process whose libraries are set as asked: python hostile.py numpy gmpy2.

A process of its own, as tables and constants are computed once and remembered.
"""

import json
import logging
import sys
from fractions import Fraction
from typing import Any


def set_gmpy2() -> None:
    import gmpy2

    gmpy2.set_context(gmpy2.context(precision=4, round=gmpy2.RoundUp, emax=5, emin=-5, subnormalize=True))


def set_traps() -> None:
    import gmpy2

    traps = dict.fromkeys(
        ["trap_inexact", "trap_underflow", "trap_overflow", "trap_invalid", "trap_divzero", "trap_erange"],
        True,
    )
    gmpy2.set_context(gmpy2.context(precision=4, round=gmpy2.RoundDown, **traps))


def set_numpy() -> None:
    import numpy as np
    from scipy import special

    np.seterr(all="raise")
    np.set_printoptions(precision=1, threshold=2)
    special.seterr(all="raise")


def set_decimal() -> None:
    import decimal

    traps = [decimal.Inexact, decimal.FloatOperation, decimal.Rounded, decimal.Subnormal]
    decimal.setcontext(decimal.Context(prec=2, rounding=decimal.ROUND_UP, Emin=-2, Emax=2, traps=traps))


def set_locale() -> None:
    import locale

    for name in ("de_DE.UTF-8", "tr_TR.UTF-8", "C.UTF-8", "C"):
        try:
            locale.setlocale(locale.LC_ALL, name)
        except locale.Error:
            continue
        return


def set_duckdb() -> None:
    import duckdb

    duckdb.sql("CREATE TYPE mood AS ENUM ('happy')")
    duckdb.sql("SET timezone = 'Asia/Tokyo'")
    duckdb.sql("SET default_order = 'DESC'")
    duckdb.sql("SET default_null_order = 'NULLS_FIRST'")
    duckdb.sql("SET integer_division = true")
    duckdb.execute("BEGIN")  # and a transaction that has failed: nothing runs before a ROLLBACK
    try:
        duckdb.execute("SELECT error('stop')")
    except duckdb.Error:
        return


HOSTILE = {
    "gmpy2": set_gmpy2,
    "traps": set_traps,
    "numpy": set_numpy,
    "decimal": set_decimal,
    "locale": set_locale,
    "duckdb": set_duckdb,
}


def laws() -> Any:
    from sfumato.noise import Gaussian, Laplace

    for law in (Laplace(2), Gaussian(3), Laplace("1/50"), Gaussian(10**6)):
        yield [law.sf(x) for x in (-3, 0, 0.7, 40, 1e5)] + [law.quantile(p) for p in (1e-300, 0.1, 0.5, 0.99)]
        yield [law.tolerance(k) for k in (0.01, 3, 300)] + [law.complementary_tolerance(k) for k in (1, 16)]
        yield [law.rounded_pmf(40), law.rounded_tolerance(9), law.rounded_half_width("0.95")]
        yield [str(end) for end in law.tail_bounds(5)]


def draws() -> Any:
    from sfumato.noise import Gaussian, Laplace, SeededWords, bernoulli
    from sfumato.snapping import SnappingMechanism

    for kind in (Laplace, Gaussian):
        for unit in (1000, "1/3", 2**50):
            yield kind(unit).rounded(150, SeededWords(1)).tolist()  # one by one
    yield bernoulli("1/3", 20, SeededWords(1)).tolist()
    mechanism = SnappingMechanism(1, lower=0, upper=10)
    yield [mechanism.release(v, SeededWords(2)) for v in (0.1, 5, 12)]
    law = mechanism.law(5)
    yield [law.probability(0), law.variance, law.bias, law.accuracy(0.05), mechanism.accuracy(0.05)]


def tables() -> Any:
    from sfumato.noise import Gaussian, Laplace, SeededWords

    for kind in (Laplace, Gaussian):
        for unit in (1000, "1/3", 2**50):
            yield kind(unit).rounded(400, SeededWords(1)).tolist()[::7]


def tolerances() -> Any:
    from sfumato import testing as t
    from sfumato.noise import Gaussian, Laplace

    yield [t.per_partition_k(k, 7) for k in (0.5, 300)] + [t.gaussian_tolerance(16, 1, 1, "1e-6")]
    mean = dict(normalized_sum=50, count=40, sum_noise=Laplace(4), count_noise=Gaussian(2), rounded="count")
    yield [t.mean_tolerance(k, **mean, rule=rule) for k in (2, 290) for rule in ("joint", "exact", "2020")]
    yield t.complementary_mean_tolerance(3, **mean)


def accounting() -> Any:
    from sfumato.budget import Loss, calibrate, gaussian_mu, gaussian_sigma, split_delta
    from sfumato.budget.closed_forms import zcdp_delta, zcdp_epsilon, zcdp_rho

    yield [str(gaussian_mu(1, "1e-6")), gaussian_sigma(1, "0.01", "1e-9"), str(split_delta("1e-6", 7))]
    loss = Loss(gaussian=Fraction(1, 2), laplace=((Fraction(1, 3), 40), (Fraction(1, 5), 3)))
    for one in (loss, Loss(laplace=((Fraction(1, 10), 300),)), Loss(gaussian=Fraction(1, 100))):
        yield [str(one.epsilon(Fraction(1, 10**9))), *(str(one.delta(e)) for e in (2, "0.01", 300))]
    yield str(calibrate(lambda s: Loss(gaussian=1 / s**2, laplace=((1 / s, 5),)), 1, "1e-6"))
    half, few = Fraction(1, 2), Fraction(1, 10**6)
    yield [str(x) for x in (zcdp_epsilon(half, few), zcdp_delta(half, Fraction(2)), zcdp_rho(half, few))]


def releases() -> Any:
    import pyarrow as pa

    import sfumato as sf
    from sfumato.display.formatting import exact, rounded_bound
    from sfumato.noise import SeededWords

    rows = [(i, "abcd"[i % 4], float(i % 30), {"a": [i % 3, None]}) for i in range(2000)]
    table = pa.table(dict(zip(["id", "k", "v", "n"], map(list, zip(*rows, strict=True)), strict=True)))
    people = sf.scan(table, privacy_unit="id")
    logging.disable()  # of what a release without a budget says
    asked = dict(n=sf.count(), m=sf.mean("v", lower=0, upper=30), q=sf.quantile("v", 0.5, lower=0, upper=30))
    asked |= dict(s=sf.sum("v", lower=0, upper=30), w=sf.variance("v", lower=0, upper=30))
    for noise in ("laplace", "gaussian", "k_norm"):
        for by in (people.group_by("k"), people.group_by("k", keys=["a", "b", "z"])):
            query = by.bound(groups=1, rows=1).agg(**asked)
            released = query.release(
                epsilon="0.5", delta="1e-6", noise=noise, unsafe_words=SeededWords(noise)
            )
            yield [released.to_arrow().to_pylist(), str(released.errors()), released.explain()]
    counts = people.group_by("k", keys=list("abcdefgh")).bound(groups=8, rows=1).agg(n=sf.count())
    yield str(counts.preview(epsilon=[0.1, 1], units=[100, 10_000]))
    yield [exact(Fraction(1, 7)), exact(Fraction(10**40 + 1, 3**40)), rounded_bound(0.12341, "ROUND_CEILING")]
    nested = people.with_columns(first="n.a[1]").bound(rows=1).agg(s=sf.sum("first", lower=0, upper=3))
    yield nested.release(epsilon=1, unsafe_words=SeededWords(1)).to_arrow().to_pylist()


PARTS = {
    "laws": laws,
    "draws": draws,
    "tables": tables,
    "tolerances": tolerances,
    "accounting": accounting,
    "releases": releases,
}


def main() -> None:
    asked = sys.argv[1:]
    chosen = [p for p in asked if p in PARTS] or list(PARTS)
    for name in asked:
        if name in HOSTILE:
            HOSTILE[name]()
    found = {}
    for name in chosen:
        lines = []
        try:
            lines += [repr(one) for one in PARTS[name]()]
        except Exception as error:
            lines.append(f"{type(error).__name__}: {error}")
            if "-v" in asked:
                raise
        found[name] = lines
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
