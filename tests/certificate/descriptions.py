"""Descriptions for tests, in few words."""

from copy import deepcopy

UNITS = {"kind": "units", "name": "units", "one": "1"}
ROWS = {"kind": "rows", "name": "rows", "one": "1", "rows": 3}
SUMS = {
    "kind": "row_sums", "name": "x.sum", "lower": "-1000", "upper": "1000", "centre": "0", "column": "x",
    "rows": 3, "nulls": None, "squares": None,
}  # fmt: skip
NULLS = SUMS | {"nulls": {"name": "x.nulls", "one": "256"}}
SQUARES = SUMS | {"squares": {"name": "x.squares", "bits": 4, "centre": "31250"}}
BINS = {"kind": "bins", "names": ["a", "b", "c"], "rows": 3, "one": "4", "weight": "1"}


def part(statistics=(), noise=None, epsilon="1", delta="0", selection=None, choices=(), **groups):
    limits = {"keys": "public", "shown": 5, "per_unit": 2, "beyond": "sample", "total_rows": None} | groups
    if limits["keys"] != "public":
        limits["shown"] = None
    return {
        "kind": "groups",
        "epsilon": epsilon,
        "delta": delta,
        "groups": limits,
        "statistics": deepcopy(list(statistics)),
        "choices": list(choices),
        "noise": noise,
        "selection": selection,
    }


def release(*parts, epsilon=None, delta=None, neighbours="one_unit"):
    claim = {"epsilon": epsilon or parts[0]["epsilon"], "delta": delta or parts[0]["delta"]}
    return {"version": 1, "unit": "id", "neighbours": neighbours, **claim, "parts": list(parts)}


def independent(law, **scales):
    return {"shape": "independent", "law": law, "scales": named(scales)}


def k_norm(order, joint=True, units=False, body="cone", **scales):
    return {
        "shape": "k_norm",
        "joint": joint,
        "body": body,
        "units": units,
        "order": list(order),
        "scales": named(scales),
    }


def named(scales):
    return {name.replace("_", "."): str(scale) for name, scale in scales.items()}


def threshold(at, name="units", pre_threshold=1):
    return {"kind": "threshold", "name": name, "threshold": at, "pre_threshold": pre_threshold}
