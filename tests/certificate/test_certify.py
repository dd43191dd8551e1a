"""Descriptions of each kind: what is certified, and what is refused."""

from fractions import Fraction

import pytest

from sfumato.certificate import CertificateError, certify
from tests.certificate.descriptions import (
    NULLS,
    ROWS,
    SQUARES,
    SUMS,
    UNITS,
    independent,
    k_norm,
    part,
    release,
    threshold,
)  # fmt: skip
from tests.certificate.plans import TOP


def test_laplace():
    one = UNITS, SUMS
    noise = independent("laplace", units=4, x_sum=12000)
    found = certify(release(part(one, noise)))
    assert (found.epsilon, found.delta, found.pure) == (1, 0, 1)


def test_less_noise_is_refused():
    noise = independent("laplace", units=4, x_sum=11999)
    with pytest.raises(CertificateError, match="delta"):
        certify(release(part((UNITS, SUMS), noise)))


def test_two_statistics_of_one_name_are_refused():
    with pytest.raises(CertificateError, match="there once"):
        certify(release(part((ROWS, ROWS), independent("laplace", rows=100))))


def test_a_threshold_on_parts_of_a_unit_is_refused():
    rule, noise = threshold(100), independent("laplace", units=100)
    for units in (UNITS | {"one": "2"}, ROWS | {"name": "units"}):
        described = part([units], noise, selection=rule, keys="private", delta="1/2")
        with pytest.raises(CertificateError, match="expected units"):
            certify(release(described))


def test_one_draw_for_private_groups_is_refused():
    noise = k_norm(["units"]) | {"scales": {"units": "100"}}
    with pytest.raises(CertificateError, match="public"):
        certify(release(part([UNITS], noise, selection=threshold(999), keys="private", delta="1/2")))


def test_units_are_scaled_among_groups_that_all_are_shown():
    """Also where a pipeline brings the keys; not where a selection looks at units."""
    count = [UNITS | {"one": str(1 << 20)}]
    noise = independent("laplace", units=2 << 20)
    for keys in ("public", "brought"):
        assert certify(release(part(count, noise, keys=keys, beyond="scale"))).epsilon == 1
    chosen = {"kind": "truncated_geometric", "epsilon": "1/2", "delta": "1/1000", "pre_threshold": 1}
    private = part(count, noise, "3", "1/100", chosen, keys="private")
    assert certify(release(private)).pure == 2
    private["groups"]["beyond"] = "scale"
    with pytest.raises(CertificateError, match="scaling needs public keys"):
        certify(release(private))


def test_a_unit_shares_a_weight_with_gaussian_noise_and_a_threshold_alone():
    units, limits = UNITS | {"one": str(1 << 20)}, {"keys": "private", "beyond": "share", "per_unit": 1000}
    gaussian, rule = independent("gaussian", units=5 << 20), threshold(31 << 20)
    made = part([units], gaussian, delta="1/1000000", selection=rule, **limits)
    assert certify(release(made)).mu_squared == Fraction(1, 25)
    geometric = {"kind": "truncated_geometric", "epsilon": "1/9", "delta": "1/10000000", "pre_threshold": 1}
    for change in (
        {"noise": independent("laplace", units=500 << 20)},
        {"selection": geometric},
        {"selection": threshold(31)},
        {"statistics": [UNITS], "noise": independent("gaussian", units=5), "selection": threshold(31)},
        {"groups": made["groups"] | {"keys": "public", "shown": 5}, "selection": None},
        {"groups": made["groups"] | {"per_unit": None}},
        {"groups": made["groups"] | {"total_rows": 5}},
    ):
        with pytest.raises(CertificateError):
            certify(release(made | change))


def test_parts_add_up():
    one = part([UNITS], independent("gaussian", units=12), delta="1/1000000", per_unit=2)
    found = certify(release(one, one, epsilon="2", delta="1/500000"))
    assert found.mu_squared == Fraction(4, 144) and found.epsilon == 2 and found.rho == Fraction(1, 72)
    with pytest.raises(CertificateError, match="together"):
        certify(release(one, one, epsilon="1", delta="1/500000"))


def test_numbers_for_a_ledger():
    rule = threshold(40)
    described = part([UNITS, SUMS], independent("laplace", units=4, x_sum=12000), selection=rule, keys="private",
                     delta="1/1000")  # fmt: skip
    found = certify(release(described))
    assert found.pure == 1 and found.mu_squared is None and found.events == found.delta > 0
    assert found.rho == Fraction(1, 8)


def test_laplace_noise_on_squares_has_half_of_their_squared_distance_as_rho():
    """Largest in the square alone, or with the sum at its end; in two groups of three rows."""
    found = certify(release(part([SQUARES], independent("laplace", x_sum=15000, x_squares=468750))))
    square = (Fraction(62501, 2) / 468750) ** 2 + Fraction(1000, 15000) ** 2
    exact = (Fraction(31250) / 468750) ** 2 + Fraction(1000, 15000) ** 2
    assert found.rho == 2 * 9 * exact / 2 < 2 * 9 * square / 2 and found.rho < found.pure**2 / 2


def test_squares_about_a_high_centre():
    """Most of their range is below the centre: an empty row adds as much as the centre."""
    high = SQUARES | {"squares": SQUARES["squares"] | {"centre": "62500"}}
    noise = independent("laplace", x_sum=10**9, x_squares=3 * 62500)
    assert certify(release(part([high], noise, per_unit=1, epsilon="101/100"))).epsilon > 1
    noise = k_norm(["rows", "x.sum", "x.squares"]) | {
        "scales": {"rows": "3", "x.sum": "3000", "x.squares": "187500"}
    }
    assert certify(release(part([ROWS, high], noise))).epsilon == 1
    with pytest.raises(CertificateError):
        certify(release(part([ROWS, high], noise, epsilon="99/100")))


@pytest.mark.parametrize("pairs", [[(0, 0), (0, 0)], [(1, 0)], [(0, 2)]])
def test_products_are_of_two_columns_and_there_once(pairs):
    ends = {"lower": "-9", "upper": "9", "centre": "0", "square_centre": "40"}
    columns = [{"name": name} | ends for name in "xy"]
    named = [{"name": f"p{at}", "first": i, "second": j} for at, (i, j) in enumerate(pairs)]
    cross = {"kind": "cross", "rows": 1, "complete": None, "columns": columns, "pairs": named}
    scales = dict.fromkeys(["x", "y", *(pair["name"] for pair in named)], 10**6)
    with pytest.raises(CertificateError, match=r"pairs|p0"):
        certify(release(part([cross], independent("laplace", **scales))))


@pytest.mark.parametrize("change", [{"lower": "-1"}, {"candidates": 4}])
def test_private_groups_have_no_numbers_below_0_and_enough_candidates(change):
    found = {
        "keys": "private",
        "candidates": 100,
        "margin": 20000,
        "delta": "1/100",
        "rate": "1/1000",
        "noise": None,
    }
    assert certify(release(TOP | found)).pure == Fraction(5, 1000)
    with pytest.raises(CertificateError, match="candidates"):
        certify(release(TOP | found | change))


def test_numbers_beyond_floats_are_refused():
    for scale, epsilon in (("1", "1" + "0" * 300), ("1", "1" + "0" * 400), ("1" + "0" * 200, "1")):
        with pytest.raises(CertificateError):
            certify(release(part([UNITS], independent("gaussian", units=scale), epsilon=epsilon)))


def test_choices_have_an_eighth_of_the_square_of_their_epsilon_as_rho():
    found = certify(release(TOP | {"noise": None}))
    assert (found.pure, found.rho) == (Fraction(1, 2), 5 * Fraction(1, 100) / 8)


def test_rows_that_have_a_value_or_none_have_the_rho_of_the_farther():
    noise = independent("laplace", rows=12, x_sum=12000, x_nulls=3072)
    assert certify(release(part([ROWS, NULLS], noise))).rho == Fraction(1, 8)


@pytest.mark.parametrize(("within", "moved"), [(False, Fraction(3, 8)), (True, Fraction(7, 16))])
def test_places_are_chosen_by_the_farthest_a_row_moves_their_ranks(within, moved):
    """Three rows of 1/12 in each of two groups: down by 3/4, and up by as much, or by 1 where targets are clamped."""
    targets = [{"rank": "3/4", "within": within}]
    choice = {"kind": "quantiles", "name": "x", "rows": 3, "one": "1", "scale": "12", "targets": targets}
    found = certify(release(part([UNITS], independent("laplace", units=10**9), choices=[choice])))
    assert found.pure == 2 * moved + Fraction(2, 10**9)
    assert found.rho == 2 * moved**2 / 8 + Fraction(1, 10**18)
