"""One tight description of each kind of plan, and the changes that each must not survive."""

from __future__ import annotations

from tests.certificate.descriptions import (
    BINS,
    NULLS,
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

VALUES = {"kind": "values", "name": "x.present", "one": "1", "rows": 3, "column": "x"}
UNIT_SUM = {"kind": "unit_sum", "name": "t", "lower": "0", "upper": "100", "centre": "50", "missing": False}
DISTINCT = {"kind": "distinct", "name": "d", "one": "1", "values": 2, "matched": True}
VECTOR = {"kind": "vector", "name": "v", "length": 4, "radius": "60", "ball": "l2", "rows": None}
NODES = {"kind": "nodes", "name": "tree", "one": "4", "rows": 3, "levels": 4}
MARGIN = {"kind": "margin", "name": "m", "one": "1", "rows": 3, "rank": "1/2", "bits": 20}
RANGE = {"lower": "-10", "upper": "10", "centre": "0"}
WEIGHTED = {
    "kind": "weighted", "name": "w", "rows": 1, "weight": "50", "values": {"name": "wx", "bits": 0} | RANGE,
}  # fmt: skip
CROSS = {
    "kind": "cross",
    "rows": 1,
    "complete": None,
    "columns": [{"name": "x", "square_centre": "50"} | RANGE, {"name": "y", "square_centre": "0"} | RANGE],
    "pairs": [{"name": "xy", "first": 0, "second": 1}, {"name": "xx", "first": 0, "second": 0}],
}
CHOICE = {
    "kind": "quantiles",
    "name": "x",
    "rows": 3,
    "one": "1",
    "scale": "12",
    "targets": [{"rank": "1/2", "within": False}],
}
GEOMETRIC = {"kind": "truncated_geometric", "epsilon": "1/4", "delta": "1/2000000", "pre_threshold": 1}
LEVELS = [
    {"size": "1", "totals": [{"cells": 1, "times": 5}]},
    {"size": "2", "totals": [{"cells": 5, "times": 1}]},
]
TOP = {
    "kind": "largest_groups",
    "epsilon": "1",
    "delta": "0",
    "keys": "public",
    "lower": "0",
    "upper": "1",
    "rate": "1/10",
    "picks": 5,
    "candidates": None,
    "margin": None,
    "noise": {"law": "laplace", "scale": "10"},
}
SURVEY = {
    "kind": "survey", "epsilon": "1", "delta": "0", "one": "1", "strata": 4, "law": "laplace", "scale": "1",
}  # fmt: skip
JOINT = k_norm(["units", "rows", "x.sum"], units=True) | {
    "scales": {"units": "1", "rows": "3", "x.sum": "3000"}
}
SMALL = {"delta": "1/1000000"}
PLANS = {
    "laplace": release(part([UNITS, SUMS], independent("laplace", units=4, x_sum=12000))),
    "nulls": release(part([ROWS, NULLS], independent("laplace", rows=12, x_sum=12000, x_nulls=3072))),
    "squares": release(part([SQUARES], independent("laplace", x_sum=15000, x_squares=468750), epsilon="4/5")),
    "bins": release(part([BINS], independent("laplace", a=24, b=24, c=24))),
    "nodes": release(part([NODES], independent("laplace", tree=96))),
    "vector": release(part([VECTOR], independent("laplace", v=240))),
    "weighted": release(part([WEIGHTED], independent("laplace", w=200, wx=2000))),
    "cross": release(part([CROSS], independent("laplace", x=80, y=80, xy=800, xx=400))),
    "units of their own": release(part([UNITS, UNIT_SUM, DISTINCT], independent("laplace", units=6, t=300, d=12))),
    "rows in all": release(
        part([UNITS, ROWS], independent("laplace", units=6, rows=6), per_unit=3, shown=9, total_rows=3)
    ),
    "laplace and delta": release(
        part([UNITS, SUMS], independent("laplace", units=2, x_sum=6000), delta="95/1000")
    ),
    "gaussian": release(part([UNITS, SUMS], independent("gaussian", units="845/100", x_sum=25350), **SMALL)),
    "joint": release(part([UNITS, ROWS, SUMS], JOINT)),
    "values": release(part([VALUES, SUMS], k_norm(["x.present", "x.sum"], x_present=3, x_sum=3000))),
    "margins": release(
        part([MARGIN], k_norm(["m"], joint=False, body="cube", m=6291456), epsilon="1", choices=[CHOICE | {"scale": "12"}])
    ),
    "laplace threshold": release(
        part([UNITS], independent("laplace", units=2), keys="private", selection=threshold(30), **SMALL)
    ),
    "discrete threshold": release(
        part([UNITS], independent("discrete_laplace", units=2), keys="private", selection=threshold(30), **SMALL)
    ),
    "gaussian threshold": release(
        part([UNITS], independent("gaussian", units=6), keys="private", selection=threshold(31), **SMALL)
    ),
    "shared threshold": release(
        part(
            [UNITS | {"one": str(1 << 20)}],
            independent("gaussian", units=round(4.37 * 2**20)),
            keys="private",
            beyond="share",
            per_unit=1000,
            selection=threshold(round(26.74 * 2**20)),
            delta="989700956/1000000000000000",
        )
    ),
    "k-norm threshold": release(
        part(
            [UNITS, SUMS],
            k_norm(["units", "x.sum"], joint=False) | {"scales": {"units": "2", "x.sum": "6000"}},
            keys="private",
            selection=threshold(35),
            **SMALL,
        )
    ),
    "geometric": release(
        part([ROWS], independent("laplace", rows=12), keys="private", selection=GEOMETRIC, **SMALL)
    ),
    "centred": release(
        part(
            [UNITS, SUMS | {"rows": 1}],
            {
                "shape": "centred_gaussian",
                "scales": {"units": "8", "x.sum": "16000"},
                "counts": [{"name": "units", "weight": 1}],
                "common": "6",
                "fine_bits": 20,
            },
            per_unit=4,
            **SMALL,
        )
    ),
    "levels": release(
        part([UNITS], {"shape": "levels_gaussian", "scales": {"units": "37/5"}, "levels": LEVELS}, **SMALL)
    ),
    "series": release(
        part(
            [UNITS],
            {"shape": "series_gaussian", "scales": {"units": "10"}, "series": 1, "weights": [16, 8, 6, 5, 4], "weight_bits": 4},
            **SMALL,
        )
    ),
    "blocks": release(
        part(
            [UNITS],
            {"shape": "tree_laplace", "scales": {"units": "4"}, "series": 1, "steps": 5, "blocks": [1, 3]},
        )
    ),
    "largest": release(TOP),
    "largest private": release(
        TOP | {"keys": "private", "candidates": 100, "margin": 200, "delta": "1/1000000"}
    ),
    "survey": release(SURVEY, neighbours="one_answer"),
    "two parts": release(
        part([BINS], independent("laplace", a=48, b=48, c=48), epsilon="1/2"),
        part([UNITS], independent("laplace", units=4), epsilon="1/2"),
        epsilon="1",
    ),
    "two gaussian parts": release(
        part([UNITS], independent("gaussian", units="598/100"), **SMALL),
        part([ROWS], independent("gaussian", rows="1794/100"), **SMALL),
        epsilon="2",
        delta="1/500000",
    ),
}  # fmt: skip


def _tight(description, delta):
    """A description whose claim of delta is what is proved, to three digits; all of it is in one part."""
    (one,) = description["parts"]
    return release(one | {"delta": delta})


for _name, _delta in {
    "laplace threshold": "648/1000000000",
    "discrete threshold": "628/1000000000",
    "gaussian threshold": "1797/1000000000",
    "k-norm threshold": "499/1000000000",
    "centred": "267/10000000000",
    "levels": "792/1000000000",
    "series": "184/1000000000",
    "largest private": "767/1000000000",
}.items():
    PLANS[_name] = _tight(PLANS[_name], _delta)
