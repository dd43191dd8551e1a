"""Questions of every shape of noise and selection, released with seeded words: what a fault changes in them.

A fault that changes what is drawn or paid is *released* where the release is not refused, and its description
is the same as without the fault.
"""

import functools
import gc
import hashlib
import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

# Makes a question; it is given sfumato, which is imported once it is patched.
Released = Callable[[Any], Any]
QUESTIONS: dict[str, tuple[Released, dict[str, Any]]] = {}

SMALL = {"delta": "1e-6"}


def question(**options: Any) -> Callable[[Released], Released]:
    """Register a question, with the options of its release."""

    def registered(make: Released) -> Released:
        QUESTIONS[make.__name__] = make, {"epsilon": 1} | options if "share" not in options else options
        return make

    return registered


def rows() -> pa.Table:
    """Return rows of 60 units: most are in two groups, some in five, with up to six rows in each."""
    chance = random.Random(5)
    found: list[tuple[Any, ...]] = []
    for unit in range(60):
        for group in chance.sample(range(6), 5 if unit < 4 else chance.choice([1, 2, 2])):
            for _ in range(chance.choice([1, 1, 2, 6])):
                x, y = chance.uniform(-5, 15), chance.uniform(0, 4)
                found.append((
                    unit, "abcdef"[group], group, None if chance.random() < 0.2 else x, y,
                    chance.randrange(6), chance.random() < 0.5, chance.uniform(0, 4), [x, y],
                ))  # fmt: skip
    names = ["id", "g", "h", "x", "y", "n", "b", "w", "v"]
    columns = dict(zip(names, map(list, zip(*found, strict=True)), strict=True))
    types = dict.fromkeys("hn", pa.int64()) | {"v": pa.list_(pa.float64())}
    never = {"y", "n"}
    schema = pa.schema([
        pa.field(name, types.get(name) or pa.infer_type(own), nullable=name not in never)
        for name, own in columns.items()
    ])  # fmt: skip
    return pa.table(columns, schema=schema)


ROWS = rows()


def whole(sf: Any, rows: int = 2) -> Any:
    return sf.scan(ROWS, privacy_unit="id").bound(rows=rows)


def public(sf: Any, groups: int = 2, rows: int = 2, keys: int = 6, **limits: Any) -> Any:
    table = sf.scan(ROWS, privacy_unit="id").group_by("h", keys=list(range(keys)))
    return table.bound(groups=groups, rows=rows, **limits)


def private(sf: Any, groups: int = 2, rows: int = 2) -> Any:
    return sf.scan(ROWS, privacy_unit="id").group_by("g").bound(groups=groups, rows=rows)


X, Y = {"lower": 0, "upper": 9}, {"lower": 1, "upper": 3}


@question(noise="laplace")
def laplace(sf):
    return public(sf).agg(
        n=sf.count(), units=sf.count_units(), s=sf.sum("x", **X), m=sf.mean("x", **X), d=sf.count("x")
    )


@question(noise="laplace")
def sums_of_units(sf):
    return public(sf).agg(
        n=sf.count_units(), s=sf.sum("x", lower=4, upper=9), t=sf.sum("y", lower=-2, upper=0)
    )


@question(noise="laplace")
def few_groups(sf):
    return public(sf, groups=6, beyond="sample").agg(n=sf.count(), m=sf.variance("y", **Y))


@question(noise="laplace", epsilon=1, **SMALL)
def many_groups(sf):
    return public(sf, groups=6).agg(s=sf.sum("y", **Y), n=sf.count_units())


@question(noise="gaussian", **SMALL)
def gaussian(sf):
    return public(sf, beyond="sample").agg(
        n=sf.count(), v=sf.variance("x", **X), s=sf.sum("y", **Y, per="row")
    )


@question(noise="gaussian", **SMALL)
def centred(sf):
    return public(sf, groups=4).agg(n=sf.count_units())


@question(noise="gaussian", **SMALL)
def centred_rows(sf):
    return public(sf, groups=5, rows=3).agg(n=sf.count(), m=sf.mean("y", **Y))


@question(noise="laplace")
def scaled(sf):
    return public(sf, groups=1, beyond="scale").agg(n=sf.count(), units=sf.count_units(), s=sf.sum("y", **Y))


@question(noise="k_norm")
def joint(sf):
    return public(sf, groups=6).agg(n=sf.count(), m=sf.mean("y", **Y), v=sf.variance("y", **Y))


@question(noise="k_norm")
def joint_units(sf):
    return public(sf, groups=6).agg(u=sf.count_units(), n=sf.count(), m=sf.mean("y", **Y))


@question(noise="k_norm")
def by_group(sf):
    return public(sf, groups=1, keys=40).agg(n=sf.count(), m=sf.mean("y", **Y))


@question(noise="k_norm")
def by_group_units(sf):
    return public(sf, groups=2, keys=40).agg(u=sf.count_units(), n=sf.count(), m=sf.mean("y", **Y))


@question(noise="k_norm")
def quantiles(sf):
    return public(sf, groups=2).agg(
        q=sf.quantiles("y", [0.1, 0.5], **Y), p=sf.median("n", lower=0, upper=5), n=sf.count()
    )


@question(noise="k_norm")
def one_median(sf):
    return whole(sf).agg(q=sf.median("y", **Y))


@question(noise="laplace")
def quantile_tree(sf):
    return public(sf).agg(q=sf.quantiles("y", [0.5], **Y), n=sf.count())


@question(noise="laplace")
def value_tree(sf):
    return public(sf).agg(q=sf.quantiles("n", [0.5, 0.9], lower=0, upper=99), n=sf.count())


@question(group_selection="laplace", noise="laplace", epsilon=2, delta="1e-3")
def laplace_threshold(sf):
    return private(sf).agg(u=sf.count_units(), n=sf.count())


@question(group_selection="gaussian", noise="gaussian", epsilon=2, delta="1e-3", pre_threshold=2)
def gaussian_threshold(sf):
    return private(sf).agg(n=sf.count(), s=sf.sum("y", **Y))


@question(epsilon=8, delta="1e-3")
def shared(sf):
    return sf.scan(ROWS, privacy_unit="id").group_by("g").bound(groups="shared").agg()


@question(group_selection="truncated_geometric", noise="laplace", epsilon=8, delta="1e-3")
def geometric(sf):
    return private(sf).agg(n=sf.count(), s=sf.sum("y", **Y))


@question(noise="k_norm", epsilon=2, delta="1e-3")
def k_norm_threshold(sf):
    return private(sf).agg(n=sf.count(), m=sf.mean("y", **Y))


@question(noise="laplace", epsilon=8, delta="1e-3")
def private_rows_in_all(sf):
    table = sf.scan(ROWS, privacy_unit="id").group_by("g").bound(total_rows=3)
    return table.agg(n=sf.count(), m=sf.mean("y", **Y))


@question(noise="gaussian", **SMALL)
def rows_in_all(sf):
    table = sf.scan(ROWS, privacy_unit="id").group_by("h", keys=list(range(6)))
    return table.bound(total_rows=3).agg(u=sf.count_units(), n=sf.count(), m=sf.mean("y", **Y))


@question(noise="laplace")
def weighted(sf):
    weight = {"weight": "w", "max_weight": 3}
    return public(sf).agg(n=sf.count(**weight), m=sf.mean("x", **X, **weight), s=sf.sum("y", **Y, **weight))


@question(noise="laplace")
def bins(sf):
    return whole(sf).agg(
        h=sf.histogram("y", [0, 1, 2, 4]), w=sf.histogram("y", [0, 2, 4], weight="w", max_weight=3),
        u=sf.histogram("n", [0, 2, 6], per="unit"), v=sf.value_counts("g", ["a", "b"]),
    )  # fmt: skip


@question(noise="gaussian", **SMALL)
def vectors(sf):
    return public(sf).agg(
        v=sf.vector_sum("v", length=2, bound=4), m=sf.vector_mean("v", length=2, bound=4),
        r=sf.vector_sum("v", length=2, bound=4, norm="l1", per="row"),
    )  # fmt: skip


@question(noise="laplace")
def vectors_laplace(sf):
    return public(sf).agg(
        v=sf.vector_sum("v", length=2, bound=4, norm="l1"),
        i=sf.vector_sum("v", length=2, bound=3, norm="linf"),
    )


@question(noise="laplace")
def distinct(sf):
    return public(sf, beyond="sample").agg(
        d=sf.count_distinct("n", values=2, method="matching"),
        e=sf.count_distinct("n", values=3, method="shares"),
    )


@question(noise="gaussian", **SMALL)
def cross(sf):
    return public(sf).agg(
        c=sf.covariance("x", "y", bounds={"x": (0, 9), "y": (1, 3)}),
        r=sf.linear_regression("y", ["x", "n"], bounds={"x": (0, 9), "y": (1, 3), "n": (0, 5)}),
    )


@question(noise="laplace")
def covariance(sf):
    return public(sf).agg(
        c=sf.covariance("x", "y", bounds={"x": (0, 9), "y": (1, 3)}), v=sf.variance("x", **X)
    )


@question(noise="gaussian", **SMALL)
def sums_alone(sf):
    return public(sf).agg(s=sf.sum("y", lower="4/3", upper="10/3", per="row"))


@question(noise="laplace")
def weighed(sf):
    return public(sf).agg(n=sf.count(), v=sf.variance("x", **X), m=sf.mean("x", **X)).weigh(n=9, v=4)


@question(noise="gaussian", **SMALL)
def totals(sf):
    cells = [(g, h) for g in "abcdef" for h in range(6)]
    table = sf.scan(ROWS, privacy_unit="id").group_by("g", "h", keys=cells).bound(groups=3, rows=2)
    return table.totals().agg(n=sf.count(), s=sf.sum("y", **Y))


@question(noise="gaussian", **SMALL)
def series(sf):
    return public(sf, groups=3, keys=12).agg(c=sf.cumulative(sf.sum("y", **Y, per="row")), n=sf.count())


@question(noise="gaussian", **SMALL)
def several_series(sf):
    cells = [(g, h) for g in "abc" for h in range(8)]
    table = sf.scan(ROWS, privacy_unit="id").group_by("g", "h", keys=cells).bound(groups=3, rows=2)
    return table.agg(c=sf.cumulative(sf.count(), over="h"))


@question(noise="laplace")
def time_blocks(sf):
    return public(sf, groups=3, keys=60).agg(c=sf.cumulative(sf.count()))


@question(noise="laplace", diagnostics="0.2")
def diagnostics(sf):
    return public(sf, groups=1, rows=6).agg(n=sf.count_units())


@question(noise="laplace", auto_share="0.3")
def looks(sf):
    return public(sf).agg(n=sf.count(), m=sf.mean("y", lower="auto", upper="auto"))


@question(share="1/10")
def share(sf):
    return public(sf).agg(n=sf.count(), m=sf.mean("y", **Y))


@question(epsilon=2, delta=0)
def largest(sf):
    return sf.scan(ROWS, privacy_unit="id").top("g", k=2, keys=list("abcdef"))


@question(epsilon=4, delta="1e-3")
def largest_private(sf):
    return sf.scan(ROWS, privacy_unit="id").top("g", k=2, candidates=4)


@question(epsilon=4, delta="1e-3")
def largest_sums(sf):
    return sf.scan(ROWS, privacy_unit="id").top(
        "g", k=3, keys=list("abcdef"), by=sf.sum("y", lower=-1, upper=2)
    )


@question(epsilon=4, delta="1e-3")
def largest_private_sums(sf):
    return sf.scan(ROWS, privacy_unit="id").top("g", k=2, candidates=4, by=sf.sum("y", lower=0, upper=2))


SELECT = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon=1, privacy_unit_column=id, max_rows_contributed=2) "
    "COUNT(*) AS n FROM asked"
)


def two_selects(sf: Any, budget: Any) -> Any:
    """Release two SELECTs in one text, whose noise is fresh: what they cost is all that is compared."""
    text = f"SELECT a.n + b.n AS added FROM ({SELECT}) AS a, ({SELECT}) AS b"
    return sf.sql(text, tables={"asked": ROWS}, budget=budget)


def outcomes(names: Iterable[str] = ()) -> dict[str, dict[str, str]]:
    """Release each question; for each return what is described, drawn and paid, or why it is refused.

    What is described is what the certificate read before anything was paid and drawn.
    """
    import secrets

    import sfumato as sf
    from sfumato.certificate import certificate
    from sfumato.errors import SfumatoError
    from sfumato.noise.random_words import SeededWords

    described: list[Any] = []

    def read(value: Any, *rest: Any, real: Any = certificate.read) -> Any:
        described.append(value)
        return real(value, *rest)

    certificate.read = read
    secrets.randbits = lambda bits: 5  # which groups of a unit are kept
    caches = [
        one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)
        and one.__module__.startswith("sfumato.") and one.__module__ != "sfumato.noise.standard_laws"
    ]  # fmt: skip
    found: dict[str, dict[str, str]] = {}
    for name in names or QUESTIONS:
        for cache in caches:
            cache.cache_clear()  # so that each question runs all that it needs
        make, options = QUESTIONS[name]
        budget = sf.Budget(epsilon=100, delta="1/10")
        described.clear()
        try:
            released = make(sf).release(**options, budget=budget, unsafe_words=SeededWords(1))
            shown = [released.to_arrow().to_pydict()]
            if "diagnostics" in options:
                shown.append(released.diagnostics.to_arrow().to_pydict())
        except (SfumatoError, AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            # What is refused is not paid, but for looks before.
            late = "auto_share" not in options and budget.history
            found[name] = {"refused": f"{'paid, then ' if late else ''}{type(error).__name__}: {error}"[:200]}
            continue
        found[name] = {
            "described": json.dumps(described, sort_keys=True),
            "drawn": hashlib.sha256(repr(shown).encode()).hexdigest(),
            "paid": paid(budget),
        }
    return found


def paid(budget: Any) -> str:
    """Return what a budget has paid."""
    return repr([(one.epsilon, one.delta, one.loss) for one in budget.history])
