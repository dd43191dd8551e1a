"""Plans of generated questions: of all kinds of statistics, limits, noise and selection."""

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa

import sfumato as sf
from sfumato.api.largest_groups import Top
from sfumato.errors import SfumatoError
from sfumato.guidance.inferred_bounds import ValueHistograms, Values
from sfumato.guidance.inferred_limits import contribution_query
from sfumato.plan.budget_shares import Share
from sfumato.plan.plan import Plan
from sfumato.plan.top_measurement import TopMeasurement
from sfumato.query.inferred_parameters import Found

ROWS = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "g": pa.array(["a", "b"]),
        "h": pa.array([1, 2], pa.int64()),
        "x": pa.array([1.0, None]),
        "y": pa.array([1.5, 2.5]),
        "n": pa.array([1, 2], pa.int64()),
        "b": pa.array([True, None]),
        "w": pa.array([1.0, 2.0]),
        "v": pa.array([[1.0, 2.0], None], pa.list_(pa.float64())),
    },
    schema=pa.schema(
        [
            ("id", pa.int64()), ("g", pa.string()), ("h", pa.int64()), ("x", pa.float64()),
            pa.field("y", pa.float64(), nullable=False), pa.field("n", pa.int64(), nullable=False),
            ("b", pa.bool_()), ("w", pa.float64()), ("v", pa.list_(pa.float64())),
        ]
    ),
)  # fmt: skip


def _bounds(chance: random.Random) -> dict[str, Any]:
    lower = chance.choice([0, 0, -3, 5, Fraction(1, 3)])
    return {"lower": lower, "upper": lower + chance.choice([1, 7, 30, Fraction(5, 2), 1000])}


def _aggregate(chance: random.Random) -> Any:
    """Return an aggregate of any kind."""
    column = chance.choice(["x", "y", "n"])
    bounds = _bounds(chance)
    weight = {"weight": "w", "max_weight": chance.choice([1, 5, Fraction(7, 2)])}
    ranks = sorted(chance.sample([0.1, 0.25, 0.5, 0.75, 0.9], chance.randint(1, 3)))
    pair = {"x": (0, 3), "y": (-1, 4)}
    length = {"length": 2, "bound": chance.choice([1, 10]), "norm": chance.choice(["l1", "l2", "linf"])}
    return chance.choice(
        [
            sf.count,
            lambda: sf.count(column),
            sf.count_units,
            lambda: sf.count(**weight),
            lambda: sf.sum(column, **bounds),
            lambda: sf.sum(column, **bounds, per="row"),
            lambda: sf.sum(column, **bounds, **weight),
            lambda: sf.mean(column, **bounds),
            lambda: sf.mean(column, **bounds, **weight),
            lambda: sf.variance(column, **bounds),
            lambda: sf.stddev(column, **bounds),
            lambda: sf.proportion("b"),
            lambda: sf.proportion("b", stratum="g", asked={"a": 9, "b": 9}, population={"a": 90, "b": 9}),
            lambda: sf.quantiles(column, ranks, **bounds, error_bars=chance.random() < 0.6),
            lambda: sf.median(column, **bounds),
            lambda: sf.count_distinct(
                column, values=chance.randint(1, 4), method=chance.choice(["matching", "shares"])
            ),
            lambda: sf.covariance("x", "y", bounds=pair),
            lambda: sf.correlation("x", "y", bounds=pair),
            lambda: sf.linear_regression("y", ["x", "n"], bounds=pair | {"n": (0, 9)}),
            lambda: sf.vector_sum("v", **length, per=chance.choice(["unit", "row"])),
            lambda: sf.vector_mean("v", **length),
            lambda: sf.histogram(column, [0, 1, 5, 9], per=chance.choice(["unit", "row"])),
            lambda: sf.histogram(column, [0, 1, 5, 9], **weight),
            lambda: sf.value_counts("g", ["a", "b", "c"]),
        ]
    )()


def _options(chance: random.Random, private: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"epsilon": chance.choice(["1/10", "1/2", 1, 2, 8, "0.37"])}
    options["delta"] = chance.choice(["1e-6", "1e-9", "1e-4"] if private else ["1e-6", "1e-5", 0])
    options["noise"] = chance.choice(["auto", "auto", "laplace", "gaussian", "k_norm"])
    if private and chance.random() < 0.4:
        options["group_selection"] = chance.choice(["truncated_geometric", "laplace", "gaussian"])
    if private and chance.random() < 0.2:
        options["pre_threshold"] = chance.choice([2, 5])
    return options


def _question(chance: random.Random) -> tuple[sf.Question, bool]:
    table = sf.scan(ROWS, privacy_unit="id")
    kind = chance.choice(["whole", "public", "public", "private", "private", "cumulative", "totals"])
    wanted = {f"a{i}": _aggregate(chance) for i in range(chance.choice([1, 1, 2, 3]))}
    shown = chance.choice([1, 2, 5, 12, 20, 40])
    limits: dict[str, Any] = {"rows": chance.choice([1, 1, 2, 5])}
    if kind != "whole":
        limits["groups"] = chance.choice([1, 2, 3, 5, 20, *([9_000] if kind == "private" else [])])
    if kind in ("public", "private") and chance.random() < 0.2:
        limits = {"total_rows": chance.choice([1, 3, 10])}
    elif kind == "public" and chance.random() < 0.3:
        limits["beyond"] = chance.choice(["scale", "sample"])
    if kind == "public":
        table = table.group_by("h", keys=list(range(shown)))
    elif kind == "private":
        table = table.group_by("g")
    elif kind == "cumulative":
        table = table.group_by("h", keys=list(range(shown)))
        inner = chance.choice([sf.count(), sf.count_units(), sf.sum("y", lower=0, upper=2, per="row")])
        wanted = {"c": sf.cumulative(inner)} | ({"n": sf.count()} if chance.random() < 0.5 else {})
    elif kind == "totals":
        cells = [(g, h) for g in "abc"[: chance.randint(1, 3)] for h in range(chance.randint(1, 5))]
        table = table.group_by("g", "h", keys=cells).totals(cube=chance.random() < 0.3)
        wanted = {"n": sf.count(), "s": sf.sum("y", lower=0, upper=9)}
    question = table.bound(**limits).agg(**wanted)
    if chance.random() < 0.1:
        question = question.weigh(**{next(iter(wanted)): chance.choice([3, Fraction(1, 7)])})
    return question, kind == "private"


def plans(seed: int, tries: int) -> Iterator[Plan]:
    """Yield plans of questions; those that cannot be asked, or bought, are left out."""
    chance = random.Random(seed)
    for _ in range(tries):
        try:
            question, private = _question(chance)
            yield question.plan(**_options(chance, private))
        except SfumatoError:
            continue


def plans_of_largest(seed: int, tries: int) -> Iterator[Plan[Top, TopMeasurement]]:
    """Yield plans of the largest groups, as `plans` does."""
    chance = random.Random(seed)
    for _ in range(tries):
        try:
            yield _largest(chance)
        except SfumatoError:
            continue


def _largest(chance: random.Random) -> Any:
    public = {"keys": list(range(20))} if chance.random() < 0.5 else {}
    by = {"by": sf.sum("y", **_bounds(chance))} if chance.random() < 0.5 else {}
    top = sf.scan(ROWS, privacy_unit="id").top("h", k=chance.choice([1, 3, 10]), **public, **by)
    options = {"counts": chance.random() < 0.7, "counts_share": chance.choice([0.5, 0.1])}
    delta = chance.choice(["1e-6", "1e-9"] if not public else ["1e-6", 0])
    return top.plan(epsilon=chance.choice(["1/10", 1, 8]), delta=delta, **options)


def _diagnosed(chance: random.Random) -> Any:
    question, private = _question(chance)
    return question.plan(**_options(chance, private), diagnostics=chance.choice([0.05, "1/3"]))


def _diagnosis(chance: random.Random) -> Any:
    plan = _diagnosed(chance)
    assert plan.diagnostics is not None
    return plan.diagnostics


def _share(chance: random.Random) -> Any:
    question, _ = _question(chance)
    budget = sf.Budget(epsilon=chance.choice([1, 5]), delta="1e-5")
    noise = chance.choice(["auto", "auto", "laplace", "gaussian", "k_norm"])
    return Share.from_budget(budget, chance.choice(["1/20", "1/2"])).best(question.query, {"noise": noise})[0]


def _found(chance: random.Random) -> Any:
    """Return the plan of an answer after looks for limits and bounds."""
    question, private = _question(chance)
    options = _options(chance, private)
    looks = contribution_query(question.table, question.query, Fraction(1, 9)).plans
    bounded = Values("y", chance.random() < 0.5, None, None, None)
    looking = ValueHistograms(question.table._engine, question.query, question.table._part, bounded)
    at_values = [looking.plan(looking.edges, Fraction(1, 20)) for _ in range(2)]
    found = Found.from_plans("limits", {}, looks), Found.from_plans("bounds", (0, 1), at_values)
    return replace(question.plan(**options), found=found)


def _one(chance: random.Random) -> Any:
    question, private = _question(chance)
    return question.plan(**_options(chance, private))


KINDS = {
    "one": _one,
    "largest": _largest,
    "diagnosed": _diagnosed,
    "diagnosis": _diagnosis,
    "share": _share,
    "found": _found,
}


def releases(seed: int, tries: int) -> Iterator[tuple[str, list[Any]]]:
    """Yield what is paid together: one plan as a rule, of any kind, or several.

    Args:
        seed: of what is asked.
        tries: how many are tried; those that cannot be asked, or bought, are left out.
    """
    chance = random.Random(seed)
    for _ in range(tries):
        kind = chance.choice(["one"] * 7 + list(KINDS))
        try:
            plans = [KINDS[kind](chance)]
            while chance.random() < 0.1:
                plans.append(KINDS[chance.choice(list(KINDS))](chance))
        except SfumatoError:
            continue
        yield kind, plans
