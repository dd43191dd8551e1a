"""The names from which a release chooses are those that are known where it does."""

from sfumato.measurements.correlated_noise import K_NORM
from sfumato.measurements.independent_noise import NOISES as KINDS
from sfumato.query import option_names


def test_names_are_those_of_noises_and_rules():
    assert tuple(KINDS) == option_names.SEPARATE_NOISES
    assert (*KINDS, K_NORM.name) == option_names.NOISES
    assert set(KINDS) <= set(option_names.SELECTIONS)  # a threshold is on the release's own noise
    assert ("auto", *option_names.NOISES) == option_names.NOISE_CHOICES
    assert ("auto", *option_names.SELECTIONS) == option_names.SELECTION_CHOICES
