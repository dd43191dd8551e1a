"""How many private groups are shown: with limits of groups per unit, and with `bound(groups="shared")`.

    python benchmarks/shared_groups.py [--people 20000] [--groups 50000] [--releases 20]

Each person is in 10 groups on average (log-normal, up to hundreds), taken by Zipf's law. Releases with a limit count
units, and spend all of epsilon on counts that select groups too. Shared ones release keys, for all of epsilon or three
quarters of it: the rest is left for numbers.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa

import sfumato as sf

DELTA, LIMITS = 1e-6, (1, 2, 3, 5, 10, 20, 50, 100)


def made(people: int, groups: int) -> pa.Table:
    """Return rows of people in groups."""
    generator = np.random.default_rng(17)
    sizes = np.maximum(1, generator.lognormal(np.log(10) - 0.5, 1, people).astype(int))
    chances = 1 / np.arange(1, groups + 1)
    taken = generator.choice(groups, sizes.sum(), p=chances / chances.sum())
    return pa.table({"id": np.repeat(np.arange(people), sizes), "g": taken})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in (("people", 20_000), ("groups", 50_000), ("releases", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    grouped = sf.scan(made(given.people, given.groups), privacy_unit="id").group_by("g")
    questions = {f"groups={k}": (grouped.bound(groups=k).agg(n=sf.count_units()), 1.0) for k in LIMITS}
    shared = grouped.bound(groups="shared").agg()
    questions |= {"shared": (shared, 1.0), "shared, 3/4 of epsilon": (shared, 0.75)}
    for epsilon in (0.5, 1.0, 4.0):
        print(f"epsilon {epsilon:g}, delta {DELTA:g}; groups shown, mean of {given.releases} releases")
        for name, (question, part) in questions.items():
            shown = [
                len(question.release(epsilon=part * epsilon, delta=DELTA).to_arrow())
                for _ in range(given.releases)
            ]
            print(f"  {name:24} {np.mean(shown):7.1f}")


if __name__ == "__main__":
    main()
