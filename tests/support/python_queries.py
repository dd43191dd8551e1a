"""Queries in Python on declared tables: the same in the process of the rows and through a client."""

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import sfumato as sf
from tests.support.service import DECLARED

DAYS = pa.array([date(2024, 1, 1 + i % 28) for i in range(60)])
TABLES: dict[str, Any] = DECLARED | {
    "stays": {
        "source": pa.table(
            {
                "person": [f"p{i % 20}" for i in range(60)],
                "day": DAYS,
                "at": pa.array([datetime(2024, 1, 1 + i % 28, 5) for i in range(60)], pa.timestamp("us")),
                "price": pa.array([Decimal(i % 9) / 10 for i in range(60)], pa.decimal128(9, 2)),
                "ok": [i % 2 == 0 for i in range(60)],
                "vector": pa.array([[1.0, 2.0]] * 60, pa.list_(pa.float64(), 2)),
                "weight": [1.0 + i % 3 for i in range(60)],
                "stratum": ["a" if i % 3 else "b" for i in range(60)],
            },
            schema=None,
        ),
        "privacy_unit": "person",
        "max_groups": 4,
        "columns": {
            "day": {"domain": [date(2024, 1, 1), date(2024, 1, 2)]},
            "price": {"lower": 0, "upper": Decimal("0.9"), "domain": [Decimal("0.1"), Decimal("0.2")]},
        },
    },
    "cards": {
        "source": pa.table({"card": [1, 2, 3], "id": [1, 2, 2], "kind": ["a", "b", "a"]}),
        "privacy_unit": "id",
    },
    "payments": {
        "source": pa.table({"card": [1, 1, 2], "amount": [5.0, 6.0, 7.0]}),
        "foreign_keys": {"card": "cards.card"},
        "max_rows": 5,
        "columns": {"amount": {"lower": 0, "upper": 10}},
    },
    "notices": {
        "source": pa.table({"who": [1, 2, 2], "text": ["x", "y", "z"]}),
        "foreign_keys": {"who": "people.id"},
    },
}
DELTA = {"epsilon": 1, "delta": "1e-6"}
ONE = {"epsilon": 1}
Chain = tuple[Callable[[Any], Any], Mapping[str, Any]]

CHAINS: dict[str, Chain] = {
    "units": (lambda s: s.table("people").agg(people=sf.count_units()), {"epsilon": Fraction(1, 3)}),
    "derived": (
        lambda s: s.table("visits").with_columns(w="v * 2", old="age > 60").filter("old").agg(m=sf.sum("w", lower=0, upper=40)),
        {"epsilon": 0.5, "noise": "laplace"},
    ),
    "domain": (lambda s: s.table("visits").group_by("year").agg(n=sf.count(), m=sf.mean("v")), ONE),
    "private": (lambda s: s.table("visits").group_by("year", keys="private").agg(n=sf.count()), DELTA),
    "town": (
        lambda s: s.table("visits").group_by("town").bound(groups=1, rows=1).agg(n=sf.count(), u=sf.count_units()),
        DELTA | {"noise": "gaussian", "group_selection": "gaussian", "pre_threshold": 3},
    ),
    "keys": (lambda s: s.table("visits").group_by("town", keys=["Ulm", "Bonn"]).agg(n=sf.count("v")), ONE),
    "keys of Polars": (
        lambda s: s.table("visits")
        .group_by("town", "year", keys=pl.DataFrame({"town": ["Ulm"], "year": [2020]}))
        .agg(n=sf.count()),
        ONE,
    ),
    "given dates": (
        lambda s: s.table("stays").group_by("day", keys=[date(2024, 1, 5)]).bound(rows=1).agg(n=sf.count()),
        ONE,
    ),
    "times": (
        lambda s: s.table("stays").group_by("at", keys=[datetime(2024, 1, 5, 5)]).bound(rows=1).agg(n=sf.count()),
        ONE,
    ),
    "decimals": (lambda s: s.table("stays").group_by("price").bound(rows=1).agg(n=sf.count()), ONE),
    "truth": (lambda s: s.table("stays").group_by("ok", keys=[True, False]).bound(rows=1).agg(n=sf.count_units(), t=sf.count_if("ok")), ONE),
    "bounds": (
        lambda s: s.table("visits").bound(rows=1).agg(s=sf.sum("v", lower=Fraction(1, 3), upper=Decimal("7.5"), per="row")),
        ONE,
    ),
    "moments": (
        lambda s: s.table("visits").bound(rows=3).agg(
            m=sf.mean("v"), v=sf.variance("v"), d=sf.stddev("v"), p=sf.proportion("v")
        ),
        ONE | {"noise": "k_norm"},
    ),
    "quantiles": (
        lambda s: s.table("visits").bound(rows=1).agg(
            q=sf.quantiles("age", [0.1, 0.9], lower=0, upper=100), m=sf.median("v"), a=sf.quantile("v", 0.25), low=sf.min("v"), top=sf.max("v", error_bars=False)
        ),
        ONE,
    ),
    "ratio": (
        lambda s: s.table("visits").bound(rows=1).agg(n=sf.count(), v=sf.sum("v", per="row"), r=sf.ratio("v", "n"), d=sf.difference("v", "n")),
        ONE,
    ),
    "distinct": (lambda s: s.table("visits").agg(towns=sf.count_distinct("town", values=2)), ONE),
    "histogram": (
        lambda s: s.table("visits").bound(rows=1).agg(h=sf.histogram("age", [0, 30, 60, 90], outside="count", shares=True), v=sf.value_counts("town", ["Ulm"], other=True)),
        ONE,
    ),
    "regression": (
        lambda s: s.table("visits").bound(rows=1).agg(
            c=sf.covariance("v", "age", bounds={"v": (0, 20), "age": (0, 100)}),
            r=sf.correlation("v", "age", bounds={"v": (0, 20), "age": (0, 100)}),
            l=sf.linear_regression("v", ["age"], bounds={"v": (0, 20), "age": (0, 100)}),
        ),
        {"epsilon": 10},
    ),
    "vectors": (
        lambda s: s.table("stays").bound(rows=1).agg(
            v=sf.vector_sum("vector", length=2, bound=3), m=sf.vector_mean("vector", length=2, bound=Fraction(7, 2))
        ),
        DELTA,
    ),
    "weights of survey": (
        lambda s: s.table("stays").bound(rows=1).agg(
            n=sf.count(weight="weight", max_weight=2), p=sf.proportion("ok", weight="weight", max_weight=2)
        ),
        ONE,
    ),
    "strata": (
        lambda s: s.table("stays").bound(rows=1).agg(
            p=sf.proportion("ok", stratum="stratum", asked={"a": 20, "b": 10}, population={"a": 200, "b": 100})
        ),
        ONE,
    ),
    "cumulative": (
        lambda s: s.table("visits").group_by("year", keys=[2020, 2021, 2022]).bound(groups=3, rows=1).agg(c=sf.cumulative(sf.count())),
        DELTA,
    ),
    "totals": (
        lambda s: s.table("visits").group_by("town", "year", keys=[("Ulm", 2020), ("Ulm", 2021), ("Bonn", 2020)])
        .totals(["town"], [], integer=True).bound(groups=2, rows=1).agg(n=sf.count()),
        DELTA,
    ),
    "weigh": (
        lambda s: s.table("visits").group_by("year").agg(n=sf.count(), m=sf.mean("v")).weigh(n=3, m=Fraction(1, 7)), ONE
    ),
    "rows in all": (lambda s: s.table("visits").group_by("year").bound(total_rows=2).agg(n=sf.count()), ONE),
    "beyond": (
        lambda s: s.table("visits").group_by("year").bound(groups=2, rows=1, beyond="scale").agg(n=sf.count()), ONE
    ),
    "join public": (
        lambda s: s.table("visits").join(s.public("towns").filter("region <> 'east'").with_columns(r="upper(region)"), on="town", how="left")
        .group_by("r").bound(groups=1, rows=1).agg(n=sf.count()),
        DELTA,
    ),
    "join private": (
        lambda s: s.table("visits").join(s.table("people").filter("year = 2020"), on={"id": "id", "year": "year"}, rows=2).bound(rows=3).agg(n=sf.count()),
        ONE,
    ),
    "union": (
        lambda s: s.table("people").union(s.table("people").with_columns(year="year + 1")).bound(rows=2).agg(n=sf.count()), ONE
    ),
    "per unit": (
        lambda s: s.table("orders").per_unit("town", spent="sum(price)", k="count(*)").group_by("town", keys=["Ulm"])
        .bound(groups=1).agg(n=sf.count(), m=sf.mean("spent", lower=0, upper=9)),
        ONE,
    ),
    "sql of several": (
        lambda s: s.table("orders").sql(
            "SELECT o.id, o.price, t.region FROM self AS o JOIN towns AS t ON o.town = t.town", tables={"towns": s.public("towns")}
        ).group_by("region").bound(groups=1, rows=1).agg(v=sf.sum("price", lower=0, upper=9)),
        DELTA,
    ),
    "reached by unit": (lambda s: s.table("notices").bound(rows=2).agg(n=sf.count("text")), ONE),
    "joined by foreign key": (
        lambda s: s.table("payments").join(s.table("cards"), on="card").group_by("kind", keys=["a", "b"]).bound(groups=1, rows=2).agg(n=sf.count()),
        ONE,
    ),
    "diagnostics": (lambda s: s.table("visits").group_by("year").agg(n=sf.count()), ONE | {"diagnostics": Fraction(1, 20)}),
    "top by sum": (
        lambda s: s.table("visits").top("town", k=1, by=sf.sum("v", lower=0, upper=9), keys=["Ulm", "Bonn"]),
        ONE | {"counts_share": Fraction(1, 4)},
    ),
    "top of candidates": (lambda s: s.table("visits").top("town", "year", k=2, candidates=50), DELTA | {"counts": False}),
    "odd names": (
        lambda s: s.table("visits").with_columns(**{"self": "v", "name": "age", "été \"x\"": "v"}).bound(rows=1)
        .agg(**{"args": sf.sum("self", lower=0, upper=2), "on": sf.mean('été "x"', lower=0, upper=2)}),
        ONE,
    ),
    "numbers of NumPy": (
        lambda s: s.table("visits").bound(rows=int(np.int64(2))).agg(s=sf.sum("v", lower=np.float64(0.5), upper=np.int64(9))), ONE
    ),
}  # fmt: skip
# Left to the release, which looks at the rows first: there is no plan before it.
LEFT: dict[str, Chain] = {
    "bounds are found": (
        lambda s: s.table("visits").bound(rows=1).agg(m=sf.mean("income", lower="auto", upper="auto", magnitudes=(1, 10**6))),
        ONE | {"auto_share": Fraction(1, 3)},
    ),
    "limits are found": (lambda s: s.table("visits").group_by("year").bound(groups="auto", rows=1).agg(n=sf.count()), ONE),
}  # fmt: skip

# Chains whose groups are found in the rows, so that which are shown is a matter of delta.
PRIVATE = ("private", "town", "join public", "sql of several", "top of candidates")
_UNITS: dict[str, Any] = {"id": 4217, "person": "p4217", "customer": 4217, "who": 4217, "card": 4217}
_ODD: tuple[tuple[Callable[[pa.DataType], bool], list[Any]], ...] = (
    (pa.types.is_integer, [None, 2**63 - 1, -(2**63), 0, 2020]),
    (pa.types.is_floating, [None, float("nan"), float("inf"), -1.7e308, 5e-324]),
    (pa.types.is_string, ["", None, "x" * 70_000, "1e999", "\U0010ffff"]),
    (pa.types.is_date, [None, date(1, 1, 1), date(9999, 12, 31), date(2024, 1, 1), date(2024, 2, 29)]),
    (pa.types.is_timestamp, [None, datetime(1, 1, 1), datetime(9999, 12, 31), datetime(2024, 1, 1), None]),
    (pa.types.is_decimal, [None, Decimal("9999999.99"), Decimal("-9999999.99"), Decimal(0), Decimal("0.1")]),
    (pa.types.is_boolean, [None, True, False, True, True]),
    (
        pa.types.is_fixed_size_list,
        [None, [float("nan"), 1.0], [float("inf"), -1e308], [0.0, 0.0], [None, 1.0]],
    ),
)


def neighbours(tables: dict[str, Any] = TABLES) -> dict[str, Any]:
    """Return the tables with one privacy unit more, whose rows are as odd as rows can be."""
    return {
        name: one if one.get("public") else one | {"source": _with_odd(one["source"])}
        for name, one in tables.items()
    }


def _with_odd(table: pa.Table) -> pa.Table:
    rows = (
        1 if table.column_names[0] == "card" and "id" in table.column_names else 5
    )  # each card is there once
    odd = {
        field.name: [_UNITS[field.name]] * rows if field.name in _UNITS
        else next(values for of, values in _ODD if of(field.type))[:rows]
        for field in table.schema
    }  # fmt: skip
    return pa.concat_tables([table, pa.table(odd, schema=table.schema)])
