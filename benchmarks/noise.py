"""How fast exactly rounded noise is drawn, as ratios to NumPy's plain generators in the same run.

    python benchmarks/noise.py
    python benchmarks/noise.py --many 5 20 50 100 200    # K-norm noise of so many sums
    python benchmarks/noise.py --peers --python PATH     # PATH: a Python that has opendp and diffprivlib

Repetitions of all contestants take turns, so that a busy machine slows them alike; medians are shown.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
import pyarrow as pa
from _runs import run

import sfumato as sf
from sfumato.noise import DiscreteLaplace, Gaussian, Laplace, SecureWords
from sfumato.noise.k_norm import Cone, JointNoise, SeparateNoise
from sfumato.noise.rounded_sampler import Sampler

scales = {"1": 1, "1000": 1000, "2^30": 2**30}
LAWS = {"Laplace": Laplace, "discrete Laplace": DiscreteLaplace, "Gaussian": Gaussian}

_peers = r"""
import json, sys, time
count = int(sys.argv[1])

def per_draw(draw, count):
    draw()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        draw()
        times.append((time.perf_counter() - start) / count * 1e9)
    return sorted(times)[1]

found = {}
try:
    import opendp.prelude as dp
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int))
    zeros = [0] * count
    for name, make, metric in (
        ("Laplace", dp.m.make_laplace, dp.l1_distance(T=int)),
        ("Gaussian", dp.m.make_gaussian, dp.l2_distance(T=float)),
    ):
        for scale in (1.0, 1000.0, 2.0**30):
            noise = make(space, metric, scale=scale)
            found[f"OpenDP {name} {scale:g} (discrete)"] = per_draw(lambda: noise(zeros), count)
except Exception as error:
    found[f"opendp: {error!r}"[:200]] = None
try:
    from diffprivlib.mechanisms import GaussianDiscrete, Geometric, Laplace, Snapping
    several = {
        "diffprivlib Laplace 1 (float)": Laplace(epsilon=1, sensitivity=1),
        "diffprivlib Geometric 1 (discrete)": Geometric(epsilon=1, sensitivity=1),
        "diffprivlib GaussianDiscrete": GaussianDiscrete(epsilon=1, delta=1e-6, sensitivity=1),
        "diffprivlib Snapping 1": Snapping(epsilon=1, sensitivity=1, lower=-1000.0, upper=1000.0),
    }
    for name, mechanism in several.items():
        found[name] = per_draw(lambda: [mechanism.randomise(0) for _ in range(count)], count)
except Exception as error:
    found[f"diffprivlib: {error!r}"[:200]] = None
print(json.dumps(found))
"""


def interleaved(contestants: dict[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Return the median seconds of each contestant, all taking turns."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for contestant in contestants.values():
        contestant()
    for _ in range(repetitions):
        for name, contestant in contestants.items():
            start = time.perf_counter()
            contestant()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(t) for name, t in times.items()}


def slow_rate(law: Laplace | Gaussian, n: int) -> float:
    """Return the share of draws that go to the exact path."""
    sampler, slow = Sampler(law.standard, Fraction(law.unit), law.discrete), 0
    settle = sampler.exact.settle

    def counted(*args: object) -> int:
        nonlocal slow
        slow += 1
        return settle(*args)  # type: ignore[arg-type]

    sampler.exact.settle = counted  # type: ignore[method-assign]
    sampler.draw(n, SecureWords())
    return slow / n


def k_norm(n: int, repetitions: int) -> None:
    """Print what a number of K-norm noise costs beside one of Laplace noise, for n groups.

    On the grid of a plan signed numbers have noise of about 2^30 steps: that of all groups together is n scales wide.
    """
    print("\nK-norm noise, ns per coordinate of a group, and over as many draws of Laplace noise\n")
    cones = {
        "n": Cone(0),
        "n, s": Cone(1),
        "n, 3 s": Cone(3),
        "u, n, s": Cone(1, True),
        "u, n, 2 s": Cone(2, True),
        "n, 6 s": Cone(6),
        "u, n, 5 s": Cone(5, True),
    }
    grids = {"1": (1, 1), "1000": (1000, 1000), "plan": (Fraction(2**30, n), Fraction(2**30))}
    for label, cone in cones.items():
        for grid, own in grids.items():
            firsts = 1 if grid == "plan" else own[0]
            counts = (Fraction(firsts),) * (cone.dimensions - cone.signed)
            all_scales = [(*counts, *(Fraction(scale),) * cone.signed) for scale in own]
            together, separate = JointNoise(cone, all_scales[0], n), SeparateNoise(cone, all_scales[1])
            plain = Laplace(own[1])
            seconds = interleaved(
                {
                    "joint": together.rounded,
                    "separate": lambda: separate.rounded(n),  # noqa: B023
                    "laplace": lambda: plain.rounded(n),  # noqa: B023
                },
                repetitions,
            )
            for kind in ("joint", "separate"):
                each = seconds[kind] / n / cone.dimensions * 1e9
                ratio = seconds[kind] / seconds["laplace"] / cone.dimensions
                print(f"{label:10}{grid:>6} {kind:10}{each:>8.1f}{ratio:>8.2f}")


def many_numbers(counts: Sequence[int]) -> None:
    """Print what a release of so many sums takes, and how large its noise is beside other noise."""
    print(
        "\nsums of one release of all rows, at epsilon 1 (and delta 1e-6): deviations of the noise of each, in its bounds"
    )
    print(
        f"{'sums':>6}{'K-norm':>9}{'Laplace':>9}{'Gaussian':>9}   CPU seconds: plan, release, bars; a preview"
    )
    for count in counts:
        rows = pa.table({"id": range(1000), **{f"v{i}": [j % 7 for j in range(1000)] for i in range(count)}})
        sums = {f"s{i}": sf.sum(f"v{i}", lower=0, upper=6) for i in range(count)}
        asked = sf.scan(rows, privacy_unit="id").bound(rows=1).agg(**sums)
        sizes = []
        for noise in ("k_norm", "laplace", "gaussian"):
            plan = asked.plan(epsilon=1, delta=1e-6 if noise == "gaussian" else 0, noise=noise)
            sizes.append(plan.expected["s0"] / 6)
        took = []
        release = asked.release(epsilon=1, noise="k_norm", budget=sf.Budget(1))
        for ask in (
            partial(asked.plan, epsilon=1.001, noise="k_norm"),
            release.to_arrow,
            release.errors,
            partial(asked.preview, units=1000, epsilon=1, noise="k_norm"),
        ):
            began = time.process_time()
            ask()
            took.append(time.process_time() - began)
        numbers = "".join(f"{size:9.1f}" for size in sizes) + "   " + ", ".join(f"{s:.2f}" for s in took)
        print(f"{count:6}{numbers}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--peers", action="store_true", help="measure OpenDP and diffprivlib as well")
    parser.add_argument("--python", help="the Python that has them")
    parser.add_argument(
        "--many", type=int, nargs="+", help="only what sums of one release take, so many of them"
    )
    given = parser.parse_args()
    if given.many:
        return many_numbers(given.many)
    n, rng = given.draws, np.random.default_rng()

    for name, law in LAWS.items():
        start = time.perf_counter()
        law(1).rounded(1)
        print(f"{name}: first draw, with its table, {(time.perf_counter() - start) * 1e3:.0f} ms")
    print(f"\n{n:,} draws, ns per draw, one thread\n")
    print(f"{'law':17}{'scale':>8}{'sfumato':>10}{'numpy':>9}{'ratio':>8}{'slow draws':>12}")
    for name, law in LAWS.items():
        plain = rng.normal if law is Gaussian else rng.laplace
        for label, scale in scales.items():
            ours = law(scale)
            seconds = interleaved(
                {
                    "sfumato": lambda: ours.rounded(n),  # noqa: B023
                    "numpy": lambda: np.rint(plain(0.0, scale, size=n)),  # noqa: B023
                },
                given.repetitions,
            )
            a, b = (seconds[k] / n * 1e9 for k in ("sfumato", "numpy"))
            print(f"{name:17}{label:>8}{a:>10.1f}{b:>9.1f}{a / b:>8.2f}{slow_rate(ours, n):>12.1e}")
    print("\nabove, where the table no longer tells integers apart\n")
    for name, law in LAWS.items():
        for power in (40, 50, 57):
            ours = law(2**power)
            seconds = interleaved({"sfumato": lambda: ours.rounded(2000)}, 3)["sfumato"]  # noqa: B023
            each, rate, label = seconds / 2000 * 1e9, slow_rate(ours, 2000), f"2^{power}"
            print(f"{name:17}{label:>8}{each:>10.0f}{'':17}{rate:>12.1e}")

    k_norm(n, min(given.repetitions, 5))
    if given.peers:
        if not given.python:
            parser.error("--peers needs --python PATH")
        print("\npeers, ns per draw\n")
        for name, nanoseconds in run(given.python, _peers, 5000).items():
            print(f"{name:60}" + ("not measured" if nanoseconds is None else f"{nanoseconds:>12,.0f}"))


if __name__ == "__main__":
    main()
