"""Outputs made of noisy numbers, one module for each kind: what it needs, its value, its error bar."""

from sfumato.query.estimates.counts import CountEstimate, SumEstimate
from sfumato.query.estimates.estimate import Estimate
from sfumato.query.estimates.means import MeanEstimate, StandardDeviationEstimate, VarianceEstimate
from sfumato.query.estimates.quantiles import QuantileEstimate

__all__ = [
    "CountEstimate",
    "Estimate",
    "MeanEstimate",
    "QuantileEstimate",
    "StandardDeviationEstimate",
    "SumEstimate",
    "VarianceEstimate",
]
