"""Constructors of noisy releases: exactly rounded noise, the private selection of groups, and surveys."""

from sfumato.measurements.noise import NOISES, NoiseKind, gaussian, laplace
from sfumato.measurements.stratified import StratifiedProportion, stratified_estimate, stratified_proportion
from sfumato.measurements.wide import WideIntegers

__all__ = [
    "NOISES",
    "NoiseKind",
    "StratifiedProportion",
    "WideIntegers",
    "gaussian",
    "laplace",
    "stratified_estimate",
    "stratified_proportion",
]
