"""What a privacy claim is made of: domains, metrics, measures, and the two kinds of function.

A `Transformation` maps a domain to a domain and says how far apart outputs can lie when inputs
lie `d_in` apart (its stability map). A `Measurement` adds noise and says what that costs (its
privacy map). `>>` chains them after checking that the spaces meet.
"""

from sfumato.framework.core import Measurement, Transformation
from sfumato.framework.spaces import (
    ApproximateDP,
    ContributionDomain,
    GaussianDP,
    GroupedIntegers,
    L1Distance,
    L2Distance,
    PairDistance,
    PrivacyUnitDistance,
    PureDP,
    RowsDomain,
)

__all__ = [
    "ApproximateDP",
    "ContributionDomain",
    "GaussianDP",
    "GroupedIntegers",
    "L1Distance",
    "L2Distance",
    "Measurement",
    "PairDistance",
    "PrivacyUnitDistance",
    "PureDP",
    "RowsDomain",
    "Transformation",
]
