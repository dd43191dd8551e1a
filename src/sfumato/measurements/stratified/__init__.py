"""Private proportions of stratified samples: noisy counts, their estimate, and its interval."""

from sfumato.measurements.stratified.estimate import noisy_stratum_sums, stratified_estimate
from sfumato.measurements.stratified.interval import ProportionLimits
from sfumato.measurements.stratified.survey import StratifiedProportion, stratified_proportion
from sfumato.noise.rounded import RoundedNoise

__all__ = [
    "ProportionLimits",
    "RoundedNoise",
    "StratifiedProportion",
    "noisy_stratum_sums",
    "stratified_estimate",
    "stratified_proportion",
]
