"""Products, compositions and post-processing: spaces, maps, and what a wrong map would be caught at."""

from fractions import Fraction as F
from math import ceil, floor

import pytest

from sfumato import framework as fw
from sfumato.budget import Loss
from sfumato.errors import ParameterError, QueryError
from sfumato.exact import root_up
from sfumato.measurements import PrivacyLoss, convert, gaussian, laplace, permute_and_flip
from sfumato.transformations import bound_groups

NUMBERS, DISTANCE = fw.AtomDomain(F), fw.AbsoluteDistance()


def times(n):
    return fw.Transformation("times", NUMBERS, NUMBERS, DISTANCE, DISTANCE, lambda x: n * x, fw.Linear(F(n)))


def steps(n):
    """x to n * floor(x): not linear, as a distance of d may be a distance of ceil(d) steps."""
    return fw.Transformation(
        "steps", NUMBERS, NUMBERS, DISTANCE, DISTANCE, lambda x: n * floor(x), lambda d: F(n * ceil(d))
    )


def test_the_map_of_a_product():
    linear = fw.product([times(2), times(7), times(3)])
    assert linear.stability_map == fw.Linear(F(7)) and linear.map(F(1, 2)) == F(7, 2)
    assert fw.product([times(2), steps(7)]).map(F(1, 2)) == 1 + 7
    assert (linear >> fw.product([times(1), times(1), times(2)])).stability_map == fw.Linear(F(14))
    assert linear.input_domain == fw.ProductDomain(
        (NUMBERS,) * 3
    ) and linear.input_metric == fw.ProductMetric(DISTANCE)
    assert linear((1, 1, 1)) == (2, 7, 3) and linear.name == "product(times, times, times)"


def test_the_constant_is_reached():
    linear = fw.product([times(2), times(7)])
    assert linear.output_metric.distance(linear((0, 0)), linear((0, 3))) == linear.map(3)


@pytest.mark.parametrize("values", [(), (1,), (1, 2, 3)])
def test_another_number_of_parts_is_refused(values):
    with pytest.raises(QueryError, match=f"product: length of the input is {len(values)}, but must be 2$"):
        fw.product([times(1), times(2)])(values)


def test_parts_must_agree():
    with pytest.raises(QueryError, match="product: all must have the same input metric"):
        fw.product([times(1), bound_groups(1)])
    with pytest.raises(QueryError, match=r"same output metric, .*groups=1, .*groups=2, "):
        fw.product([bound_groups(1), bound_groups(2)])
    assert fw.product([bound_groups(2)] * 2).output_metric == fw.ProductMetric(fw.PrivacyUnitDistance(2))
    with pytest.raises(QueryError, match="compose: all must have the same output measure, but 'laplace'"):
        fw.compose([laplace(1), gaussian(1)])
    with pytest.raises(QueryError, match="compose: all must have the same input domain"):
        fw.compose([laplace(1), laplace(1, fw.AtomDomain(int, 0, 9))])
    vectors = fw.VectorDomain(fw.AtomDomain(int), 2)
    with pytest.raises(QueryError, match="compose: all must have the same input metric"):
        fw.compose([laplace(1, vectors), permute_and_flip(1, vectors)])
    for combine in (fw.product, fw.compose):
        with pytest.raises(ParameterError, match="at least one"):
            combine([])


def test_compositions():
    both = fw.compose([laplace(2), laplace("1/3")])
    assert (
        both.map(2) == 1 + 6
        and both.output_measure == fw.PureDP()
        and both.name == "compose(laplace, laplace)"
    )
    assert fw.compose([gaussian(1)] * 2).map(1) == root_up(F(2)) and fw.compose([gaussian(1)] * 4).map(3) == 6
    approximate = fw.compose(
        [convert(laplace(2), fw.ApproximateDP()), convert(gaussian(9), fw.ApproximateDP(), "1e-6")]
    )
    assert approximate.map(1)[0] > F(1, 2) and approximate.map(1)[1] == F("1e-6")
    losses = fw.compose([convert(laplace(2), PrivacyLoss()), convert(gaussian(2), PrivacyLoss())])
    assert losses.map(1) == Loss(gaussian=F(1, 4), approximate=((F(1, 2), F(0), 1),))
    assert (times(3) >> times(2)).map(1) == 6
    assert (times(4) >> steps(3)).map(F(1, 2)) == 6
    assert (times(2) >> fw.compose([laplace(1, NUMBERS)] * 3)).map(1) == 6
    assert fw.compose([both, both]).map(1) == 2 * both.map(1)


@pytest.mark.flakiness(k=16, because="36 pairs of draws of scale 2^57 are equal with 2^-59 each")
def test_noises_of_a_composition_are_not_one_noise():
    pairs = [fw.compose([laplace(2**57)] * 2)(0) for _ in range(8)]
    assert all(a != b for a, b in pairs) and len({a for a, _ in pairs}) == 8


@pytest.mark.flakiness(k=100, because="noise of scale 1e-9 rounds to 0")
def test_post_processing():
    seen = []
    made = fw.postprocess(laplace("1e-9"), lambda release: seen.append(release) or abs(release))
    assert made(-7) == 7 and seen == [-7]
    assert made.map(3) == laplace("1e-9").map(3) and made.output_measure == fw.PureDP()
    assert made.name == "postprocess(laplace)"
    assert fw.postprocess(fw.compose([laplace("1e-9")] * 2), sum)(4) == 8
