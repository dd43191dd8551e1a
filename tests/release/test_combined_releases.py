"""Releases that are combined, compared and read back: values, errors, and what is refused."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import EngineError, ParameterError, QueryError, SfumatoError
from sfumato.noise.k_norm import Cone, JointNoise, SeparateNoise
from sfumato.noise.k_norm.joint_marginals import marginals
from sfumato.noise.laws import Gaussian, Laplace
from sfumato.release.estimate_table import TAILS, EstimateTable, Source, deviations

EXACT = pytest.mark.noise_cannot_matter("what is computed of noisy numbers is computed once more")
TOWNS = ["Bonn", "Köln", "Ulm"]
ROWS = pa.table({"id": range(900), "town": TOWNS * 300, "x": [1.0, 4.0, 8.0] * 300})


def people(rows: pa.Table = ROWS, keys: object = TOWNS) -> sf.Table:
    return sf.scan(rows, privacy_unit="id").group_by("town", keys=keys).bound(groups=1, rows=1)


def release(epsilon: float = 1, keys: object = TOWNS, **asked: object) -> sf.Release:
    noise = asked.pop("noise", "auto")
    asked = asked or {"n": sf.count(), "m": sf.mean("x", lower=0, upper=10)}
    return people(keys=keys).agg(**asked).release(epsilon=epsilon, noise=noise, delta=1e-6)


def estimates(
    values: list[float], errors: list[float], keys: object = None, step: float = 0.0
) -> EstimateTable:
    """Estimates of one output with these numbers."""
    own = keys if isinstance(keys, pa.Table) else pa.table({"g": pa.array(keys or range(len(values)))})
    numbers = {"n": np.array(values)}, {"n": np.array(errors)}, {"n": np.full(len(values), step)}
    return EstimateTable(own, *numbers, TAILS[0], (), (Source(uuid4().hex, "a"),))


def rows(table: EstimateTable) -> list[tuple[object, ...]]:
    both = zip(table.to_arrow().to_pylist(), table.errors(kind="standard")["n"].to_pylist(), strict=True)
    return [(*row.values(), error) for row, error in both]


# Combinations.


def test_estimates_are_weighted_by_their_inverse_variances():
    made = sf.combine([estimates([10.0, 0.0], [1.0, 3.0]), estimates([20.0, 6.0], [2.0, 3.0])])
    assert rows(made) == [(0, pytest.approx(12.0), pytest.approx(math.sqrt(0.8))), (1, 3.0, math.sqrt(4.5))]
    third = sf.combine([made, estimates([12.0, 3.0], [1.0, 1.0])])
    at_once = sf.combine(
        [
            estimates([10.0, 0.0], [1.0, 3.0]),
            estimates([20.0, 6.0], [2.0, 3.0]),
            estimates([12.0, 3.0], [1.0, 1.0]),
        ]
    )
    assert third["n"] == pytest.approx(at_once["n"])
    assert third.errors(kind="standard")["n"].to_pylist() == pytest.approx(
        at_once.errors(kind="standard")["n"].to_pylist()
    )
    # Of Gaussian noise, exactly.
    assert made.errors(0.95)["n"][0].as_py() == pytest.approx(1.959964 * math.sqrt(0.8))
    assert made.errors(0.9, simultaneous=True)["n"][0].as_py() == pytest.approx(1.959964 * math.sqrt(0.8))


@EXACT
@pytest.mark.parametrize("noise", ["laplace", "gaussian", "k_norm"])
def test_releases_are_combined_by_group(noise):
    parts = [release(epsilon, noise=noise) for epsilon in (1, 2)]
    made = sf.combine(parts)
    assert made["town"] == TOWNS
    for name in ("n", "m"):
        values = np.array([part[name] for part in parts], float)
        errors = np.array([part.errors(kind="standard")[name].to_pylist() for part in parts])
        weights = errors**-2 / (errors**-2).sum(axis=0)
        assert made[name] == pytest.approx((weights * values).sum(axis=0))
        found = np.array(made.errors(kind="standard")[name].to_pylist())
        assert found == pytest.approx(np.sqrt(1 / (errors**-2).sum(axis=0)))
        assert (found < errors.min(axis=0)).all()
    assert f"{made:}".startswith("Combined estimates\n\ntown") and "contribution limits" in str(made)


def test_a_group_that_stands_in_one_release_is_as_there():
    one = estimates([1.0, 2.0], [1.0, 1.0], ["a", None])
    other = estimates([5.0, 6.0], [1.0, 2.0], ["b", None])
    assert rows(sf.combine([one, other])) == [
        ("a", 1.0, 1.0),
        (None, pytest.approx(2.8), pytest.approx(math.sqrt(0.8))),
        ("b", 5.0, 1.0),
    ]
    assert rows(sf.change(one, other)) == [("a", None, None), (None, 4.0, math.sqrt(5)), ("b", None, None)]


def test_estimates_without_a_standard_error_have_no_weight():
    nan = math.nan
    made = sf.combine(
        [estimates([1.0, 2.0, 3.0], [1.0, nan, nan]), estimates([5.0, 7.0, 9.0], [nan, 2.0, nan])]
    )
    assert rows(made) == [(0, 1.0, 1.0), (1, 7.0, 2.0), (2, None, None)]
    exactly = sf.combine([estimates([1.0], [0.0]), estimates([5.0], [1.0])])
    assert rows(exactly) == [(0, 1.0, 0.0)]


@EXACT
def test_empty_releases_and_releases_of_one_number():
    rare = pa.table({"id": [1, 2], "town": ["a", "b"]})
    asked = people(rare, None).agg(n=sf.count_units())
    empty = [asked.release(epsilon=1, delta=1e-9) for _ in range(2)]
    assert len(sf.combine(empty)) == 0 == len(sf.change(*empty))
    alone = sf.scan(ROWS, privacy_unit="id").agg(n=sf.count_units())
    both = sf.combine([alone.release(epsilon=1) for _ in range(2)])
    assert both.to_arrow().column_names == ["n"]
    assert both.errors(1 - 2**-53)["n"][0].as_py() > both.errors(0.999)["n"][0].as_py()
    made = sf.combine([empty[0], release(n=sf.count_units())])
    assert made["town"] == TOWNS


def test_keys_are_compared_by_value():
    one = estimates([1.0, 2.0], [1.0, 1.0], pa.table({"g": pa.array([math.nan, -0.0])}))
    other = estimates([3.0, 4.0], [1.0, 1.0], pa.table({"g": pa.array([0.0, math.nan], pa.float32())}))
    assert [row[1] for row in rows(sf.combine([one, other]))] == [2.5, 2.5]
    texts = pa.array(["a", "b"])
    one = estimates([1.0, 2.0], [1.0, 1.0], pa.table({"g": texts.dictionary_encode()}))
    assert len(sf.combine([one, estimates([1.0, 2.0], [1.0, 1.0], pa.table({"g": texts}))])) == 2
    narrow = pa.table({"g": pa.array([0, 1], pa.int8())})
    assert (
        len(sf.combine([estimates([1.0, 2.0], [1.0, 1.0], narrow), estimates([1.0, 2.0], [1.0, 1.0])])) == 2
    )


# Changes.


def test_changes_have_the_noise_of_both():
    before, after = estimates([10.0, 4.0], [1.0, 1.0]), estimates([12.0, 6.0], [1.0, 1.0])
    assert rows(sf.change(before, after)) == [(0, 2.0, math.sqrt(2)), (1, 2.0, math.sqrt(2))]
    relative = rows(sf.change(before, after, relative=True))
    assert relative == [(0, pytest.approx(0.2), pytest.approx(math.hypot(0.1, 0.12))), (1, None, None)]


# Bars.


def tails(law: object) -> tuple[object, float]:
    return law.sf, law.standard_deviation


@pytest.mark.parametrize("failure", [0.5, 0.2, 0.05, 1e-3, 1e-6])
def test_bars_hold_whatever_noise_there_is(failure):
    """Exactly, of each law, and of the mean of two of Laplace's."""
    cones = [Cone(m, units) for m in (1, 3, 7) for units in (False, True)]
    separate = [SeparateNoise(c, (1,) * c.dimensions) for c in cones]
    noises = [*separate, *(JointNoise(c, (1,) * c.dimensions, groups=4) for c in cones[:2])]
    for tail, laws in (
        ("gaussian", [Gaussian(1)]),
        ("laplace", [Laplace(1), Gaussian(1)]),
        ("log_concave", [law for noise in noises for law in marginals(noise)]),
    ):
        least, most = deviations(tail, failure)
        for law in laws:
            assert 2 * law.sf(most * law.standard_deviation) <= failure * (1 + 1e-6) + 2e-10
            assert 2 * law.sf(least * law.standard_deviation) >= failure * (1 - 1e-6) - 2e-10
    # Of X + Y, P(|X + Y| > t) = (1 + t / 2) exp(-t), of deviation 2.
    t = 2 * deviations("laplace", failure)[1]
    assert (1 + t / 2) * math.exp(-t) <= failure


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 1.7, 2, 3, 4])
def test_bars_of_whole_numbers_hold(epsilon):
    """Of one discrete Laplace noise, the difference of two, and their averages with other weights."""
    z = np.arange(-400, 401)
    one, other = (
        chance / chance.sum() for chance in (np.exp(-e * np.abs(z)) for e in (epsilon, 1.5 * epsilon))
    )
    errors = [math.sqrt(z**2 @ chance) for chance in (one, other)]
    parts = [replace(estimates([0.0], [error], step=0.5), tail="laplace") for error in errors]
    same = replace(estimates([0.0], [errors[0]], step=0.5), tail="laplace")
    weight = errors[1] ** 2 / (errors[0] ** 2 + errors[1] ** 2)
    for made, noise, chance in (
        (parts[0], z, one),
        (sf.change(parts[0], same), z[:, None] - z, one[:, None] * one),
        (sf.combine(parts), weight * z[:, None] + (1 - weight) * z, one[:, None] * other),
    ):
        for confidence in (0.8, 0.95):
            width = made.errors(confidence)["n"][0].as_py()
            assert chance[np.abs(noise) > width + 1e-9].sum() <= 1 - confidence


GROUPS = 6_000


# Of 6,000 bars that fail with probability at most p, more fail than these with a probability below 1e-12, for
# each of two outputs at two confidences; the bars of a mean fail by less than .002 more often.
@pytest.mark.long
@pytest.mark.flakiness(k=10, because="binomial tails of 1e-12")
@pytest.mark.parametrize("noises", [("laplace", "laplace"), ("laplace", "gaussian"), ("k_norm", "k_norm")])
def test_bars_of_combinations_and_changes_hold(noises):
    size = 100 * GROUPS
    table = pa.table(
        {"id": np.arange(size), "town": np.arange(size) % GROUPS, "x": np.arange(size) // GROUPS / 10}
    )
    asked = people(table, list(range(GROUPS))).agg(
        s=sf.sum("x", lower=0, upper=10), m=sf.mean("x", lower=0, upper=10)
    )
    parts = [
        asked.release(epsilon=e, delta=1e-6, noise=noise) for e, noise in zip((4, 5), noises, strict=True)
    ]
    for made, exact in (
        (sf.combine(parts), {"s": 495.0, "m": 4.95}),
        (sf.change(*parts), {"s": 0.0, "m": 0.0}),
    ):
        for confidence, least, most in ((0.8, 0.759, 0.89), (0.95, 0.924, 0.99)):
            widths = made.errors(confidence)
            for name, truth in exact.items():
                held = np.abs(np.array(made[name]) - truth) <= np.array(widths[name].to_pylist())
                assert least < held.mean() < most


# Saved releases.


@EXACT
@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_a_saved_release_is_as_the_release(tmp_path, ending):
    made = release(n=sf.count(), m=sf.mean("x", lower=0, upper=10), q=sf.median("x", lower=0, upper=10))
    made.receipt(errors="standard").write(tmp_path / "receipt.json")
    made.write(tmp_path / f"a.{ending}", errors="standard")
    saved = sf.read_release(tmp_path / f"a.{ending}", tmp_path / "receipt.json")
    assert saved["town"] == TOWNS and saved["n"] == made["n"] and saved["m"] == pytest.approx(made["m"])
    for name in ("n", "m"):
        assert saved.errors(kind="standard")[name].to_pylist() == pytest.approx(
            made.errors(kind="standard")[name].to_pylist()
        )
    assert saved.to_arrow().column_names == ["town", "n", "m"] and saved.lacking == ("q",)
    again = release()
    assert sf.change(saved, again, outputs=["n"])["n"] == pytest.approx(np.subtract(again["n"], made["n"]))
    with pytest.raises(QueryError, match="two of the releases are the same release"):
        sf.combine([saved, made], outputs=["n"])


@EXACT
@pytest.mark.parametrize(("noise", "most"), [("gaussian", 1.01), ("laplace", 1.1), ("k_norm", 1.45)])
def test_standard_errors_follow_from_half_widths(noise, most):
    made = release(0.1, s=sf.sum("x", lower=0, upper=10), noise=noise)
    saved = sf.read_release(made._with_bars(made.bars), made.receipt(errors=True))
    ratio = np.divide(saved.errors(kind="standard")["s"], made.errors(kind="standard")["s"])
    assert ((ratio > 0.999) & (ratio < most)).all()


@EXACT
def test_a_changed_table_is_refused(tmp_path):
    made = release()
    made.receipt(errors="standard").write(tmp_path / "r.json")
    made.write(tmp_path / "a.csv", errors="standard")
    text = (tmp_path / "a.csv").read_text()
    for changed in (
        text.replace(str(made["n"][0]), "123456", 1),
        "\n".join(text.splitlines()[:-1]),
        text.replace("n_", "k_"),
    ):
        (tmp_path / "a.csv").write_text(changed)
        with pytest.raises(EngineError, match="a.csv is not the answer of this receipt"):
            sf.read_release(tmp_path / "a.csv", tmp_path / "r.json")
    (tmp_path / "a.csv").write_text(text)
    receipt = json.loads((tmp_path / "r.json").read_text())
    receipt["spent"]["epsilon"] = "1/10"
    (tmp_path / "r.json").write_text(json.dumps(receipt))
    with pytest.raises(EngineError, match="was changed"):
        sf.read_release(tmp_path / "a.csv", tmp_path / "r.json")
    with pytest.raises(QueryError, match="no standard errors"):
        sf.read_release(made.to_arrow(), made.receipt())
    with pytest.raises(ParameterError):
        sf.read_release(made.to_arrow(), made.receipt(), confidence=95)


# Releases of every kind.


@EXACT
def test_totals_and_largest_groups():
    totals = people().totals().agg(n=sf.count_units())
    made = sf.combine([totals.release(epsilon=1, delta=1e-6) for _ in range(2)])
    assert made.to_arrow().column_names == ["town", "grouping", "n"] and len(made) == 4
    one = totals.release(epsilon=1, delta=1e-6)
    saved = sf.read_release(one._with_bars(one._bars(kind="standard")), one.receipt(errors="standard"))
    assert len(sf.change(saved, made)) == 4
    top = sf.scan(ROWS, privacy_unit="id").top("town", k=2, keys=TOWNS)
    largest = sf.combine([top.release(epsilon=50), top.release(epsilon=50)])
    assert largest.to_arrow().column_names == ["town", "units"]


@EXACT
def test_what_sql_leaves_as_it_is_can_be_combined(tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(ROWS, path)
    inner = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id, "
        f"max_groups_contributed = 1) town, COUNT(DISTINCT id) AS n FROM '{path}' GROUP BY town"
    )
    ordered = f"{inner} ORDER BY n DESC LIMIT 2"
    made = sf.combine([sf.sql(ordered), sf.sql(ordered)])
    assert made.to_arrow().column_names == ["town", "n"] and set(made["town"]) <= set(TOWNS)
    one = sf.sql(ordered)
    with pytest.raises(QueryError, match="combine: two of the releases are the"):
        sf.combine([one, one.released])
    # What SQL computes is left out, has the bars of a formula, or has no error bars at all.
    computed = sf.sql(f"{inner.replace('town, COUNT', 'upper(town) AS town, COUNT')}")
    assert sf.combine([computed, sf.sql(inner.replace("town, COUNT", "upper(town) AS town, COUNT"))])
    around = f"SELECT town, n / 2 AS half FROM ({inner})"
    half, whole = (
        sf.combine([sf.sql(text), sf.sql(text)]).errors(kind="standard") for text in (around, inner)
    )
    assert half["half"].to_pylist() == pytest.approx([n / 2 for n in whole["n"].to_pylist()])
    distinct = around.replace("SELECT town, n", "SELECT DISTINCT town, n", 1)
    with pytest.raises(SfumatoError, match="errors"):
        sf.combine([sf.sql(distinct), sf.sql(distinct)])
    saved = sf.sql(around)
    with pytest.raises(QueryError, match="SQL computed this table"):
        sf.read_release(saved.to_arrow(), saved.receipt())


@EXACT
def test_an_answer_that_a_journal_repeats_is_the_same_release(tmp_path):
    pq.write_table(ROWS, tmp_path / "people.parquet")
    ledger = sf.Ledger(tmp_path / "budget.db")
    ledger.create("people", epsilon=10)
    ledger.journal.declare("people", "1")
    asked = sf.scan(tmp_path / "people.parquet", privacy_unit="id").agg(n=sf.count_units())
    first = asked.release(epsilon=1, budget=ledger.budget("people"))
    first.to_arrow()
    again = asked.release(epsilon=1, budget=ledger.budget("people"))
    assert again.repeats
    with pytest.raises(QueryError, match="combine: two of the releases are the"):
        sf.combine([first, again])


@EXACT
def test_what_cannot_be_combined_is_refused():
    one, other = release(), release()
    q = {"n": sf.count(), "q": sf.median("x", lower=0, upper=10)}
    with pytest.raises(QueryError, match=r"combine: 'q' has no standard error. Write outputs=.'n'."):
        sf.combine([release(**q), release(**q)])
    assert sf.combine([release(**q), release(**q)], outputs=["n"]).to_arrow().column_names == ["town", "n"]
    with pytest.raises(QueryError, match=r"combine: 'm' is not in every release. Write outputs=.'n'."):
        sf.combine([one, release(n=sf.count())])
    with pytest.raises(QueryError, match="no common output with a standard error"):
        sf.combine([release(a=sf.count()), release(b=sf.count())])
    for no_names in ("n", [], 3):
        with pytest.raises(ParameterError, match="a list of names of outputs"):
            sf.combine([one, other], outputs=no_names)
    with pytest.raises(QueryError, match="'k' is not in every release"):
        sf.combine([one, other], outputs=["k"])
    with pytest.raises(QueryError, match="by town, another by nothing"):
        sf.combine(
            [one, sf.scan(ROWS, privacy_unit="id").bound(rows=1).agg(n=sf.count()).release(epsilon=1)],
            outputs=["n"],
        )
    with pytest.raises(QueryError, match="'g' is int64 in one release and string in another"):
        sf.combine([estimates([1.0], [1.0]), estimates([1.0], [1.0], ["a"])])
    with pytest.raises(QueryError, match="is there twice"):
        sf.combine([estimates([1.0, 2.0], [1.0, 1.0], ["a", "a"]), estimates([1.0], [1.0], ["a"])])
    both = sf.combine([one, other])
    for same in (one, copy.copy(one), both):
        with pytest.raises(QueryError, match="combine: two of the releases are the"):
            sf.combine([one, same])
    for few in ([], [one], one, None):
        with pytest.raises(QueryError, match="fewer than two releases"):
            sf.combine(few)
    for wrong in ([one, ROWS], [one, None], "a.csv"):
        with pytest.raises(ParameterError, match="must be a release"):
            sf.combine(wrong)
    with pytest.raises(SfumatoError, match="must be one of"):
        sf.combine([one, other]).errors(kind="se")
