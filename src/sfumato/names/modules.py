"""What a module of ours says of a name that it does not have."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
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
    "framework": said(
        {
            "make_chain_tt make_chain_mt make_chain_pm chain then Chain": "write one >> other",
            "Composition make_composition make_basic_composition": "write compose([...])",
            "make_adaptive_composition make_sequential_composition Queryable PrivacyOdometer PrivacyFilter "
            "Accountant PrivacyAccountant Session": "write Odometer(data, ...)",
            "Parallel ParallelComposition make_parallel": "write product([...])",
            "make_postprocess make_fully_adaptive post_process": "write postprocess(measurement, function)",
            "make_user_transformation new_transformation user_transformation": "write Transformation(...)",
            "make_user_measurement new_measurement user_measurement": "write Measurement(...)",
            "atom_domain AllDomain option_domain": "write AtomDomain(int, lower=0, upper=100)",
            "vector_domain ListDomain": "write VectorDomain(AtomDomain(float))",
            "series_domain lazyframe_domain map_domain DataFrameDomain": "write TableDomain(...)",
            "symmetric_distance insert_delete_distance AddRemoveDistance": "write SymmetricDistance()",
            "change_one_distance hamming_distance HammingDistance": "write ChangeOneDistance()",
            "absolute_distance": "write AbsoluteDistance()",
            "l1_distance ManhattanDistance": "write L1Distance()",
            "l2_distance EuclideanDistance": "write L2Distance()",
            "linf_distance": "write LInfDistance()",
            "max_divergence EpsilonDP": "write PureDP()",
            "smoothed_max_divergence fixed_smoothed_max_divergence ApproxDP ApproximateDp EpsilonDelta": (
                "write ApproximateDP()"
            ),
            "zero_concentrated_divergence RhoZCDP zCDP ZCDP CDP": "write ZeroConcentratedDP()",
            "gaussian_dp f_dp GDP": "write GaussianDP()",
            "renyi_divergence RenyiDP RDP": "write ZeroConcentratedDP(), which bounds every order at once",
            "enable_features": "nothing needs to be enabled here",
            "laplace gaussian make_laplace make_gaussian Laplace Gaussian": (
                "mechanisms are in sfumato.measurements, laws of noise in sfumato.noise"
            ),
            "clamp count sum mean impute histogram make_clamp make_sum": (
                "exact statistics are in sfumato.transformations"
            ),
        }
    ),
    "budget": said(
        {
            "Accountant PrivacyAccountant BudgetAccountant NaiveBudgetAccountant PLDBudgetAccountant "
            "RdpAccountant PldAccountant PureDPBudget ApproxDPBudget RhoZCDPBudget PrivacyBudget Odometer "
            "Session": "write Budget(epsilon=3, delta=1e-6)",
            "Ledger open load save": 'write sfumato.Ledger("budget.db"), which keeps budgets on disk',
            "Composition compose composition add": "losses are added: Loss(...) + Loss(...)",
            "zcdp rdp pld rho get_epsilon compute_epsilon": 'write Loss(...).epsilon(delta="1e-6")',
            "delta get_delta compute_delta": "write Loss(...).delta(epsilon)",
            "analytic_gaussian calibrate_analytic_gaussian sigma get_sigma": "write gaussian_sigma(...)",
            "binary_search binary_search_param binary_search_chain": "write calibrate(...)",
            "split divide": "delta is split over groups by split_delta(delta, groups)",
            "epsilon Epsilon explain meaning": "what an epsilon promises says sfumato.explain_epsilon(1)",
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
                "write assert_approx_equal(actual, expected, tolerance=0.1)"
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
            "MakePrivate PrivatePCollection make_private": "write ToRows(columns, function)",
            "Count CountUnits CountDistinct Sum Mean Variance Quantiles Median": (
                "write Release(question, epsilon=1), of a question with sf.count() and its kin"
            ),
            "Budget BudgetAccountant NaiveBudgetAccountant": "write sfumato.Budget(epsilon=..., delta=...)",
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


def face(
    module: str, known: Iterable[str], homes: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return what a module of ours has as `__getattr__` and as `__dir__`.

    The first loads the module that has a name, where that is not loaded, and advises on unknown names. A name
    must not be that of a module in the same package, which would take its place.

    Args:
        module: its name, behind `sfumato.`.
        known: its public names.
        homes: by module, likewise behind `sfumato.`, which names it has, with spaces between them.

    >>> missing, listed = face("noise", ["Laplace", "Gaussian"])
    >>> listed()
    ['Gaussian', 'Laplace']
    """
    names = sorted(known)
    places = {name: home for home, held in (homes or {}).items() for name in held.split()}
    missing = advising(module, names)

    def found(name: str) -> Any:
        if name not in places:
            return missing(name)
        value = getattr(import_module(f"sfumato.{places[name]}"), name)
        setattr(sys.modules[f"sfumato.{module}"], name, value)
        return value

    return found, lambda: list(names)
