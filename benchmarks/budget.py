"""What a Budget says of random histories, over what is true of them when they are fixed beforehand.

    python benchmarks/budget.py [--histories 500]
    python benchmarks/budget.py --compositions


A history is of up to 60 questions with Gaussian, Laplace, joint and approximate noises. `adding` is the sum of
epsilons. The truth is by dp_accounting's privacy-loss distributions (whose grid lets them be up to 1e-3 a noise
above), and Renyi orders by its accountant, both at the budget's delta; of approximate mechanisms and joint bounds
they are told one law that has them, so that what is shown over them is no loss of ours alone. Neither may be used
where a question's epsilon follows from an answer.

`--compositions` compares the epsilon of noises of one release with that of dp_accounting at its default grid of
1e-4, and the CPU time of both without their imports. The optimistic epsilon is a lower bound.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections import Counter
from fractions import Fraction as F

from sfumato.budget import Budget, Loss

DELTA = 1e-6


def history(seed):
    """Questions: what each asked for, and its loss."""
    chosen = random.Random(seed)
    most, scale = chosen.choice([5, 20, 60]), chosen.choice([20, 100, 1000])
    for _ in range(chosen.randint(1, most)):
        rate = F(chosen.randint(1, 20), scale)
        kind = chosen.choice(["gaussian", "laplace", "joint", "approximate"])
        if kind == "gaussian":
            yield rate * 5, F("1e-9"), Loss(gaussian=rate * rate)
        elif kind == "laplace":
            count = chosen.randint(1, 4)
            yield rate * count, F(0), Loss(laplace=((rate, count),))
        elif kind == "joint":
            yield rate, F(0), Loss(laplace=((rate, 3),), pure=rate)
        else:
            yield rate, F("1e-9"), Loss(approximate=((rate, F("1e-9"), 1),))


def compared(seed):
    """Return what a budget says a history cost, its sum, and what accountants of fixed histories say."""
    from dp_accounting import GaussianDpEvent, LaplaceDpEvent
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    budget, truth, renyi = Budget(100, "1e-6"), PLDAccountant(), RdpAccountant()
    noises = Counter()
    added = F(0)
    for epsilon, delta, loss in history(seed):
        budget.spend(epsilon, delta, loss=loss)
        added += epsilon
        if loss.gaussian:
            noises["gaussian", loss.gaussian] += 1
        elif loss.pure is not None:
            noises["laplace", loss.pure] += 1
        for rate, count in () if loss.pure is not None else loss.laplace:
            noises["laplace", rate] += count
        for rate, _, count in loss.approximate:
            noises["laplace", rate] += count
    for (kind, rate), count in noises.items():
        event = (
            GaussianDpEvent(float(rate) ** -0.5) if kind == "gaussian" else LaplaceDpEvent(1 / float(rate))
        )
        truth.compose(event, count)
        renyi.compose(event, count)
    return budget.spent[0], float(added), truth.get_epsilon(DELTA), renyi.get_epsilon(DELTA)


COMPOSITIONS = [
    (Loss(laplace=((F(1, 10), 20),)), 1e-6),
    (Loss(laplace=((F(1, 3), 12),)), 1e-5),
    (Loss(laplace=((F(1, 75), 300),)), 1e-9),
    (Loss(laplace=((F(1, 100), 1000),)), 1e-6),
    (Loss(laplace=((F(1), 30),)), 1e-8),
    (Loss(laplace=((F(1, 5), 8), (F(1, 11), 15), (F(1, 2), 2))), 1e-6),
    (Loss(laplace=((F(1, 20), 4),), gaussian=F(1, 30)), 1e-6),
    (Loss(laplace=((F(3, 2), 1),), gaussian=F(1, 4)), 1e-5),
    (Loss(laplace=((F(1, 10), 9), (F(1, 4), 3)), gaussian=F(1, 10)), 1e-10),
    (Loss(laplace=tuple((F(1, 10 + i), 3) for i in range(5)), gaussian=F(1, 200)), 1e-7),
]


def epsilon_of_the_library(loss, delta, *, step=1e-4, pessimistic=True):
    from dp_accounting.pld import privacy_loss_distribution as library

    options = {
        "value_discretization_interval": step,
        "pessimistic_estimate": pessimistic,
        "use_connect_dots": pessimistic,
    }
    composed = library.identity(value_discretization_interval=step, pessimistic_estimate=pessimistic)
    for rate, count in loss.laplace:
        part = library.from_laplace_mechanism(1 / float(rate), **options)
        composed = composed.compose(part.self_compose(count))
    if loss.gaussian:
        composed = composed.compose(library.from_gaussian_mechanism(1 / math.sqrt(loss.gaussian), **options))
    return composed.get_epsilon_for_delta(delta)


def compositions():
    epsilon_of_the_library(*COMPOSITIONS[0])  # imports it
    print(
        "| noises | delta | ours | dp_accounting | ours over it | its optimistic epsilon | CPU ms | its CPU ms |"
    )
    print("|---|---|---|---|---|---|---|---|")
    ratios, mine, others = [], 0.0, 0.0
    for loss, delta in COMPOSITIONS:
        start = time.process_time()
        ours = float(loss.epsilon(delta))
        between = time.process_time()
        other = epsilon_of_the_library(loss, delta)
        end = time.process_time()
        least = epsilon_of_the_library(loss, delta, pessimistic=False)
        noises = ", ".join(f"{count} of {float(rate):.4g}" for rate, count in loss.laplace)
        noises += f", mu {math.sqrt(loss.gaussian):.3g}" if loss.gaussian else ""
        ratios.append(ours / other)
        mine, others = mine + between - start, others + end - between
        print(
            f"| {noises} | {delta:g} | {ours:.6f} | {other:.6f} | {ours / other:.6f} | {least:.6f} "
            f"| {1e3 * (between - start):.1f} | {1e3 * (end - between):.1f} |"
        )
    print(f"ratio {min(ratios):.6f} to {max(ratios):.6f}; CPU time {mine / others:.2f} of dp_accounting's")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--histories", type=int, default=500)
    parser.add_argument("--compositions", action="store_true")
    asked = parser.parse_args()
    if asked.compositions:
        compositions()
        return
    found = [compared(seed) for seed in range(asked.histories)]
    below = sum(spent < truth * 0.98 - 0.02 for spent, _, truth, _ in found)
    print(f"{len(found)} histories, {below} below the truth")
    for name, place in (("adding", 1), ("distributions", 2), ("Renyi", 3)):
        ratios = sorted(each[0] / each[place] for each in found)
        tenths = statistics.quantiles(ratios, n=10)
        print(
            f"a budget over {name:13}: median {statistics.median(ratios):.2f}, tenths {tenths[0]:.2f} to {tenths[-1]:.2f}, largest {ratios[-1]:.2f}"
        )


if __name__ == "__main__":
    main()
