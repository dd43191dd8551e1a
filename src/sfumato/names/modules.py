"""What a module of ours says of a name that it does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sfumato.names.foreign import said
from sfumato.names.helpful import unknown_name

# By module, what others call what is in it.
_FOREIGN: Mapping[str, Mapping[str, str]] = {
    "transformations": said(
        {
            "clip winsorize make_clamp then_clamp make_bounded clamping": "write clamp(lower, upper)",
            "fillna fill_null make_impute_constant then_impute_constant dropna": "write impute(value)",
            "sum make_sum then_sum make_bounded_sum": "write bounded_sum(lower, upper)",
            "make_count then_count size": "write count()",
            "make_mean then_mean avg average": "write mean(lower, upper)",
            "make_count_by then_count_by value_counts count_by": "write count_by_categories(...)",
            "select make_select_column get": "write column(...)",
            "make_cast make_cast_default astype parse": "write cast(kind)",
            "std stddev make_variance var": "write variance(lower, upper)",
            "laplace gaussian make_laplace make_gaussian noise": "noise is added by sfumato.measurements",
        }
    ),
    "measurements": said(
        {
            "make_laplace then_laplace base_laplace make_geometric geometric discrete_laplace": (
                "write laplace(scale=...)"
            ),
            "make_gaussian then_gaussian base_gaussian discrete_gaussian normal analytic_gaussian": (
                "write gaussian(scale=...)"
            ),
            "report_noisy_max make_report_noisy_max noisy_max exponential make_exponential": (
                "write permute_and_flip(...) or exponential_mechanism(...)"
            ),
            "sparse_vector svt": "write above_threshold(...)",
            "topk make_topk": "write top_k(...)",
            "make_randomized_response_bool make_randomized_response rr": "write randomized_response(...)",
            "clamp sum mean count impute": "exact statistics are in sfumato.transformations",
        }
    ),
    "noise": said(
        {
            "normal Normal": "write Gaussian(scale)",
            "geometric discrete_laplace laplacian": "write Laplace(scale).rounded(n)",
            "rng seed default_rng Generator": "write SecureWords(), or SeededWords(1) in tests",
        }
    ),
    "testing": said(
        {
            "assert_close assert_almost_equal assert_allclose approx assert_equal": (
                "write assert_approx_equal(actual, expected, k=9)"
            ),
            "assert_dp assert_differentially_private check_private": "write assert_private(...)",
            "audit falsify": "it is in sfumato.audit",
        }
    ),
    "audit": said(
        {
            "check test verify dp_auditorium audit_mechanism": "write audit(mechanism, epsilon=1)",
            "neighbors neighbours neighboring": "write pairs=[(dataset, neighbour)], or edges(datasets)",
        }
    ),
    "client": said(
        {
            "open login session Session Connection Service": 'write connect("http://...", token)',
            "sql scan table catalog": 'write connect("http://...", token).sql("SELECT ...")',
        }
    ),
    "snapping": said({"snap snapping Snapping": "write SnappingMechanism(...)"}),
    "beam": said(
        {
            "Average Avg": "write Mean(...)",
            "Size Length": "write Count()",
            "PrivatePCollection make_private": "write MakePrivate(...)",
            "PrivacyIdCount": "write CountUnits()",
            "BudgetAccountant NaiveBudgetAccountant": "write Budget(epsilon=..., delta=...)",
        }
    ),
}


def advising(module: str, known: Iterable[str]) -> Callable[[str], Any]:
    """Return what a module does for a name that it does not have: raise, and say what to write instead.

    Args:
        module: its name, behind `sfumato.`.
        known: its public names.

    >>> advising("noise", ["Gaussian", "Laplace"])("laplace")
    Traceback (most recent call last):
    sfumato.errors.UnknownNameError: sfumato.noise has no laplace; did you mean Laplace?
    """
    names = tuple(known)

    def missing(name: str) -> Any:
        if name.startswith("_"):  # Python's own, which are missing as ever
            raise AttributeError(f"module 'sfumato.{module}' has no attribute {name!r}")
        advice = _FOREIGN.get(module, {})
        shown = ", ".join(names[:4])
        raise unknown_name(f"sfumato.{module}", name, names, {"": f"it has {shown} and others", **advice})

    return missing
