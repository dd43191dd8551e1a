"""What a privacy claim is made of: domains, metrics, measures, and the two kinds of function.

A `Transformation` maps a domain to a domain and says how far apart outputs can lie when inputs
lie `d_in` apart (its stability map). A `Measurement` adds noise and says what that costs (its
privacy map). `>>` chains them after checking that the spaces meet.
"""

from typing import TYPE_CHECKING

from sfumato.names import face

if TYPE_CHECKING:
    from sfumato.framework.combinators import Odometer, compose, postprocess, product
    from sfumato.framework.contribution_bodies import (
        Ball,
        BallBody,
        Body,
        ConeBody,
        CubeBody,
        Norm,
        Product,
        RowsBody,
        Segment,
    )
    from sfumato.framework.core import Linear, Measurement, Transformation
    from sfumato.framework.domains import (
        WEIGHT_BITS,
        WHOLE,
        AtomDomain,
        CategoryDomain,
        ContributionDomain,
        Domain,
        GroupedIntegers,
        Part,
        ProductDomain,
        Row,
        RowsDomain,
        TableDomain,
        VectorDomain,
    )
    from sfumato.framework.group_metrics import (
        CentredDistance,
        GroupMetric,
        KNormDistance,
        LevelsDistance,
        SeriesDistance,
        TimeStepsDistance,
        TreeDistance,
    )
    from sfumato.framework.measures import (
        ApproximateDP,
        Filter,
        GaussianDP,
        Measure,
        PureDP,
        ZeroConcentratedDP,
    )
    from sfumato.framework.metrics import (
        AbsoluteDistance,
        ChangeOneDistance,
        ContributionDistance,
        DiscreteDistance,
        L1Distance,
        L2Distance,
        LInfDistance,
        Metric,
        OneSidedDistance,
        PrivacyUnitDistance,
        ProductMetric,
        SpreadDistance,
        SymmetricDistance,
    )

__all__ = [
    "WEIGHT_BITS",
    "WHOLE",
    "AbsoluteDistance",
    "ApproximateDP",
    "AtomDomain",
    "Ball",
    "BallBody",
    "Body",
    "CategoryDomain",
    "CentredDistance",
    "ChangeOneDistance",
    "ConeBody",
    "ContributionDistance",
    "ContributionDomain",
    "CubeBody",
    "DiscreteDistance",
    "Domain",
    "Filter",
    "GaussianDP",
    "GroupMetric",
    "GroupedIntegers",
    "KNormDistance",
    "L1Distance",
    "L2Distance",
    "LInfDistance",
    "LevelsDistance",
    "Linear",
    "Measure",
    "Measurement",
    "Metric",
    "Norm",
    "Odometer",
    "OneSidedDistance",
    "Part",
    "PrivacyUnitDistance",
    "Product",
    "ProductDomain",
    "ProductMetric",
    "PureDP",
    "Row",
    "RowsBody",
    "RowsDomain",
    "Segment",
    "SeriesDistance",
    "SpreadDistance",
    "SymmetricDistance",
    "TableDomain",
    "TimeStepsDistance",
    "Transformation",
    "TreeDistance",
    "VectorDomain",
    "ZeroConcentratedDP",
    "compose",
    "postprocess",
    "product",
]

# The names of each module, which is loaded when one of them is first used.
_HOMES = {
    "framework.contribution_bodies": "Ball BallBody Body ConeBody CubeBody Norm Product RowsBody Segment",
    "framework.combinators": "Odometer compose postprocess product",
    "framework.core": "Linear Measurement Transformation",
    "framework.domains": (
        "WEIGHT_BITS WHOLE AtomDomain CategoryDomain ContributionDomain Domain GroupedIntegers Part "
        "ProductDomain Row RowsDomain TableDomain VectorDomain"
    ),
    "framework.group_metrics": (
        "CentredDistance GroupMetric KNormDistance LevelsDistance SeriesDistance TimeStepsDistance "
        "TreeDistance"
    ),
    "framework.measures": "ApproximateDP Filter GaussianDP Measure PureDP ZeroConcentratedDP",
    "framework.metrics": (
        "AbsoluteDistance ChangeOneDistance ContributionDistance DiscreteDistance L1Distance "
        "L2Distance LInfDistance Metric OneSidedDistance PrivacyUnitDistance ProductMetric "
        "SpreadDistance SymmetricDistance"
    ),
}

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("framework", __all__, _HOMES)
