"""The names from which a release chooses are those that are known where it does."""

from sfumato.measurements.correlated_noise import K_NORM
from sfumato.measurements.independent_noise import NOISES as KINDS
from sfumato.query import choices


def test_names_are_those_of_noises_and_rules():
    assert tuple(KINDS) == choices.SEPARATE_NOISES
    assert (*KINDS, K_NORM.name) == choices.NOISES
    assert set(KINDS) <= set(choices.SELECTIONS)  # a threshold is on the release's own noise
    assert ("auto", *choices.NOISES) == choices.NOISE_CHOICES
    assert ("auto", *choices.SELECTIONS) == choices.SELECTION_CHOICES
