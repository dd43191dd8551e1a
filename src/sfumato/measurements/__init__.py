"""Constructors of noisy releases: exactly rounded noise, and the private selection of groups."""

from sfumato.measurements.noise import NOISES, NoiseKind, gaussian, laplace
from sfumato.measurements.wide import WideIntegers

__all__ = ["NOISES", "NoiseKind", "WideIntegers", "gaussian", "laplace"]
