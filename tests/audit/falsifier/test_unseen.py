"""Claims that the falsifier's authors had not seen are judged rightly: see `unseen` for what was missed at first."""

from __future__ import annotations

import pytest

from sfumato.audit import falsify

from .unseen import RIGHT, WRONG

pytestmark = pytest.mark.long


def test_there_are_twelve_of_each():
    assert len(WRONG) == len(RIGHT) == 12


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_claim_is_found(name):
    found = falsify(WRONG[name], 1)
    assert found.violated and found.failure == "distance", str(found)
    # What is reported is checked from outside.
    one, other = found.inputs
    assert WRONG[name].input_metric.distance(one, other) <= found.d_in
    apart = WRONG[name].output_metric.distance(WRONG[name](one), WRONG[name](other))
    assert apart > WRONG[name].map(found.d_in)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_claim_is_not_broken(name):
    found = falsify(RIGHT[name], 1)
    assert not found.violated and found.ratio == 1, str(found)
