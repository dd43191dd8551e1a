"""Constructors of noisy releases: exactly rounded noise, selections, and what their losses are elsewhere."""

from typing import TYPE_CHECKING

from sfumato.measurements.centred_gaussian import centred_gaussian
from sfumato.measurements.joint_quantiles import Target, joint_quantiles
from sfumato.measurements.k_norm import k_norm
from sfumato.measurements.levels_gaussian import levels_gaussian
from sfumato.measurements.randomized_response import estimate_shares, randomized_response
from sfumato.measurements.series_gaussian import series_gaussian
from sfumato.measurements.tree_laplace import tree_laplace
from sfumato.names import face

if TYPE_CHECKING:
    from sfumato.budget.measure import PrivacyLoss
    from sfumato.measurements.conversions import convert
    from sfumato.measurements.groups import select_groups
    from sfumato.measurements.noise import NOISES, NoiseKind, gaussian, laplace
    from sfumato.measurements.noisy_max import exponential_mechanism, permute_and_flip
    from sfumato.measurements.peeling import limited_top_k, top_k
    from sfumato.measurements.selection import GaussianThreshold, LaplaceThreshold, TruncatedGeometric
    from sfumato.measurements.sparse_vector import AboveThreshold, above_threshold
    from sfumato.measurements.stratified import (
        StratifiedProportion,
        stratified_estimate,
        stratified_proportion,
    )
    from sfumato.measurements.wide import WideIntegers

__all__ = [
    "NOISES",
    "AboveThreshold",
    "GaussianThreshold",
    "LaplaceThreshold",
    "NoiseKind",
    "PrivacyLoss",
    "StratifiedProportion",
    "Target",
    "TruncatedGeometric",
    "WideIntegers",
    "above_threshold",
    "centred_gaussian",
    "convert",
    "estimate_shares",
    "exponential_mechanism",
    "gaussian",
    "joint_quantiles",
    "k_norm",
    "laplace",
    "levels_gaussian",
    "limited_top_k",
    "permute_and_flip",
    "randomized_response",
    "select_groups",
    "series_gaussian",
    "stratified_estimate",
    "stratified_proportion",
    "top_k",
    "tree_laplace",
]

# The names of each module, which is loaded when one of them is first used.
_HOMES = {
    "budget.measure": "PrivacyLoss",
    "measurements.conversions": "convert",
    "measurements.groups": "select_groups",
    "measurements.noise": "NOISES NoiseKind gaussian laplace",
    "measurements.noisy_max": "exponential_mechanism permute_and_flip",
    "measurements.peeling": "limited_top_k top_k",
    "measurements.selection": "GaussianThreshold LaplaceThreshold TruncatedGeometric",
    "measurements.sparse_vector": "AboveThreshold above_threshold",
    "measurements.stratified": "StratifiedProportion stratified_estimate stratified_proportion",
    "measurements.wide": "WideIntegers",
}

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("measurements", __all__, _HOMES)
