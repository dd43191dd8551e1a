"""Laws of vectors, by what is known of their projections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.closeness.reference import Cdf
from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.noise import Law

Projection = Callable[[NDArray[Any]], Any]


@dataclass(frozen=True)
class VectorLaw:
    """The law of a vector, as far as the laws of some of its projections tell it.

    Numbers that each have the right law can depend on each other in a wrong way; a projection that takes them
    together, such as a norm or a largest one, sees it.

    Args:
        projections: for each name a function of all draws, an array whose first axis is the draws, to one
            number for each, and the law of that number: a law of `sfumato.noise` or a distribution function.

    >>> import numpy as np
    >>> from scipy.stats import gamma, laplace
    >>> total = lambda x: abs(x).sum(axis=1), gamma(3).cdf
    >>> law = VectorLaw({"first": (lambda x: x[:, 0], laplace.cdf), "L1": total})
    >>> [(name, numbers) for name, numbers, _ in law.of(np.ones((1, 3)))]
    [('first', array([1.])), ('L1', array([3.]))]
    """

    projections: Mapping[str, tuple[Projection, Law | Cdf]]

    def of(self, sample: Any) -> list[tuple[str, NDArray[Any], Law | Cdf]]:
        """Return each projection's name, its numbers, and their law.

        Args:
            sample: a vector in each row.
        Raises:
            ParameterError: the sample is no array of vectors, or a projection does not give a number of each.
        """
        try:
            values = np.asarray(sample)
        except ValueError:  # vectors of several lengths
            raise ParameterError("sample", sample, "vectors of one length") from None
        if values.ndim < 2 or not len(values) or values.dtype.kind not in "iuf":
            raise ParameterError(
                "sample", f"of {values.dtype} in {values.ndim} dimensions", "vectors of numbers"
            )
        found = []
        for name, (function, law) in self.projections.items():
            numbers = np.asarray(function(values))
            if numbers.shape != (len(values),):
                raise ParameterError(f"projection {name!r}", numbers.shape, "one number for each draw")
            found.append((name, numbers, law))
        if not found:
            raise ParameterError("projections", self.projections, "at least one")
        return found
