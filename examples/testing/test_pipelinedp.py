"""Results of PipelineDP, held to tolerances and to the presence of their noise.

pip install "pipeline-dp>=0.3.1,<0.4" ../.. pytest
pytest test_pipelinedp.py
"""

from __future__ import annotations

import pipeline_dp
import pytest

from sfumato.noise import Laplace
from sfumato.testing import assert_approx_equal, assert_noisy, mean_tolerance

# Every person rates three films once each.
FILMS = ["a", "b", "c"]
RATINGS = [(person, film, 1 + (person + i) % 5) for person in range(2000) for i, film in enumerate(FILMS)]


def released(metrics: list, epsilon: float, films: list[str], rows: list[tuple]) -> dict:
    """Run the library's own engine on this machine, with public films."""
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    params = pipeline_dp.AggregateParams(
        metrics=metrics,
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        max_partitions_contributed=3,
        max_contributions_per_partition=1,
        min_value=1,
        max_value=5,
    )
    columns = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda r: r[0],
        partition_extractor=lambda r: r[1],
        value_extractor=lambda r: r[2],
    )
    result = engine.aggregate(rows, params, columns, public_partitions=films)
    budget.compute_budgets()
    return dict(result)


@pytest.mark.flakiness(k=23)
def test_counts_by_film() -> None:
    """A person is in three films: the sensitivity is 3, and epsilon 1 gives the scale."""
    noisy = released([pipeline_dp.Metrics.COUNT], 1.0, FILMS, RATINGS)
    counts = {film: row.count for film, row in noisy.items()}
    assert_approx_equal(counts, dict.fromkeys(FILMS, 2000), law=Laplace(3))


@pytest.mark.flakiness(k=23)
def test_a_swapped_film_is_found() -> None:
    """The message names both films."""
    few = [r for r in RATINGS if r[1] != "b" or r[0] < 500]
    noisy = released([pipeline_dp.Metrics.COUNT], 1.0, FILMS, few)
    with pytest.raises(AssertionError, match="2 of 3 values are off"):
        assert_approx_equal(
            {film: row.count for film, row in noisy.items()}, {"a": 500, "b": 2000, "c": 2000}, law=Laplace(3)
        )


@pytest.mark.flakiness(k=23)
def test_means_by_film(flakiness) -> None:
    """Half of epsilon for the count, half for the sum of distances from 3, which are at most 2.

    PipelineDP rounds neither the count's noise nor the sum's.
    """
    noisy = released([pipeline_dp.Metrics.MEAN], 2.0, FILMS, RATINGS)
    truth = {film: [r[2] for r in RATINGS if r[1] == film] for film in FILMS}
    k = flakiness.share(partitions=len(FILMS))
    tolerance = {
        film: mean_tolerance(
            k,
            normalized_sum=sum(v - 3 for v in values),
            count=len(values),
            sum_noise=Laplace(2 * 3),
            count_noise=Laplace(3),
            rounded="none",
            lower=1,
            upper=5,
        )
        for film, values in truth.items()
    }
    expected = {film: sum(values) / len(values) for film, values in truth.items()}
    assert_approx_equal({film: row.mean for film, row in noisy.items()}, expected, tolerance=tolerance)


@pytest.mark.flakiness(k=23)
def test_a_thousand_counts_are_noisy() -> None:
    """Empty films are public too: their counts are nothing but noise."""
    films = [str(i) for i in range(1500)]
    noisy = released([pipeline_dp.Metrics.COUNT], 0.1, films, RATINGS[:3])
    counts = {film: row.count for film, row in noisy.items()}
    assert_noisy(counts, dict.fromkeys(films, 0), law=Laplace(30))
    with pytest.raises(AssertionError, match="too narrow"):
        assert_noisy(counts, dict.fromkeys(films, 0), law=Laplace(45))
