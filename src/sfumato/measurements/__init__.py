"""Constructors of noisy releases: exactly rounded noise, selections, and what their losses are elsewhere."""

from typing import TYPE_CHECKING

from sfumato.measurements.randomized_response import estimate_shares, randomized_response
from sfumato.names import face

if TYPE_CHECKING:
    from sfumato.budget.loss import PrivacyLoss
    from sfumato.measurements.candidate_selection import (
        exponential_mechanism,
        limited_top_k,
        permute_and_flip,
        top_k,
    )
    from sfumato.measurements.correlated_noise import (
        centred_gaussian,
        k_norm,
        levels_gaussian,
        series_gaussian,
        tree_laplace,
    )
    from sfumato.measurements.group_selection import (
        GaussianThreshold,
        LaplaceThreshold,
        SharedThreshold,
        TruncatedGeometric,
        select_groups,
    )
    from sfumato.measurements.independent_noise import NOISES, NoiseKind, gaussian, laplace
    from sfumato.measurements.int128_array import Int128Array
    from sfumato.measurements.loss_conversion import convert
    from sfumato.measurements.quantile_choice import Target, joint_quantiles
    from sfumato.measurements.sparse_vector import AboveThreshold, above_threshold
    from sfumato.measurements.stratified_survey import (
        StratifiedProportion,
        stratified_estimate,
        stratified_proportion,
    )

__all__ = [
    "NOISES",
    "AboveThreshold",
    "GaussianThreshold",
    "Int128Array",
    "LaplaceThreshold",
    "NoiseKind",
    "PrivacyLoss",
    "SharedThreshold",
    "StratifiedProportion",
    "Target",
    "TruncatedGeometric",
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
    "budget.loss": "PrivacyLoss",
    "measurements.candidate_selection": "exponential_mechanism limited_top_k permute_and_flip top_k",
    "measurements.correlated_noise": "centred_gaussian k_norm levels_gaussian series_gaussian tree_laplace",
    "measurements.group_selection": "GaussianThreshold LaplaceThreshold SharedThreshold TruncatedGeometric "
    "select_groups",
    "measurements.independent_noise": "NOISES NoiseKind gaussian laplace",
    "measurements.loss_conversion": "convert",
    "measurements.quantile_choice": "Target joint_quantiles",
    "measurements.sparse_vector": "AboveThreshold above_threshold",
    "measurements.stratified_survey": "StratifiedProportion stratified_estimate stratified_proportion",
    "measurements.int128_array": "Int128Array",
}

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("measurements", __all__, _HOMES)
