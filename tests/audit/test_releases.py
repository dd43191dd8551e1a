"""Whole releases, audited from outside at user level: each kind of noise, selection, and what is found on the way.

Faults of what bounds a unit, and of what is paid, are in tests/faults; here are those that only outputs show.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.advice import advice_request
from sfumato.api import largest_groups
from sfumato.audit import audit, units
from sfumato.errors import RefusalError
from sfumato.guidance import diagnosis_plan, inferred_limits
from sfumato.guidance.inferred_bounds import Histogram, ValueHistograms
from sfumato.guidance.inferred_limits import contribution_query
from sfumato.measurements import stratified_survey
from sfumato.plan.planning import make_plan
from sfumato.testing import noise_free, release_mechanism
from tests.support.changed_plans import changed_top, without_certificate

GROUPS = ["a", "b"]
SCHEMA = pa.schema([("unit", pa.string()), ("group", pa.string()), ("value", pa.float64())])
LONG = pytest.mark.long
KEPT = pytest.mark.flakiness(k=14, because="alpha of the audit, 10^-15")
FOUND = pytest.mark.flakiness(
    k=14, because="the bet's wealth grows steadily, and is at its goal after a tenth of its draws or less"
)


def table(rows):
    return pa.Table.from_pylist(rows, SCHEMA)


def people(data):
    return sf.scan(data, privacy_unit="unit")


def crowd(count, group="a"):
    return [{"unit": f"u{i}", "group": group, "value": 1.0} for i in range(count)]


def kept(mechanism, claim, pairs, draws):
    report = audit(mechanism, **claim, pairs=pairs, max_samples=draws, alpha=1e-15, seconds=600)
    assert not report.violated, report
    assert min(samples for _, samples in report.edges) > 0, report.edges


def found(mechanism, claim, pair, draws):
    report = audit(mechanism, **claim, pairs=[pair], max_samples=draws, seconds=600)
    assert report.violated, report


# Releases of groups.


def question(data, keys=GROUPS, groups=1):
    grouped = people(data).group_by("group", keys=keys)
    return grouped.bound(groups=groups, rows=1).agg(
        n=sf.count(), total=sf.sum("value", lower=0, upper=1), mean=sf.mean("value", lower=0, upper=1)
    )


def of_vectors(data):
    vectors = people(data).with_columns(v="[value, 1 - value, 0]").group_by("group", keys=GROUPS)
    return vectors.bound(groups=1).agg(s=sf.vector_sum("v", length=3, bound=1, norm="l2"))


def of_rows(data, keys=GROUPS):
    return people(data).group_by("group", keys=keys).bound(total_rows=3).agg(n=sf.count(), u=sf.count_units())


def of_all(data):
    return people(data).bound(rows=2).agg(n=sf.count())


def of_quantiles(data):
    return people(data).bound(rows=2).agg(q=sf.median("value", lower=0, upper=1), n=sf.count())


def of_totals(data):
    return people(data).group_by("group", keys=GROUPS).totals().bound(groups=1, rows=1).agg(n=sf.count())


DELTA = {"epsilon": 1, "delta": 1e-3}
RELEASES = {
    "Laplace": (question, {}, {"epsilon": 1}, {"noise": "laplace"}),
    "Gaussian": (question, {}, DELTA, {"noise": "gaussian"}),
    "vectors": (of_vectors, {}, DELTA, {"noise": "gaussian"}),
    "private groups": (question, {"keys": None}, {"epsilon": 1, "delta": 0.01}, {}),
    "K-norm": (question, {"groups": 2}, {"epsilon": 1}, {"noise": "k_norm"}),
    "K-norm, private groups": (question, {"keys": None}, {"epsilon": 1, "delta": 0.01}, {"noise": "k_norm"}),
    "rows over all groups": (of_rows, {}, DELTA, {}),
    "quantiles": (of_quantiles, {}, {"epsilon": 1}, {"noise": "laplace"}),
    "totals": (of_totals, {}, DELTA, {"noise": "gaussian"}),
    "one group, count": (of_all, {}, {"epsilon": 1}, {}),
}
QUICK = ("one group, count",)


def asked(name):
    """Return a function that makes a release of a table, and its claim."""
    ask, options, claim, more = RELEASES[name]
    return lambda data: ask(data, **options).release(**claim, **more), claim


@KEPT
@pytest.mark.parametrize("name", [pytest.param(n, marks=[LONG] * (n not in QUICK)) for n in RELEASES])
def test_releases_keep_their_claim(name):
    ask, claim = asked(name)
    kept(release_mechanism(ask), claim, units(groups=GROUPS, table=table), 1400)


@LONG
@FOUND
@pytest.mark.parametrize("name", ["Gaussian", "private groups", "K-norm", "quantiles", "one group, count"])
def test_releases_break_a_smaller_claim(name):
    ask, claim = asked(name)
    rows = [*crowd(40), *({"unit": "new", "group": "a", "value": 1.0} for _ in range(3))]
    found(
        release_mechanism(ask), {k: v / 8 for k, v in claim.items()}, (table(rows), table(crowd(40))), 200_000
    )


@FOUND
def test_a_release_without_its_bound_is_found():
    """Rows are told to be units: 40 rows of one unit then count 40 times."""

    def unbounded(rows):
        data = table(rows).append_column("row", pa.array(np.arange(len(rows))))
        return sf.scan(data, privacy_unit="row").bound(rows=1).agg(n=sf.count()).release(epsilon=1)

    pairs = units(groups=GROUPS)
    assert audit(release_mechanism(unbounded), epsilon=1, pairs=pairs, max_samples=60_000).violated


BULK = pytest.mark.flakiness(
    k=13, because="60 draws are equal with 0.4^59 at most; 90 of a group are shown with 0.01^90"
)


@BULK
@pytest.mark.parametrize("name", ["Laplace", "vectors", "private groups", "K-norm", "totals"])
def test_bulk_draws_are_releases(name):
    """Without noise, each draw in bulk is the release itself; draws with noise differ, and hide what is not shown."""
    ask, _ = asked(name)
    data = table([{"unit": str(i), "group": GROUPS[i % 2], "value": i / 80} for i in range(80)])
    with noise_free():
        drawn = release_mechanism(ask)(data, 3)
        shown = {}
        for row in ask(data).to_arrow().to_pylist():
            key = [row.pop(k) for k in ("group", "grouping") if k in row]
            if (vector := row.pop("s", None)) is not None:
                row |= {f"s[{i}]": entry for i, entry in enumerate(vector)}
            shown |= {f"{repr(tuple(key))[1:-1].rstrip(',')}.{n}": v for n, v in row.items()}
    for one in singly(drawn, 3):
        assert one == shown
    rows = singly(release_mechanism(ask)(data, 60), 60)
    # Two whole noises of scale 1 or more are equal with probability at most 0.4: all 60, below 10^-23.
    assert any(row != rows[0] for row in rows)
    if name == "private groups":
        assert {} in release_mechanism(ask)(table(crowd(1)), 90)


def singly(drawn, count):
    """Return draws one by one, each a mapping of a number's place to it."""
    if isinstance(drawn, dict):
        return [{k: v[i] for k, v in drawn.items()} for i in range(count)]
    return [{f"{g}.{n}": v for g, outputs in one.items() for n, v in outputs.items()} for one in drawn]


@pytest.mark.noise_cannot_matter("it looks at what was asked and how many draws came")
def test_the_engine_adds_up_each_table_once():
    seen = []

    def ask(data):
        seen.append(data.num_rows)
        return asked("one group, count")[0](data)

    mechanism = release_mechanism(ask)
    for rows in (1, 2, 1, 2):
        assert len(mechanism(table(crowd(rows)), 5)["n"]) == 5
    assert seen == [1, 2]
    data = pa.table({"unit": np.arange(10_001), "group": np.arange(10_001)})
    wide = release_mechanism(lambda d: of_rows(d, data.select(["group"])).release(epsilon=1, delta=1e-3))
    with pytest.raises(RefusalError, match="10,000 groups"):
        wide(data, 2)


# Releases of the largest groups.


def top(k=2, keys=GROUPS, by=None, candidates=None, **options):
    options = {"epsilon": 1} | options
    return release_mechanism(
        lambda rows: (
            people(rows).top("group", k=k, keys=keys, by=by, candidates=candidates).release(**options)
        )
    )


SPREAD = sf.sum("value", lower=-1, upper=1)
PRIVATE = {"epsilon": 1, "delta": 0.01}
TOPS = {
    "public": ({"epsilon": 1}, {"by": SPREAD}),
    "keys alone": ({"epsilon": 1}, {"counts": False}),
    "private": (PRIVATE, {"keys": None, "k": 1, "candidates": 1} | PRIVATE),
}


@LONG
@KEPT
@pytest.mark.parametrize("name", TOPS)
def test_releases_of_the_largest_keep_their_claim(name):
    claim, options = TOPS[name]
    kept(top(**options), claim, units(groups=GROUPS, table=table), 1400)


ALONE = table([*crowd(3), {"unit": "more", "group": "z", "value": 1.0}]), table(crowd(3))
SAME = [*crowd(3), *crowd(3, "b")]
ONE_MORE = table([*SAME, {"unit": "more", "group": "a", "value": 1.0}]), table(SAME)
WRONG_TOPS = {
    "sensitivity a sixteenth": ({"each": lambda p: 16 * p.measurement.each}, ONE_MORE, {"counts": False}),
    "a forgotten end": ({"margin": lambda p: 0}, ALONE, {"keys": None, "delta": 1e-6, "counts": False}),
}


@LONG
@FOUND
@pytest.mark.parametrize("name", WRONG_TOPS)
def test_wrong_draws_of_the_largest_are_found(name, monkeypatch):
    changes, pair, options = WRONG_TOPS[name]
    right = largest_groups.make_top_plan

    def wrong(*given):
        plan = right(*given)
        return changed_top(plan, **{n: change(plan) for n, change in changes.items()})

    monkeypatch.setattr(largest_groups, "make_top_plan", wrong)
    claim = {"epsilon": 1, "delta": options.get("delta", 0)}
    with without_certificate():  # which refuses some of them
        found(top(**options), claim, pair, 20_000)


@pytest.mark.noise_cannot_matter("the epsilon is beyond all noise")
def test_draws_of_the_largest_are_releases():
    """Of each group that is shown its rank and number; of what is not, no trace."""
    drawn = top(epsilon=10**9)(table([*crowd(9), *crowd(7, "b")]), 2)
    assert drawn == [{"'a'": {"rank": 1, "units": 9}, "'b'": {"rank": 2, "units": 7}}] * 2
    assert top(keys=None, counts=False, epsilon=900, delta=1e-6)(table([]), 1) == [{}]


# What is found on the way: exact numbers of rows are computed once, and noise each time.


def once(engine):
    """Let an engine, and those that it makes, evaluate each question once."""
    evaluate, combine, known = engine.statistics, engine.combined, {}

    def statistics(query, batch_rows, *salt):
        key = repr(query), salt
        if key not in known:
            known[key] = list(evaluate(query, batch_rows, *salt))
        return iter(known[key])

    def combined(how):
        key = repr(how)
        if key not in known:
            known[key] = once(combine(how))
        return known[key]

    engine.statistics, engine.combined = statistics, combined
    return engine


def drawing(open_, draw):
    """Return a mechanism that opens a table once, and draws from it."""
    known = {}

    def mechanism(rows, size):
        if id(rows) not in known:
            known[id(rows)] = rows, open_(rows)
        drawn = [draw(known[id(rows)][1]) for _ in range(size)]
        return {name: [one[name] for one in drawn] for name in drawn[0]}

    return mechanism


def opened(rows):
    made = people(rows)
    once(made._engine)
    return made


def means(made):
    """Return all that is looked at for bounds, and what is released."""
    seen, look = [], ValueHistograms.draw

    def remembered(one, edges, epsilon):
        drawn = look(one, edges, epsilon)
        seen.append(drawn.counts)
        return drawn

    ValueHistograms.draw = remembered
    try:
        mean = sf.mean("value", lower="auto", upper="auto", magnitudes=(1, 4))
        release = made.bound(rows=1).agg(n=sf.count(), m=mean).release(epsilon=1, auto_share="1/2")
        shown = release.to_arrow().to_pylist()[0]
    finally:
        ValueHistograms.draw = look
    numbers = {f"look {i} bin {j}": float(n) for i, counts in enumerate(seen) for j, n in enumerate(counts)}
    ends = {f"{f.what} {end}": v for f in release.found for end, v in zip("lu", f.value, strict=True)}
    return numbers | ends | {k: float(v) for k, v in shown.items()}


def limits(look):
    seen = look.draw()
    numbers = {"people": seen.people, "number": seen.number}
    for name, one in (("groups", seen.groups), ("fullest", seen.fullest)):
        numbers |= {f"{name} {i}": number for i, number in enumerate(one.within)}
    return numbers


def look_at_limits(rows):
    made = people(rows).group_by("group").bound(groups=1, rows=1).agg(n=sf.count())
    look = contribution_query(made.table, made.query, Fraction(1))
    once(look.table._engine), once(look.counted[0]._engine)
    return look


def diagnosis(rows):
    made = people(rows).group_by("group").bound(groups=1, rows=1)
    asked = made.agg(n=sf.count(), m=sf.mean("value", lower=0, upper=2))
    plan = make_plan(asked.query, epsilon=1, delta=Fraction(1, 10**6))
    once(asked.table._engine)
    return diagnosis_plan.diagnosis(asked.table, plan, Fraction(1))


def diagnose(made):
    told = made.release()
    shown = {"most": told.most_rows}
    for part in (*told._drawn(0.95), *told._contributions):
        (row,) = part.to_arrow().to_pylist()
        for name, value in row.items():
            vector = enumerate(value) if isinstance(value, list) else ()
            shown |= {f"{name}[{i}]": one for i, one in vector} or {name: value}
    return shown


def advise(made):
    by_group = made.group_by("group", keys=GROUPS).bound(groups="auto", rows=1)
    advice = sf.advise(
        made, {"by": by_group.agg(n=sf.count()), "all": made.agg(u=sf.count_units())}, epsilon=1
    )
    numbers = {"units": advice.found[0].value["units"], "groups": advice.questions["by"].groups}
    numbers |= {f"epsilon of {n}": float(one.epsilon) for n, one in advice.questions.items()}
    for name, release in advice.release().items():
        shown = release.to_arrow()
        for output in set(shown.column_names) - {"group"}:
            numbers |= {f"{output} of {name} {i}": v for i, v in enumerate(shown[output].to_pylist())}
    return numbers


def survey(noise="laplace"):
    def release(rows):
        budget = {"epsilon": 1} | ({"delta": 1e-3} if noise == "gaussian" else {})
        population = {"north": 500, "south": 900}
        told = sf.stratified_proportion(
            rows, stratum="stratum", answer="answer", yes=True, population=population, noise=noise, **budget
        )
        return {**dict(zip(told.strata, told.counts, strict=True)), "share": told.proportion}

    return release


def answers(place, answer):
    rows = [{"stratum": name, "answer": i % 3 == 0} for name in ("north", "south") for i in range(10)]
    rows[place]["answer"] = answer
    return rows


BASE = [{"unit": f"u{i}", "group": GROUPS[i % 2], "value": [1.5, -1.5, 3.0][i % 3]} for i in range(18)]
MANY = [{"unit": "more", "group": f"h{i % 90}", "value": 3.0} for i in range(900)]
HOSTILE = table(BASE + MANY), table(BASE)
FAR = table([*BASE, {"unit": "more", "group": "a", "value": 1e308}]), table(BASE)
FOUND_ON_THE_WAY = {
    "bounds": (drawing(opened, means), FAR, {}, 40),
    "limits": (drawing(look_at_limits, limits), HOSTILE, {}, 100),
    "diagnostics": (drawing(diagnosis, diagnose), HOSTILE, {}, 30),
    "advice": (drawing(opened, advise), HOSTILE, {}, 20),
    "survey": (survey(), (answers(19, True), answers(19, False)), {}, 300),
    "survey, Gaussian": (survey("gaussian"), (answers(0, True), answers(0, False)), {"delta": 1e-3}, 300),
}
CAMPAIGN = ("diagnostics", "advice", "survey, Gaussian")


@KEPT
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.release if n in CAMPAIGN else LONG) for n in FOUND_ON_THE_WAY]
)
def test_what_is_found_on_the_way_keeps_its_claim(name, monkeypatch):
    monkeypatch.setattr(advice_request, "PORTIONS", 8)
    monkeypatch.setattr(advice_request, "_PORTIONS_EACH", 4)
    mechanism, pair, more, draws = FOUND_ON_THE_WAY[name]
    kept(mechanism, {"epsilon": 1, **more}, [pair], draws)


def looks_without_noise(patch):
    look = ValueHistograms.draw

    def rounded(one, edges, epsilon):
        return Histogram(edges, np.round(look(one, edges, 10**6 * epsilon).counts), 1.0)

    patch.setattr(ValueHistograms, "draw", rounded)


def limits_at_40_times_their_part(patch):
    right = inferred_limits.make_plan
    patch.setattr(inferred_limits, "make_plan", lambda query, epsilon: right(query, epsilon=40 * epsilon))


def one_stratum_without_noise(patch):
    class Counted:
        def __init__(self, honest):
            self.honest, self.map = honest, honest.map

        def __call__(self, groups):
            return [self.honest(groups)[0], sum(groups[1])]

    honest = stratified_survey.noisy_stratum_sums
    patch.setattr(stratified_survey, "noisy_stratum_sums", lambda *given: Counted(honest(*given)))


WRONG = {
    "bounds": (looks_without_noise, 5_000),
    "limits": (limits_at_40_times_their_part, 5_000),
    "survey": (one_stratum_without_noise, 20_000),
}


@LONG
@FOUND
@pytest.mark.parametrize("name", WRONG)
def test_noise_that_is_missing_on_the_way_is_found(name, monkeypatch):
    plant, draws = WRONG[name]
    plant(monkeypatch)
    mechanism, pair, more, _ = FOUND_ON_THE_WAY[name]
    with without_certificate():  # which refuses some of them
        found(mechanism, {"epsilon": 1, **more}, pair, draws)
