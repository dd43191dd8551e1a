"""Proportions of stratified samples, audited from outside: one answer that changes is hidden, and defects are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import sfumato as sf
from sfumato.audit import audit
from sfumato.measurements import stratified_survey as survey

from . import plants

pytestmark = pytest.mark.long

POPULATION = {"north": 500, "south": 900}


def sample(*more: tuple[int, bool]) -> list[dict[str, Any]]:
    """Return ten answers in each stratum, some of which are others."""
    rows = [{"stratum": name, "answer": i % 3 == 0} for name in POPULATION for i in range(10)]
    for place, answer in more:
        rows[place]["answer"] = answer
    return rows


def release(rows: list[dict[str, Any]], noise: str = "laplace") -> dict[str, float]:
    """Return all that is released."""
    budget: dict[str, Any] = {"epsilon": 1} | ({"delta": 1e-3} if noise == "gaussian" else {})
    found = sf.stratified_proportion(
        rows, stratum="stratum", answer="answer", yes=True, population=POPULATION, noise=noise, **budget
    )
    return {**dict(zip(found.strata, found.counts, strict=True)), "share": found.proportion}


PAIRS = [(sample((0, True)), sample((0, False))), (sample((19, True)), sample((19, False)))]


@pytest.mark.flakiness(k=15, because="alpha of the audit")
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_releases_keep_their_claim(noise):
    claim = {"epsilon": 1, "delta": 1e-3 if noise == "gaussian" else 0}
    report = audit(lambda rows: release(rows, noise), **claim, pairs=PAIRS, max_samples=400, alpha=1e-15)
    assert not report.violated, report


class Counted:
    """Counts with noise, to which something is done before or after."""

    def __init__(self, honest: Any, answers: Callable[[Any], Any], counts: Callable[[Any, Any], Any]) -> None:
        self.honest, self.answers, self.counts, self.map = honest, answers, counts, honest.map

    def __call__(self, groups: Any) -> Any:
        return self.counts(self.honest(self.answers(groups)), groups)


def counted(
    answers: Callable[[Any], Any] = lambda groups: groups,
    counts: Callable[[Any, Any], Any] = lambda noisy, groups: noisy,
) -> plants.Plant:
    honest = survey.noisy_stratum_sums
    return lambda patch: patch.setattr(
        survey, "noisy_stratum_sums", lambda *given: Counted(honest(*given), answers, counts)
    )


DEFECTS: dict[str, plants.Plant] = {
    "noise is a 64th of what it must be": plants.less_noise,
    "an answer counts in both strata": counted(answers=lambda groups: [groups[0], groups[0]]),
    "a yes counts three times": counted(
        counts=lambda noisy, groups: [n + 2 * sum(g) for n, g in zip(noisy, groups, strict=True)]
    ),
    "one stratum has no noise": counted(counts=lambda noisy, groups: [noisy[0], sum(groups[1])]),
}


@pytest.mark.flakiness(
    k=30, because="the bet's wealth grows steadily, and is at its goal long before the end"
)
@pytest.mark.parametrize("defect", DEFECTS)
def test_planted_defects_are_found(defect, monkeypatch):
    DEFECTS[defect](monkeypatch)
    report = audit(release, epsilon=1, pairs=PAIRS, max_samples=20_000)
    assert report.violated, report
