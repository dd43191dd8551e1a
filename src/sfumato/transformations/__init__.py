"""Constructors of exact statistics.

`bound_groups(...) >> per_group([...])` is the definition that every engine computes, or the same with
`scale_groups`: bound what each unit contributes, then add up, per group, integers that each unit contributes.
A statistic states the largest contribution of one unit to one group; nothing else knows a sensitivity.

Where each record is a unit of its own, `records/` has the usual steps on vectors and tables, such as
`impute(0) >> clamp(0, 1) >> bounded_sum(0, 1)`.
"""

from typing import TYPE_CHECKING

from sfumato.names import face

if TYPE_CHECKING:
    from sfumato.framework import Ball, Norm, Row
    from sfumato.transformations.contribution_bounding import (
        bound_groups,
        bound_rows,
        bound_total_rows,
        scale_groups,
        share_groups,
    )
    from sfumato.transformations.grid import Grid, ValueGrid
    from sfumato.transformations.quantile_lattice import Lattice
    from sfumato.transformations.record_columns import cast, clamp, column, impute
    from sfumato.transformations.record_sums import (
        bounded_sum,
        count,
        count_by_categories,
        covariance,
        histogram,
        mean,
        variance,
    )
    from sfumato.transformations.statistics.count import Count, CountUnits
    from sfumato.transformations.statistics.cross_moments import Axis, CrossMoments
    from sfumato.transformations.statistics.distinct_values import DistinctMatched, DistinctShared
    from sfumato.transformations.statistics.moments import Moments
    from sfumato.transformations.statistics.quantile_counts import Leaves, Margin, QuantileTree, ValueTree
    from sfumato.transformations.statistics.rows_in_bins import (
        Edges,
        Listed,
        RowsInBins,
        UnitsInBins,
        WeightsInBins,
        YesInStrata,
    )
    from sfumato.transformations.statistics.statistic import (
        Coordinate,
        Role,
        Statistic,
        body_in_all,
        cone_of,
        per_group,
    )
    from sfumato.transformations.statistics.unit_sum import UnitSum
    from sfumato.transformations.statistics.vector_sum import VectorCount, VectorSum
    from sfumato.transformations.statistics.weighted_sum import WeightedSum, WeightGrid
    from sfumato.transformations.stratified_design import (
        make_lipschitz_sized_proportion_ci_mean,
        make_lipschitz_sized_proportion_ci_variance,
        stratum_sums,
    )

__all__ = [
    "Axis",
    "Ball",
    "Coordinate",
    "Count",
    "CountUnits",
    "CrossMoments",
    "DistinctMatched",
    "DistinctShared",
    "Edges",
    "Grid",
    "Lattice",
    "Leaves",
    "Listed",
    "Margin",
    "Moments",
    "Norm",
    "QuantileTree",
    "Role",
    "Row",
    "RowsInBins",
    "Statistic",
    "UnitSum",
    "UnitsInBins",
    "ValueGrid",
    "ValueTree",
    "VectorCount",
    "VectorSum",
    "WeightGrid",
    "WeightedSum",
    "WeightsInBins",
    "YesInStrata",
    "body_in_all",
    "bound_groups",
    "bound_rows",
    "bound_total_rows",
    "bounded_sum",
    "cast",
    "clamp",
    "column",
    "cone_of",
    "count",
    "count_by_categories",
    "covariance",
    "histogram",
    "impute",
    "make_lipschitz_sized_proportion_ci_mean",
    "make_lipschitz_sized_proportion_ci_variance",
    "mean",
    "per_group",
    "scale_groups",
    "share_groups",
    "stratum_sums",
    "variance",
]

# The names of each module, which is loaded when one of them is first used.
_HOMES = {
    "framework": "Ball Norm Row",
    "transformations.grid": "Grid ValueGrid",
    "transformations.quantile_lattice": "Lattice",
    "transformations.record_columns": "cast clamp column impute",
    "transformations.record_sums": "bounded_sum count count_by_categories covariance histogram mean variance",
    "transformations.contribution_bounding": "bound_groups bound_rows bound_total_rows scale_groups "
    "share_groups",
    "transformations.statistics.count": "Count CountUnits",
    "transformations.statistics.cross_moments": "Axis CrossMoments",
    "transformations.statistics.distinct_values": "DistinctMatched DistinctShared",
    "transformations.statistics.moments": "Moments",
    "transformations.statistics.quantile_counts": "Leaves Margin QuantileTree ValueTree",
    "transformations.statistics.rows_in_bins": (
        "Edges Listed RowsInBins UnitsInBins WeightsInBins YesInStrata"
    ),
    "transformations.statistics.statistic": "Coordinate Role Statistic body_in_all cone_of per_group",
    "transformations.statistics.unit_sum": "UnitSum",
    "transformations.statistics.vector_sum": "VectorCount VectorSum",
    "transformations.statistics.weighted_sum": "WeightedSum WeightGrid",
    "transformations.stratified_design": (
        "make_lipschitz_sized_proportion_ci_mean make_lipschitz_sized_proportion_ci_variance stratum_sums"
    ),
}

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("transformations", __all__, _HOMES)
