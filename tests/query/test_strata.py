"""Proportions of stratified populations from a scan: what they are, what bars and intervals hold, what is refused."""

from fractions import Fraction

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.measurements import stratified_estimate
from sfumato.measurements.stratified_survey import ProportionLimits, RoundedNoise
from sfumato.testing import assert_approx_equal
from sfumato.transformations.stratified_design import StratifiedDesign

ASKED, POPULATION = {"E": 400, "H": 200}, {"H": 1000, "E": 4000}
SAMPLE = pa.table(
    {
        "id": range(600),
        "school": ["E"] * 400 + ["H"] * 200,
        "award": [i % 4 != 0 for i in range(400)] + [[False, None, True, False][i % 4] for i in range(200)],
        "mark": [i % 5 for i in range(600)],
    }
)
ROWS = sf.scan(SAMPLE, privacy_unit="id").bound(rows=1)
TRUE = Fraction(4, 5) * Fraction(3, 4) + Fraction(1, 5) * Fraction(1, 4)
OUTPUTS = ("p", "p_standard_error", "p_low", "p_high")


def share(**given):
    return sf.proportion("award", stratum="school", **{"asked": ASKED, "population": POPULATION, **given})


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.flakiness(k=100, because="noise of 2e-5 answers or less, and 1e-3 of them is asked")
def test_without_noise_it_is_the_survey_statistician_s(noise):
    release = ROWS.agg(p=share(confidence="0.9")).release(epsilon=10**6, delta="1e-9", noise=noise)
    found = release.to_arrow().to_pylist()[0]
    sizes = [400, 200], [4000, 1000]
    mean, variance = stratified_estimate([300, 50], *sizes, 0)
    low, high = ProportionLimits(StratifiedDesign(*sizes), RoundedNoise(None)).limits(float(mean), "0.9")
    assert mean == TRUE and tuple(found) == OUTPUTS
    for name, expected in zip(OUTPUTS, (mean, float(variance) ** 0.5, low, high), strict=True):
        assert found[name] == pytest.approx(float(expected), abs=1e-5), name


def test_noise_is_that_of_one_count_however_many_strata_there_are():
    plans = []
    for n in (1, 40):
        sizes = dict.fromkeys(range(n), 5)
        asked = sf.proportion("award", stratum="mark", asked=sizes, population=sizes)
        plans.append(ROWS.agg(p=asked).plan(epsilon=2))
    one, many = (set(plan.scales[c] * plan.steps[c] for c in plan.scales) for plan in plans)
    assert one == many == {Fraction(1, 2)}


@pytest.mark.parametrize(("noise", "k"), [("laplace", 16), ("gaussian", 16)])
@pytest.mark.flakiness(k=14, because="bars at 1 - 1e-16 of four outputs")
def test_bars_hold_what_there_would_be_without_noise(noise, k):
    asked = ROWS.agg(p=share())
    plan = asked.plan(epsilon=1, delta=1e-6, noise=noise)
    release = asked.release(epsilon=1, delta=1e-6, noise=noise)
    found, bars = (t.to_pylist()[0] for t in (release.to_arrow(), release.errors(1 - 10.0**-k)))
    (statistic,) = plan.requirements.statistics
    noisy = RoundedNoise(plan.laws[statistic.names[0]], float(plan.steps[statistic.names[0]]))
    design = StratifiedDesign([200, 400], [1000, 4000])
    mean, variance = stratified_estimate([50, 300], [200, 400], [1000, 4000], noisy.variance)
    spread = sum(w * p * (1 - p) for w, p in zip(design.variance_weights, (0.25, 0.75), strict=True))
    error = float(spread + noisy.variance * float(sum(s**2 for s in design.steps))) ** 0.5
    low, high = ProportionLimits(design, noisy).limits(float(mean), "0.95")
    for name, expected in zip(OUTPUTS, (float(TRUE), error, low, high), strict=True):
        assert abs(found[name] - expected) <= bars[name] + 1e-9, name
        assert bars[name] < 0.2
    assert error == pytest.approx(float(variance) ** 0.5, rel=0.01)
    assert_approx_equal(release, {"p": float(TRUE)}, k=16, columns=["p"])
    with pytest.raises(AssertionError):
        assert_approx_equal(release, {"p": float(TRUE) + 0.5}, k=16, columns=["p"])


@pytest.mark.flakiness(k=100, because="noise of 1e-5 answers against 0.001")
def test_a_respondent_with_several_rows_is_one():
    twice = pa.concat_tables([SAMPLE, SAMPLE, SAMPLE.slice(0, 100)])
    found = sf.scan(twice, privacy_unit="id").bound(rows=1).agg(p=share()).release(epsilon=10**6).to_arrow()
    assert found["p"][0].as_py() == pytest.approx(float(TRUE), abs=1e-5)


@pytest.mark.flakiness(k=100, because="noise of 1e-5 answers against 0.001")
def test_no_rows_and_rows_of_other_strata_are_no_error():
    for rows in (SAMPLE.slice(0, 0), SAMPLE.set_column(1, "school", pa.array(["x"] * 600))):
        found = sf.scan(rows, privacy_unit="id").bound(rows=1).agg(p=share()).release(epsilon=10**6)
        row = found.to_arrow().to_pylist()[0]
        assert row["p"] == pytest.approx(0, abs=1e-5) and 0 <= row["p_low"] <= row["p_high"] < 0.1
