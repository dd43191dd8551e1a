"""The loss of whole plans, recomputed from their explanation alone: within the budget, and not by much.

Nothing of the package's own sensitivities or accounting is used: the explanation names what each
number is, its bounds, its step and its noise; the rest is worked out here.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, groupby
from typing import Any

import mpmath
import pyarrow as pa
import pytest

import sfumato as sf

ROWS = pa.table(
    {"id": [1], "g": ["a"], "x": pa.array([1.0], pa.float64()), "y": pa.array([2.0], pa.float64()), "n": [1]},
    schema=pa.schema([("id", pa.int64()), ("g", pa.string()), ("x", pa.float64()), ("y", pa.float64()),
                      pa.field("n", pa.int64(), nullable=False)]),
)  # fmt: skip

QUESTIONS: dict[str, dict[str, Any]] = {
    "count": dict(n=sf.count()),
    "people": dict(u=sf.count_units()),
    "count and people": dict(n=sf.count(), u=sf.count_units()),
    "mean": dict(m=sf.mean("x", lower=-3, upper=30)),
    "mean of complete values": dict(m=sf.mean("n", lower=0, upper=30)),
    "variance": dict(v=sf.variance("x", lower=0, upper=1)),
    "sum": dict(s=sf.sum("n", lower=-7, upper=3), t=sf.sum("x", lower=5, upper=6)),
    "quantiles": dict(q=sf.quantiles("x", [0.1, 0.9], lower=0, upper=1)),
    "all": dict(
        n=sf.count(), u=sf.count_units(), v=sf.variance("x", lower=0, upper=30), m=sf.mean("y", lower=-1, upper=1),
        s=sf.sum("n", lower=-7, upper=3), q=sf.quantiles("y", 0.5, lower=0, upper=1), c=sf.count("x"),
    ),
}  # fmt: skip


def told_of(asked: str, groups: int, rows: int, private: bool, **options: Any) -> dict[str, Any]:
    """Return the explanation of a plan."""
    keys = {} if private else {"keys": [str(i) for i in range(groups)]}
    limited = sf.scan(ROWS, privacy_unit="id").group_by("g", **keys).bound(groups=groups, rows=rows)
    return limited.agg(**QUESTIONS[asked]).plan(**options).explain().to_dict()


def changes(told: dict[str, Any]) -> list[list[tuple[Fraction, Fraction]]]:
    """For each statistic, extreme contributions of a unit to a group: (change/scale of each coordinate).

    One list for each statistic of alternatives, each a tuple of ratios.
    """
    rows = told["limits"]["rows_per_unit_and_group"]
    found = []
    for label, numbers in groupby(told["statistics"], key=_label):
        parts = {n["name"].rpartition(".")[2]: n for n in numbers}
        ratio = {
            k: Fraction(p["largest_contribution"]) / Fraction(p["noise_scale"]) for k, p in parts.items()
        }
        if "squares" in parts:
            found.append(_with_squares(parts, rows))
        elif "null_count" in parts:
            found.append([(ratio["sum"],), (ratio["null_count"],)])
        elif "tree" in parts:
            found.append([(ratio["tree"],) * 4])
        else:
            assert len(parts) == 1, label
            found.append([tuple(ratio.values())])
    return found


def _label(number: dict[str, Any]) -> str:
    head, _, last = number["name"].rpartition(".")
    return head if last in ("sum", "null_count", "squares") else number["name"]


def _with_squares(parts: dict[str, Any], rows: int) -> list[tuple[Fraction, ...]]:
    """Alternatives of a column's rows: a missing value, or any value between the bounds.

    Squares are counted from a shift c, of which the explanation tells the larger of c and L - c.
    """
    value, square = parts["sum"], parts["squares"]
    half = Fraction(value["upper"] - value["lower"]) / 2 / Fraction(value["step"])
    scale, square_scale = Fraction(value["noise_scale"]), Fraction(square["noise_scale"])
    coarse = Fraction(square["step"]) / Fraction(value["step"]) ** 2
    largest = half**2 / coarse
    shift = Fraction(square["largest_contribution"]) / rows
    points = [half * i / 400 for i in range(401)]
    found = [(rows * x / scale, rows * abs(x**2 / coarse - shift) / square_scale) for x in points]
    assert shift <= largest + 1
    if "null_count" in parts:
        found.append(
            (
                Fraction(parts["null_count"]["largest_contribution"])
                / Fraction(parts["null_count"]["noise_scale"]),
            )
        )
    return found


@pytest.fixture(autouse=True)
def digits():
    """What mpmath computes with, in this module alone."""
    with mpmath.workdps(60):
        yield


def gaussian_delta(epsilon: Fraction, mu: Any) -> Any:
    """Balle and Wang 2018, theorem 8."""
    eps = mpmath.mpf(epsilon.numerator) / epsilon.denominator
    return mpmath.ncdf(mu / 2 - eps / mu) - mpmath.exp(eps) * mpmath.ncdf(-mu / 2 - eps / mu)


def joined(told: dict[str, Any]) -> Fraction:
    """What selection may fail with, over all groups of a unit."""
    selection = told["selection"]
    if selection is None:
        return Fraction(0)
    each = Fraction(selection["delta_per_group"])
    return 1 - (1 - each) ** told["limits"]["groups_per_unit"]


def in_common(told: dict[str, Any]) -> dict[str, Fraction]:
    """Of each number the scale of the noise that groups have in common, where there is one."""
    numbers = told["statistics"]
    return {
        n["name"]: Fraction(n["noise_scale_in_common"])
        for n in numbers
        if n.get("noise_scale_in_common", "0") != "0"
    }


def farthest(told: dict[str, Any]) -> Fraction:
    """The square of the farthest that a unit moves all numbers, by the covariance of their noise.

    It is in some of its groups, which are all that there are, with one row of those that are allowed, or more.
    """
    groups, rows = told["limits"]["groups_per_unit"], told["limits"]["rows_per_unit_and_group"]
    common = in_common(told)
    parts = [max(sum(r * r for r in option) for option in s) for s in changes(told)]
    if not common:
        return groups * sum(parts)
    numbers = [n for n in told["statistics"] if n["name"] in common]
    ratio = {n["name"]: Fraction(n["largest_contribution"]) / Fraction(n["noise_scale"]) for n in numbers}
    shared = {n["name"]: common[n["name"]] / Fraction(n["noise_scale"]) for n in numbers}
    beside = sum(parts) - sum(r * r for r in ratio.values())
    every = sum(s * s for s in shared.values())

    def state(share: Fraction) -> tuple[Fraction, Fraction]:
        part = {n: 1 if n == "units" else share for n in ratio}
        own = sum((part[n] * ratio[n]) ** 2 for n in ratio) + share**2 * beside
        return own, sum(part[n] * ratio[n] * shared[n] for n in ratio)

    states = [(Fraction(0), Fraction(0)), *(state(Fraction(i, rows)) for i in range(1, rows + 1))]
    found = []
    for chosen in combinations_with_replacement(states, groups):
        own, along = (sum(values) for values in zip(*chosen, strict=True))
        found.append(own - along**2 / (1 + groups * every))
    return max(found)


def fraction(x: Fraction) -> Any:
    return mpmath.mpf(x.numerator) / x.denominator


def noise_of_units(told: dict[str, Any]) -> Fraction:
    return Fraction(next(s["noise_scale"] for s in told["statistics"] if s["name"] == "units"))


CASES = [
    pytest.param(
        asked, *limits, marks=[pytest.mark.long] * (asked not in ("mean", "all") or limits == (1, 1))
    )
    for asked in QUESTIONS
    for limits in ((1, 1), (4, 3))
]


@pytest.mark.parametrize(("asked", "groups", "rows"), CASES)
def test_gaussian_noise_meets_its_budget_and_no_more(asked, groups, rows):
    for epsilon, delta in ((1, "1e-6"), ("0.1", "1e-9"), (8, "1e-2")):
        told = told_of(asked, groups, rows, False, epsilon=epsilon, delta=delta, noise="gaussian")
        mu = mpmath.sqrt(fraction(farthest(told)))
        eps, dlt = Fraction(epsilon), mpmath.mpf(delta)
        assert gaussian_delta(eps, mu) <= dlt
        # With a part in common a whole number of groups may be less far than what is between two of them.
        more = "1.04" if in_common(told) else "1.01"
        assert gaussian_delta(eps, mu * mpmath.mpf(more)) > dlt
        assert abs(sum(s["share"] for s in told["statistics"]) - 1) < 1e-9


@pytest.mark.parametrize(("asked", "groups", "rows"), CASES)
def test_gaussian_noise_beside_a_threshold(asked, groups, rows):
    """Selection takes half of delta; the noise is calibrated to what is left."""
    options = {"epsilon": 1, "delta": "1e-6", "noise": "gaussian", "group_selection": "gaussian"}
    told = told_of(asked, groups, rows, True, **options)
    assert told["selection"]["rule"] == "gaussian_threshold"
    square = groups * sum(max(sum(r * r for r in option) for option in s) for s in changes(told))
    mu, failure = mpmath.sqrt(fraction(square)), joined(told)
    assert Fraction("0.49e-6") < failure <= Fraction("0.5e-6")
    rest = mpmath.mpf("1e-6") - fraction(failure)
    assert gaussian_delta(Fraction(1), mu) <= rest < gaussian_delta(Fraction(1), mu * mpmath.mpf("1.01"))
    reach = (mpmath.mpf(told["selection"]["threshold"]) - mpmath.mpf(3) / 2) / fraction(noise_of_units(told))
    each = Fraction(told["selection"]["delta_per_group"])
    assert mpmath.ncdf(-reach) <= fraction(each)  # a lone unit, with its noise rounded


@pytest.mark.parametrize(("asked", "groups", "rows"), CASES)
def test_laplace_noise_sums_to_its_budget_also_beside_a_threshold(asked, groups, rows):
    beside = {"delta": "1e-6", "group_selection": "laplace"}
    for epsilon, private, options in (
        (1, False, {}),
        ("0.01", False, {}),
        (20, False, {}),
        (1, True, beside),
    ):
        told = told_of(asked, groups, rows, private, epsilon=epsilon, noise="laplace", **options)
        total = groups * sum(max(sum(option) for option in s) for s in changes(told))
        # Where all of delta goes to selection, the noises' epsilons sum to the budget.
        assert Fraction(99, 100) * Fraction(epsilon) <= total <= Fraction(epsilon)
        if private:
            assert joined(told) <= Fraction("1e-6")
            reach = (Fraction(told["selection"]["threshold"]) - Fraction(3, 2)) / noise_of_units(told)
            each = Fraction(told["selection"]["delta_per_group"])
            assert mpmath.exp(-fraction(reach)) / 2 <= fraction(each)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("groups", [1, 3])
def test_the_truncated_geometric_rule_is_paid_for(noise, groups):
    """Its epsilons add to those of the noise; its delta is within the budget, and both are above zero."""
    options = {"epsilon": 1, "delta": "1e-6", "group_selection": "truncated_geometric"}
    told = told_of("count", groups, 1, True, noise=noise, **options)
    assert joined(told) <= Fraction("1e-6")
    own, ratios = Fraction(told["selection"]["epsilon_per_group"]) * groups, changes(told)
    if noise == "laplace":
        of_noise = groups * sum(max(sum(option) for option in s) for s in ratios)
        assert own < 1 and of_noise < 1 and own + of_noise >= Fraction(99, 100)
    else:
        mu = mpmath.sqrt(
            fraction(groups * sum(max(sum(r * r for r in option) for option in s) for s in ratios))
        )
        # At best the rule loses all of its epsilon one way; the rest is the Gaussian's.
        assert gaussian_delta(Fraction(1) + own, mu) <= mpmath.mpf("1e-6") - fraction(joined(told))
