"""The default method finds every specimen, and calls no twin wrong.

Each specimen gets as many draws as it took many times over when this was written; the two that take longest, one of
which cannot be seen at all, are left to benchmarks/zoo.py. A twin is called wrong with probability at most 1e-10.
"""

import math

import numpy as np
import pytest
import specimens

from sfumato.audit import audit, closeness
from sfumato.noise import Gaussian

QUICK = [s for s in specimens.SPECIMENS if not (s.slow or s.unseen)]
NAMES = [s.name for s in specimens.SPECIMENS]
SEARCHED = [s for s in specimens.SPECIMENS if s.data == specimens.VALUES]
DRAWS, TWIN_DRAWS, SEARCH_DRAWS = 1_000_000, 3_000, 4_000
# The bound on epsilon may exceed the truth with this probability.
ERROR = 1e-10


def drawn(mechanism, dataset, size):
    """The outputs of a mechanism; what it raises is an output as well."""
    try:
        return mechanism(dataset, size)
    except (OverflowError, ValueError) as error:
        return [repr(error)] * size


@pytest.mark.parametrize("family", specimens.FAMILIES, ids=lambda family: family.__name__)
def test_specimens_are_complete_and_repeat_from_a_seed(family):
    for specimen in family.SPECIMENS:
        (claimed,) = [specimen.claim[k] for k in ("epsilon", "rho", "mu") if k in specimen.claim]
        assert specimen.truth > claimed and specimen.source and specimen.why.endswith(".")
        for mechanism in (specimen.broken, specimen.twin):
            both = []
            for _ in range(2):
                specimens.seed("again")
                both.append([repr(drawn(mechanism, dataset, 7)) for dataset in specimen.pairs[0]])
            assert both[0] == both[1]


def test_few_are_left_out():
    assert len(NAMES) == len(set(NAMES)) >= 40
    assert len(QUICK) == len(specimens.SPECIMENS) - 2


def test_true_deltas():
    """The thresholds' true deltas, from their laws: what the specimens' `why` say."""
    by_name, size = {s.name: s for s in specimens.SPECIMENS}, 200_000
    specimens.seed("deltas")
    for name, broken, twin in [
        ("threshold at >=", math.exp(-1.5) / 2, math.exp(-2.5) / 2),
        ("threshold on rounded noise", math.exp(-2) / 2, math.exp(-3) / 2),
    ]:
        specimen = by_name[name]
        assert specimen.claim["delta"] == twin
        for mechanism, truth in ((specimen.broken, broken), (specimen.twin, twin)):
            shown = np.mean([v is not None for v in mechanism(specimen.pairs[0][1], size)])
            # Hoeffding: beyond this with probability 2 exp(-2 n t^2) = 1e-10.
            assert abs(shown - truth) < math.sqrt(math.log(2e10) / (2 * size))


@pytest.mark.long
@pytest.mark.parametrize(
    "specimen",
    [pytest.param(s, id=s.name, marks=[pytest.mark.long] * (i % 4 != 1)) for i, s in enumerate(QUICK)],
)
def test_the_defect_is_found(specimen):
    specimens.seed(specimen.name)
    report = audit(
        specimen.broken,
        pairs=specimen.pairs,
        max_samples=DRAWS,
        confidence=1 - ERROR,
        **specimens.claimed(specimen),
    )
    assert report.violated
    assert report.witness is not None
    if "epsilon" in specimen.claim and specimen.truth_is == "exact":
        assert report.epsilon_lower <= specimen.truth


@pytest.mark.long
@pytest.mark.parametrize("specimen", specimens.SPECIMENS, ids=NAMES)
def test_the_twin_is_not_called_wrong(specimen):
    specimens.seed(f"{specimen.name}, done right")
    given = {"alpha": ERROR, **specimens.claimed(specimen)}
    report = audit(specimen.twin, pairs=specimen.pairs, max_samples=TWIN_DRAWS, **given)
    assert not report.violated


@pytest.mark.release
@pytest.mark.parametrize("specimen", SEARCHED, ids=[s.name for s in SEARCHED])
def test_the_twin_holds_on_the_default_datasets(specimen):
    """Odd numbers and Halton points: this found a twin whose squares were not on the grid."""
    specimens.seed(f"{specimen.name}, searched")
    report = audit(specimen.twin, max_samples=SEARCH_DRAWS, alpha=ERROR, **specimens.claimed(specimen))
    assert not report.violated


def test_what_cannot_be_seen_from_outputs_shows_in_the_noise():
    """The unseen specimen's noise is not the one that its claim needs."""
    (specimen,) = [s for s in specimens.SPECIMENS if s.unseen]
    assert specimen.name == "classic Gaussian sigma at epsilon 20"
    right = Gaussian(specimens.noise.analytic_sigma(specimen.claim["epsilon"], specimen.claim["delta"]))
    specimens.seed("unseen")
    assert closeness(specimen.twin((), 5_000), right, grid="1/1048576").passed
    result = closeness(specimen.broken((), 5_000), right, grid="1/1048576")
    assert [c.name for c in result.failed if c.name == "scale"]
