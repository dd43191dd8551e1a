"""Diagnostics report how far limits and bounds shift each output: against exact numbers, with error bars that hold."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.guidance.diagnosis_plan import diagnosis
from sfumato.guidance.shifts import NoisyValues, make_shift_formula
from sfumato.noise import Laplace

EXACT = 10**6  # an epsilon at which no noise is left
STILL = pytest.mark.noise_cannot_matter("at epsilon 1,000,000 it moves no shift by 1/500")
P = 1_500
RNG = np.random.default_rng(3)
SIZES = RNG.integers(1, 11, P)
ID = np.repeat(np.arange(P), SIZES)
TOWN = np.concatenate([RNG.permutation(10)[:n] for n in SIZES])
X = np.round(RNG.exponential(6, len(ID)), 3) + ID % 5
MISSING = RNG.random(len(ID)) < 0.1


def people():
    x = pa.array(X, mask=MISSING)
    table = {"id": ID, "town": TOWN, "x": x, "yes": pa.array(X > 6, mask=MISSING)}
    return sf.scan(pa.table(table), privacy_unit="id")


def shifts(question, epsilon=EXACT, confidence=0.95):
    return {one.output: one for one in question.diagnose(epsilon=epsilon).shifts(confidence)}


def by_town(**asked):
    return people().group_by("town", keys=list(range(10))).bound(groups=2, rows=1).agg(**asked)


# Of several rows of a person in a town one counts, and of several towns two.
AGAIN = np.repeat(np.arange(len(ID)), RNG.integers(1, 4, len(ID)))
WHO, WHERE = ID[AGAIN], TOWN[AGAIN]
HOME = WHO * 10 + WHERE
N_HOME = np.bincount(HOME, minlength=10 * P)
KEPT = np.minimum(1, 2 / SIZES[WHO]) / N_HOME[HOME]
A = np.round(RNG.exponential(6, len(WHO)) + WHO % 5, 2)
B = np.round(A / 2 + RNG.normal(2, 3, len(WHO)) + SIZES[WHO] / 4, 2)
NONE = RNG.random(len(WHO)) < 0.1
A_HERE = ~NONE
SORT = RNG.integers(0, 4, len(WHO)) + (SIZES[WHO] > 6)
YES = (A + SIZES[WHO] > 9).astype(bool)
V = RNG.normal(0.3, 1, (len(WHO), 3)) * (1 + SIZES[WHO][:, None] / 5)
HEAVY = np.round(RNG.exponential(2, len(WHO)), 2)
CODES = np.array(["a", "b", "it's", "d", "e"])[SORT]


def wide(values, lower, upper):
    return np.clip(values, 2 * lower - upper, 2 * upper - lower)


def rows_of_towns():
    table = pa.table(
        {
            "id": WHO,
            "town": WHERE,
            "a": pa.array(A, mask=NONE),
            "b": B,
            "sort": CODES,
            "yes": YES,
            "w": HEAVY,
            "v": pa.array(list(V), pa.list_(pa.float64())),
        }
    )
    return sf.scan(table, privacy_unit="id")


def both(statistic, values, lower, upper, weights=None, most=3):
    """A statistic of weights and values: with limits and bounds, and without."""
    light, heavy = (1, 1) if weights is None else (np.clip(weights, 0, most), np.clip(weights, 0, 2 * most))
    return (
        statistic(KEPT * light, np.clip(values, lower, upper)),
        statistic(np.ones(len(KEPT)) * heavy, wide(values, lower, upper)),
    )


def of_known(statistic):
    return lambda w, x: statistic(w[A_HERE], x[A_HERE])


def mean_of(w, x):
    return np.average(x, weights=w)


def variance_of(w, x):
    return mean_of(w, x**2) - mean_of(w, x) ** 2


def covariance_of(w, x, y):
    return mean_of(w, x * y) - mean_of(w, x) * mean_of(w, y)


def pairs_of(statistic):
    """A statistic of two columns: with limits and bounds, and without."""
    w = A_HERE
    return (
        statistic(KEPT[w], np.clip(A, 0, 12)[w], np.clip(B, 0, 8)[w]),
        statistic(np.ones(w.sum()), wide(A, 0, 12)[w], wide(B, 0, 8)[w]),
    )


def line_of(w, x, y):
    slope = covariance_of(w, x, y) / covariance_of(w, x, x)
    return np.array([mean_of(w, y) - slope * mean_of(w, x), slope])


def correlation_of(w, x, y):
    return covariance_of(w, x, y) / np.sqrt(covariance_of(w, x, x) * covariance_of(w, y, y))


def less(two):
    return two[0] - two[1]


def part(two):
    return two[0] / two[1] - 1


def in_bins(places, count):
    return np.array([KEPT[places == j].sum() / (places == j).sum() - 1 for j in range(count)])


def of_homes(values):
    """The sum of what each person has in each town."""
    return np.bincount(HOME, weights=values, minlength=10 * P)


def homes_in_bins(places, count):
    shares = np.stack([of_homes(places == j) for j in range(count)]) / np.maximum(N_HOME, 1)
    home = np.repeat(np.minimum(1, 2 / SIZES), 10)
    return (home * shares).sum(axis=1) / shares.sum(axis=1) - 1


def lengths(v, bound):
    size = np.sqrt((v**2).sum(axis=1))
    return np.minimum(size, bound), np.minimum(size, 2 * bound)


AGES = np.searchsorted([2, 5, 10, 20], A, side="right") - 1
SHORT, LONG = lengths(V, 1.5)
SUMS = np.stack([of_homes(V[:, i]) for i in range(3)], axis=1)
SHORT_SUMS, LONG_SUMS = lengths(SUMS, 4)
BOUNDS = {"a": (0, 12), "b": (0, 8)}

STATISTICS = {
    "people": (sf.count_units(), np.minimum(SIZES, 2).sum() / SIZES.sum() - 1),
    "rows": (sf.count(), KEPT.mean() - 1),
    "mean": (sf.mean("a", lower=0, upper=12), less(both(of_known(mean_of), A, 0, 12))),
    "proportion": (sf.proportion("yes"), less((mean_of(KEPT, YES), YES.mean()))),
    "rows with a value": (sf.count("a"), part((KEPT[A_HERE].sum(), A_HERE.sum()))),
    "sum from below zero": (
        sf.sum("b", lower=-1, upper=8, per="row"),
        part(both(lambda w, x: (w * x).sum(), B, -1, 8)),
    ),
    "variance": (sf.variance("a", lower=0, upper=12), less(both(of_known(variance_of), A, 0, 12))),
    "deviation": (
        sf.stddev("b", lower=0, upper=8),
        less(both(lambda w, x: np.sqrt(variance_of(w, x)), B, 0, 8)),
    ),
    "covariance": (sf.covariance("a", "b", bounds=BOUNDS), less(pairs_of(covariance_of))),
    "correlation": (sf.correlation("a", "b", bounds=BOUNDS), less(pairs_of(correlation_of))),
    "regression": (sf.linear_regression("b", ["a"], bounds=BOUNDS), less(pairs_of(line_of))),
    "weighted count": (
        sf.count(weight="w", max_weight=3),
        part(both(lambda w, x: w.sum(), B, 0, 8, HEAVY)),
    ),
    "weighted sum": (
        sf.sum("b", lower=1, upper=8, weight="w", max_weight=3),
        part(both(lambda w, x: (w * x).sum(), B, 1, 8, HEAVY)),
    ),
    "weighted mean": (
        sf.mean("a", lower=0, upper=12, weight="w", max_weight=3),
        less(both(of_known(mean_of), A, 0, 12, HEAVY)),
    ),
    "histogram": (
        sf.histogram("a", [2, 5, 10, 20], outside="count"),
        in_bins(np.where(NONE, -1, AGES + 1), 5),
    ),
    "values": (sf.value_counts("sort", ["it's", "b"], other=True), in_bins(
        np.select([CODES == "it's", CODES == "b"], [0, 1], 2), 3)),
    "people by value": (
        sf.value_counts("sort", ["it's", "b"], other=True, per="unit"),
        homes_in_bins(np.select([CODES == "it's", CODES == "b"], [0, 1], 2), 3),
    ),
    "shares": (
        sf.value_counts("sort", ["e", "b"], shares=True),
        np.array([
            KEPT[c == CODES].sum() / KEPT[np.isin(CODES, ["e", "b"])].sum()
            - (c == CODES).sum() / np.isin(CODES, ["e", "b"]).sum()
            for c in ("e", "b")
        ]),
    ),
    "weights by value": (
        sf.value_counts("sort", ["e", "b"], weight="w", max_weight=3),
        np.array([
            (KEPT * np.clip(HEAVY, 0, 3))[c == CODES].sum() / np.clip(HEAVY, 0, 6)[c == CODES].sum() - 1
            for c in ("e", "b")
        ]),
    ),
    "sum of vectors": (
        sf.vector_sum("v", length=3, bound=4),
        part(((np.repeat(np.minimum(1, 2 / SIZES), 10) * SHORT_SUMS).sum(), LONG_SUMS.sum())),
    ),
    "vectors of rows": (
        sf.vector_sum("v", length=3, bound=1.5, per="row"),
        part(((KEPT * SHORT).sum(), LONG.sum())),
    ),
    "mean of vectors": (
        sf.vector_mean("v", length=3, bound=1.5),
        part((np.average(SHORT, weights=KEPT), LONG.mean())),
    ),
}  # fmt: skip


RELATIVE = {
    name for name in STATISTICS if name.split(" ")[0] in ("people", "rows", "sum", "histogram", "values")
}
RELATIVE |= {"weighted count", "weighted sum", "weights by value", "vectors of rows", "mean of vectors"}


@pytest.fixture
def all_rows(monkeypatch):
    monkeypatch.setattr("sfumato.guidance.contribution_distribution.ENOUGH", 1.0)


def in_two_towns(**asked):
    towns = rows_of_towns().group_by("town", keys=list(range(10)))
    return towns.bound(groups=2, rows=1, beyond="sample").agg(**asked)


@STILL
@pytest.mark.parametrize(
    "names",
    [
        ["people", "rows", "mean", "variance", "sum from below zero", "values"],
        *(pytest.param(list(STATISTICS)[i::3], marks=pytest.mark.long) for i in range(3)),
    ],
    ids=lambda names: f"{len(names)} {names[0]}",
)
def test_every_statistic_has_its_shift(names, all_rows):
    asked = {f"it{i}": STATISTICS[name][0] for i, name in enumerate(names)}
    found = shifts(in_two_towns(**asked))
    assert list(found) == [output for name, one in asked.items() for output in one.outputs(name)]
    for (output, one), name in zip(asked.items(), names, strict=True):
        exact = np.atleast_1d(STATISTICS[name][1])
        got = np.array([found[it].shift for it in one.outputs(output)])
        assert got == pytest.approx(exact, abs=5e-3), (name, got, exact)
        assert np.abs(exact).max() > 0.02, "nothing is shifted"
        assert found[one.outputs(output)[0]].relative == (name in RELATIVE)
    assert all(one.half_width < 0.05 for one in found.values())


def quantile_of(values, rank, weights):
    order = np.argsort(values)
    return values[order][np.searchsorted(np.cumsum(weights[order]), rank * weights.sum())]


def quantile_shift(x, rank, lower, upper, kept=KEPT):
    """How far the quantile of clamped values that count is from that of all values."""
    limited = quantile_of(np.clip(x, lower, upper), rank, kept)
    return limited - quantile_of(wide(x, lower, upper), rank, np.ones(len(x)))


@pytest.mark.long
@STILL
def test_quantiles_have_a_shift_of_their_value(all_rows):
    found = shifts(
        in_two_towns(
            q=sf.quantiles("b", [0.25, 0.5, 0.9], lower=0, upper=6), low=sf.median("b", lower=12, upper=20)
        )
    )
    exact = {f"q_{100 * rank:g}": quantile_shift(B, rank, 0, 6) for rank in (0.25, 0.5, 0.9)}
    exact["low"] = quantile_shift(B, 0.5, 12, 20)
    assert exact["q_90"] < -1, "the bounds end below the quantile"
    assert exact["low"] > 1, "the bounds begin above the quantile"
    assert abs(exact["q_25"]) > 0.2, "the limit of groups shifts it"
    for name, shift in exact.items():
        width = 8 if name == "low" else 6
        assert found[name].shift == pytest.approx(shift, abs=width / 160), name  # half of a bin
        assert abs(found[name].shift - shift) <= found[name].half_width <= width / 30
        assert found[name].of == "value" and not found[name].relative


@STILL
def test_distinct_values_have_the_shift_of_a_larger_limit(all_rows):
    rng = np.random.default_rng(8)
    who = np.repeat(np.arange(600), 6)
    words = who * 6 + np.tile(np.arange(6), 600)
    words = np.where(rng.random(len(who)) < 0.5, words, words % 50)
    table = sf.scan(pa.table({"id": who, "word": words}), privacy_unit="id")
    (found,) = table.agg(d=sf.count_distinct("word", values=2)).diagnose(epsilon=EXACT).shifts()
    alone = np.minimum(np.bincount(who, weights=words >= 50), 2).sum()
    exact = (alone + min(50, 2 * 600 - alone)) / len(np.unique(words)) - 1
    assert found.relative
    assert found.shift == pytest.approx(exact, abs=0.02)


@pytest.mark.noise_cannot_matter("nothing is drawn")
def test_everything_that_is_asked_for_shifts_adds_up_to_the_budget():
    asked = {
        "v": sf.variance("b", lower=0, upper=8),
        "q": sf.median("b", lower=0, upper=8),
        "h": sf.value_counts("sort", ["a", "b"]),
        "d": sf.count_distinct("sort", values=2),
    }
    question = in_two_towns(**asked)
    made = diagnosis(question.table, question.plan(epsilon=1), Fraction(60))
    plans = [made.contributions, made.matched[1], made.shares(7), *made.numbers(7)]
    plans.append(made.distinct(dict.fromkeys(made.request.distinct, 5)))
    assert sum(plan.epsilon for plan in plans) == 60
    assert all(plan.spent[0] <= plan.epsilon and plan.delta == 0 for plan in plans)


def limited_rows(most):
    """The part of each row, and of each unit in a town, that is left of a choice of so many rows of a unit."""
    rows = np.bincount(WHO)[WHO]
    part = np.minimum(1, most / rows)
    here = N_HOME[HOME]
    none = np.ones(len(WHO))
    for k in range(most):  # one row after another is chosen, and is of no such town
        none *= np.clip(rows - here - k, 0, None) / np.maximum(rows - k, 1)
    return part, np.where(rows <= most, 1, 1 - none)


@pytest.mark.long
@STILL
def test_units_and_their_sums_with_a_limit_of_rows_in_all(all_rows):
    table = rows_of_towns().group_by("town", keys=list(range(10))).bound(total_rows=3)
    asked = {"people": sf.count_units(), "n": sf.count(), "s": sf.sum("b", lower=-1000, upper=1000)}
    found = shifts(table.agg(**asked))
    part, survives = limited_rows(3)
    each = 1 / N_HOME[HOME]
    assert found["people"].shift == pytest.approx((survives * each).sum() / each.sum() - 1, abs=5e-3)
    assert found["n"].shift == pytest.approx(part.mean() - 1, abs=5e-3)
    # No sum is beyond the bounds, so that what is chosen adds up to its part on average.
    assert found["s"].shift == pytest.approx((part * B).sum() / B.sum() - 1, abs=0.03)
    assert found["people"].shift - found["n"].shift > 0.03


@pytest.mark.long
@STILL
@pytest.mark.parametrize("entries", [65, pytest.param(4_096, marks=pytest.mark.long)])
def test_vectors_of_any_length_have_their_shift(entries, all_rows):
    size = 100 if entries == 4_096 else 300
    who = np.repeat(np.arange(size), 3)
    vectors = RNG.normal(0.01, 1, (len(who), entries)) * RNG.exponential(1, (len(who), 1))
    odd = RNG.random(len(who))
    vectors[odd < 0.1, entries // 2] = np.nan  # no vectors
    vectors[odd > 0.95, 0] = np.inf  # whose length is clamped
    table = pa.table({"id": who, "v": pa.array(list(vectors), pa.list_(pa.float64()))})
    there = ~np.isnan(vectors).any(axis=1)
    norms = {"l1": np.abs(vectors).sum(axis=1), "linf": np.abs(vectors).max(axis=1)}
    norms["l2"] = np.sqrt((vectors**2).sum(axis=1))
    bounds = {name: float(np.median(one[there & np.isfinite(one)])) for name, one in norms.items()}
    asked, exact = dict[str, object](), dict[str, float]()
    for norm, bound in bounds.items():
        made = {"length": entries, "bound": bound, "norm": norm}
        short, long = (np.minimum(norms[norm][there], most * bound) for most in (1, 2))
        asked |= {
            f"row_{norm}": sf.vector_sum("v", per="row", **made),
            f"mean_{norm}": sf.vector_mean("v", **made),
        }
        exact |= dict.fromkeys((f"row_{norm}", f"mean_{norm}"), short.sum() / long.sum() - 1)
    sums = np.where(there[:, None], vectors, 0).reshape(size, 3, entries).sum(axis=1)
    unit = np.sqrt((sums**2).sum(axis=1))
    asked["unit"] = sf.vector_sum("v", length=entries, bound=bounds["l2"])
    exact["unit"] = np.minimum(unit, bounds["l2"]).sum() / np.minimum(unit, 2 * bounds["l2"]).sum() - 1
    made = sf.scan(table, privacy_unit="id").bound(rows=3).agg(**asked).diagnose(epsilon=EXACT)
    found = {one.output: one for one in made.shifts()}
    assert found.keys() == exact.keys()
    for name, shift in exact.items():
        assert found[name].shift == pytest.approx(shift, abs=5e-3), name
        assert found[name].of == "length" and abs(shift) > 0.1, name
    assert not any("is not estimated" in one for one in made.sentences())


def test_a_bar_holds_where_all_of_its_sums_do():
    laws, steps = ({name: one for name in "ab"} for one in (Laplace(1000), 1e-3))
    noisy = NoisyValues({"a": 5.0, "b": 3.0}, laws, steps)
    found = make_shift_formula("v", [[{"a": 1.0}], [{"b": 1.0}]], lambda sums, _: sums[0]).shift(noisy, 0.95)
    # Each of both has a noise of scale 1, which is farther than t with a chance of exp(-t), here a half of 5%.
    assert found.shift == 2 and found.half_width == pytest.approx(2 * math.log(1 / 0.025), abs=3e-3)


@pytest.mark.long
@pytest.mark.flakiness(k=11, because="a binomial tail of 1.1e-13 for each of seven outputs")
def test_error_bars_hold():
    asked = {
        "v": sf.variance("x", lower=1, upper=8),
        "q": sf.quantile("x", 0.7, lower=1, upper=8),
        "h": sf.histogram("x", [0, 99]),
        "n": sf.count(),
        "m": sf.mean("x", lower=1, upper=8),
        "s": sf.sum("x", lower=1, upper=8, per="row"),
        "people": sf.count_units(),
    }
    exact = {name: one.shift for name, one in shifts(by_town(**asked)).items()}
    missed = dict.fromkeys(exact, 0)
    for _ in range(30):
        for name, one in shifts(by_town(**asked), epsilon=1, confidence=0.95).items():
            missed[name] += abs(one.shift - exact[name]) > one.half_width + 2e-3
    # Of 30 bars that fail with probability 0.05 at most, more than 15 do with one of 1.1e-13.
    assert max(missed.values()) <= 15
