"""What is drawn is what is described: draws that are made of the description alone are those of a release.

And what one unit adds, as DuckDB counts it, is within the limits that the description has.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.certificate.description import read
from sfumato.certificate.unit_loss import bounding, boxes, shift
from sfumato.exact.time_trees import Toeplitz, Tree
from sfumato.measurements.candidate_selection import peel, peel_limited
from sfumato.measurements.group_selection import TruncatedGeometric
from sfumato.measurements.int128_array import int64_values
from sfumato.measurements.quantile_choice import QuantileChoice, Target
from sfumato.noise import DiscreteLaplace, Gaussian
from sfumato.noise.centred_noise import CentredGaussian
from sfumato.noise.k_norm import Cone, JointNoise, SeparateNoise
from sfumato.noise.level_noise import LevelsGaussian
from sfumato.noise.random_words import SeededWords
from sfumato.noise.series_noise import FINE, SeriesGaussian, TreeLaplace
from sfumato.plan.noisy_trees import LeafCounts, noisy_cdf, noisy_tree
from sfumato.plan.plan import Plan
from sfumato.transformations import ValueTree
from tests.faults import questions
from tests.faults.questions import QUESTIONS

pytestmark = pytest.mark.noise_cannot_matter("words are seeded, and draws are compared with the same ones")

LAWS: dict[str, Any] = {"discrete_laplace": DiscreteLaplace, "gaussian": Gaussian}
PLANNED = [
    n for n, (_, options) in QUESTIONS.items() if not {"share", "auto_share", "diagnostics"} & {*options}
]
TOPS = [name for name in PLANNED if name.startswith("largest")]
GROUPED = [name for name in PLANNED if name not in TOPS]


def planned(name: str) -> tuple[Any, Any]:
    make, options = QUESTIONS[name]
    asked = make(sf)
    return asked, asked.plan(**options)


def exact(asked: Any, plan: Plan) -> pa.RecordBatch:
    (batch,) = asked._engine.statistics(plan.exact, 1 << 20)
    return batch


class Replayed:
    """Draws in the order of a release, from a description as it was read, and exact numbers of groups."""

    def __init__(self, part: dict[str, Any], columns: dict[str, pa.Array], words: SeededWords) -> None:
        self.part, self.columns, self.words = part, columns, words
        self.groups = len(next(iter(columns.values())))
        self.kept = np.ones(self.groups, bool)
        self.noise: dict[str, Any] = {}

    def select(self, units: Any, selection: Any) -> None:
        """Draw what selects groups, where it is no noise that is drawn for all numbers, as a release does."""
        rule, noise = self.part["selection"], self.part["noise"]
        if rule["kind"] == "truncated_geometric":
            made = TruncatedGeometric(rule["epsilon"], rule["delta"], rule["pre_threshold"])
            # Few groups show little of how probable each is.
            assert [made.probability(n) for n in range(40)] == [selection.probability(n) for n in range(40)]
            self.kept = made.keep(units, self.words)
            return
        name = rule["name"]
        if noise["shape"] == "independent":
            drawn = LAWS[noise["law"]](noise["scales"][name]).rounded(self.groups, self.words)
            self.noise[name] = drawn
        seen = units - (rule["pre_threshold"] - 1)
        self.kept = (seen > 0) & (seen + self.noise[name] >= rule["threshold"])
        self.noise = {other: own[self.kept] for other, own in self.noise.items()}

    def together(self, rollup: Any) -> dict[str, Any]:
        """Return noise of all numbers; in fine steps where it is of series or levels."""
        noise, words = self.part["noise"], self.words
        names = list(noise.get("order", noise["scales"]))
        scales = tuple(noise["scales"][name] for name in names)
        if noise["shape"] == "k_norm":
            cone = Cone(len(names) - 1 - noise["units"], noise["units"])
            shown = self.part["groups"]["shown"]
            drawn = JointNoise(cone, scales, shown).rounded(words) if noise["joint"] else (
                SeparateNoise(cone, scales).rounded(self.groups, words)
            )  # fmt: skip
        elif noise["shape"] == "centred_gaussian":
            weights = {count["name"]: count["weight"] for count in noise["counts"]}
            own = tuple(weights.get(name, 0) for name in names)
            drawn = CentredGaussian(scales, noise["common"], own, self.part["groups"]["shown"]).rounded(words)
        elif noise["shape"] == "levels_gaussian":
            sizes, levels = [], list(noise["levels"])
            for shape in rollup.shape:  # levels that are not measured are not described
                first = levels[0]["totals"] if levels else []
                same = sorted(shape) == sorted(
                    n for total in first for n in [total["cells"]] * total["times"]
                )
                sizes.append(levels.pop(0)["size"] if same else Fraction(0))
            drawn = LevelsGaussian(scales, tuple(sizes), rollup).rounded(words)
        elif noise["shape"] == "series_gaussian":
            drawn = SeriesGaussian(scales, Toeplitz(tuple(noise["weights"])), noise["series"]).rounded(words)
        else:
            tree = Tree(noise["steps"], tuple(noise["blocks"]))
            drawn = TreeLaplace(scales, tree, noise["series"]).rounded(words)
        return dict(zip(names, drawn, strict=True))


def whole(column: pa.Array) -> np.ndarray:
    return np.array([int(x) for x in column.to_pylist()], object)


@pytest.mark.parametrize("name", GROUPED)
def test_a_release_draws_what_is_described(name):
    asked, plan = planned(name)
    batch, measurement, steps = exact(asked, plan), plan.measurement, plan.steps
    part = read(plan.description, "part")
    numbers = measurement.draw(batch, SeededWords(3)).numbers
    columns = measurement.columns(batch)
    told = Replayed(part, columns, SeededWords(3))
    noise, series, totals = part["noise"], None, None
    if noise["shape"] == "independent":
        if part["selection"] is not None:
            told.select(int64_values(columns["units"]), measurement.selection)
    else:
        totals = (
            None
            if plan.query.totals is None
            else plan.query.totals.for_keys(batch.columns[: len(plan.query.keys)])
        )
        told.noise = told.together(None if totals is None else totals.rollup)
        series = plan.query.series
        if part["selection"] is not None:
            told.select(int64_values(columns["units"]), measurement.selection)
    kept = {name: column.filter(pa.array(told.kept)) for name, column in columns.items()}
    for choice in part["choices"]:
        check_choice(plan, choice, kept, told, numbers)
    for statistic in part["statistics"]:
        mine = dict(boxes(statistic))
        for own in [
            coordinate for coordinate in noise["scales"] if coordinate in mine
        ]:  # in the order of draws
            if statistic["kind"] == "nodes":
                check_tree(plan, own, kept[own], noise, told, numbers)
                continue
            column = told.columns.get(own) if statistic["kind"] == "margin" else kept[own]
            flat = column.flatten() if statistic["kind"] == "vector" else column
            values = flat if isinstance(flat, np.ndarray) else whole(flat)
            if own not in told.noise:
                told.noise[own] = LAWS[noise["law"]](noise["scales"][own]).rounded(len(values), told.words)
            drawn, found = told.noise[own], numbers.values[own].reshape(-1)
            if series is not None:
                order = series.order(batch.columns[: len(plan.query.keys)]).reshape(-1)
                back = np.argsort(order)
                fine = np.asarray(drawn).astype(object)
                placed = ((fine + (1 << FINE >> 1)) >> FINE).reshape(-1)[back]
                check_totals(values, fine, order, numbers.totals.values[own], steps[own])
                drawn = placed
            if totals is not None:
                check_levels(values, drawn, totals, numbers, own, plan)
                continue
            expected = [
                float((x + int(z)) * steps[own]) for x, z in zip(values.tolist(), drawn.tolist(), strict=True)
            ]
            assert expected == found.tolist(), own
    kinds = {type(c.mechanism).__name__ for c in measurement.choices}
    assert len(kinds) == bool(part["choices"]) and len(measurement.choices) == len(part["choices"])


def check_choice(
    plan: Plan, choice: dict[str, Any], kept: dict[str, Any], told: Replayed, numbers: Any
) -> None:
    """Draw places with what is described; where they are aimed is no matter of privacy."""
    (own,) = [c for c in plan.measurement.choices if c.leaves.names[0] == choice["name"]]
    assert choice["rows"] == own.leaves.rows and int(choice["one"]) == 1 << -own.leaves.exponent
    drawn = own.mechanism.targets
    targets = [
        Target(known["rank"], t.shift, t.spread, known["within"])
        for known, t in zip(choice["targets"], drawn, strict=True)
    ]
    # A few places are hardly ever others where targets are clamped, or not.
    assert targets == list(drawn) and choice["scale"] == own.mechanism.scale
    own.__dict__["mechanism"] = QuantileChoice(choice["scale"], own.leaves.lattice, tuple(targets))
    places, margins = own.draw(kept[choice["name"]], told.words)
    assert np.array_equal(places.places, numbers.chosen[choice["name"]].places)
    for margin, own_numbers in zip(own.margins, margins, strict=True):
        told.columns[margin.names[0]] = whole(own_numbers.to_arrow())


def check_tree(plan: Plan, own: str, column: Any, noise: Any, told: Replayed, numbers: Any) -> None:
    law = LAWS[noise["law"]](noise["scales"][own])
    tree = next(s for s in plan.statistics if s.names == (own,))
    if isinstance(tree, ValueTree):
        levels = next(s["levels"] for s in told.part["statistics"] if s.get("name") == own)
        assert levels == len(tree.sizes)
        drawn = noisy_cdf(column, tree, law, told.words)
        assert np.array_equal(drawn.upto, numbers.trees[own].upto)
        return
    ranks = numbers.trees[own].ranks
    expected = noisy_tree(LeafCounts.from_arrow(column), law, ranks, told.words)
    assert np.array_equal(expected.total, numbers.trees[own].total)
    assert np.array_equal(expected.upto, numbers.trees[own].upto)


def check_totals(values: Any, fine: Any, order: Any, found: Any, step: Fraction) -> None:
    """Totals of time steps are sums of exact numbers, and of the same noise."""
    by_step = values[order].reshape(fine.shape)
    sums = np.cumsum(by_step, axis=1) + ((np.cumsum(fine, axis=1) + (1 << FINE >> 1)) >> FINE)
    assert [float(x * step) for x in sums.reshape(-1)] == found[order].tolist()


def check_levels(values: Any, drawn: Any, totals: Any, numbers: Any, own: str, plan: Plan) -> None:
    index = list(numbers.values).index(own)
    bits = plan.measurement.noise.fine[index]
    step, cells = plan.steps[own] / (1 << bits), (values << bits) + drawn.astype(object)
    assert [float(x * step) for x in cells] == numbers.levels.cells.values[own].tolist()
    codes = [np.asarray(c) for c in totals.rollup.codes]
    by_level = [
        np.array([float(sum(cells[own_codes == code]) * step) for code in range(own_codes.max() + 1)])
        for own_codes in codes
    ]
    assert totals.placed(by_level).tolist() == numbers.values[own].tolist()


@pytest.mark.parametrize("name", TOPS)
def test_the_largest_groups_are_drawn_as_described(name):
    _, plan = planned(name)
    part = read(plan.description, "part")
    numbers = np.array([40, 39, 39, 38, 3, 2, 2, 1], np.int64) * (part["upper"] // 2 or 1)
    table = pa.table({"g": list("abcdefgh"), "n": numbers})
    drawn, rate, picks = replace(plan.measurement, keys=("g",)), part["rate"], part["picks"]
    law = LAWS[part["noise"]["law"]](part["noise"]["scale"])
    for seed in range(40):  # few picks show little of their rate
        found, words = drawn.draw(table, SeededWords(seed)), SeededWords(seed)
        if part["keys"] == "public":
            picked = peel(numbers, rate, picks, words)
        else:
            picked = peel_limited(numbers, rate, picks, part["candidates"], part["margin"], words)
        assert found["g"].to_pylist() == [table["g"][i].as_py() for i in picked]
        noise = law.rounded(len(picked), words)
        assert found[drawn.measured].to_pylist() == [
            (int(numbers[i]) + z) * drawn.step for i, z in zip(picked, noise.tolist(), strict=True)
        ]


FAR = [-1e12, 0.0, 2.5, 14.0, 1e12, None]


def one_unit(rows: int, value: float | None) -> pa.Table:
    """A unit with so many rows in each of ten groups, all alike."""
    y, w = (2.0, 1e9) if value is None else (value, value)
    row = {
        "id": 1,
        "x": value,
        "y": y,
        "n": 5,
        "b": True,
        "w": w,
        "v": None if value is None else [value, 30.0],
    }
    return pa.Table.from_pylist(
        [row | {"g": "abcdefghij"[h], "h": h} for h in range(10) for _ in range(rows)],
        schema=pa.schema([pa.field(f.name, f.type, f.nullable) for f in questions.ROWS.schema]),
    )


@pytest.mark.parametrize("name", [name for name in GROUPED if name != "quantiles"])
def test_what_one_unit_adds_is_within_the_description(name, monkeypatch):
    """Where it has too many rows in too many groups, with values far beyond their bounds."""
    for rows in (1, 7):
        for value in FAR:
            monkeypatch.setattr(questions, "ROWS", one_unit(rows, value))
            asked, plan = planned(name)
            part = read(plan.description, "part")
            batch = exact(asked, plan)
            columns, limits = plan.measurement.columns(batch), bounding(part)
            assert part["groups"]["shown"] in (None, batch.num_rows)
            counted: dict[str, list[int]] = {}
            for statistic in part["statistics"]:
                moved = []
                for own, box in boxes(statistic):
                    if statistic["kind"] == "nodes":
                        numbers = [sum(one["weight"] for one in group) for group in columns[own].to_pylist()]
                    elif statistic["kind"] == "vector":
                        numbers = [max(map(abs, map(int, group))) for group in columns[own].to_pylist()]
                        check_ball(statistic, columns[own].to_pylist())
                    elif statistic["kind"] == "margin":
                        continue
                    else:
                        numbers = [abs(int(x)) for x in columns[own].to_pylist()]
                    most = box * (statistic.get("rows") or 1)
                    assert max(numbers) <= most, (own, value, rows, max(numbers), most)
                    counted[own] = numbers
                    moved.append((own, numbers))
                if moved:
                    check_all_groups(part, statistic, moved, limits)


def check_ball(statistic: dict[str, Any], groups: list[list[Any]]) -> None:
    radius = statistic["radius"] * (statistic["rows"] or 1)
    for group in groups:
        sizes = [abs(int(x)) for x in group]
        long = {"l1": sum(sizes), "l2": sum(x * x for x in sizes), "linf": max(sizes)}[statistic["ball"]]
        assert long <= (radius**2 if statistic["ball"] == "l2" else radius)


def check_all_groups(part: dict[str, Any], statistic: dict[str, Any], moved: Any, limits: Any) -> None:
    """Both norms of what is added to all groups are within their limits, and as many groups are moved."""
    scales = {own: Fraction(max(1, int(box))) for own, box in boxes(statistic)}
    own = shift(statistic, scales)
    if part["groups"]["beyond"] == "sample":
        groups = sum(any(numbers[i] for _, numbers in moved) for i in range(len(moved[0][1])))
        assert groups <= limits.groups
    l1 = sum(Fraction(n) / scales[name] for name, numbers in moved for n in numbers)
    l2 = sum((Fraction(n) / scales[name]) ** 2 for name, numbers in moved for n in numbers)
    shared = part["groups"]["beyond"] == "share"  # which is certified with Gaussian noise alone
    assert (shared or l1 <= limits.laplace([own]).pure) and l2 <= limits.l2([own]), statistic["kind"]
