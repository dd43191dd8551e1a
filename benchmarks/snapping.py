"""How fast values are snapped, as ratios to NumPy's plain Laplace generator in the same run.

    python benchmarks/snapping.py
    python benchmarks/snapping.py --python PATH     # PATH: a Python that has diffprivlib

Repetitions of all contestants take turns, so that a busy machine slows them alike; medians are shown.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

import numpy as np
from noise import interleaved

from sfumato.noise import default_words
from sfumato.snapping import SnappingMechanism

cases = {
    "range 10, epsilon 1": SnappingMechanism(1, lower=0, upper=10),
    "range 2^30, epsilon 0.1": SnappingMechanism(0.1, lower=0, upper=2**30),
    "range 2^41, epsilon 1": SnappingMechanism(1, lower=0, upper=2**41),
    "sensitivity 0.1, bounds 0.1 and 9.7": SnappingMechanism(1, sensitivity=0.1, lower=0.1, upper=9.7),
}

_peer = r"""
import sys, time
from diffprivlib.mechanisms import Snapping
mechanism = Snapping(epsilon=1, sensitivity=1, lower=0.0, upper=10.0)
count = int(sys.argv[1])
times = []
for _ in range(5):
    start = time.perf_counter()
    for _ in range(count):
        mechanism.randomise(3.2)
    times.append((time.perf_counter() - start) / count * 1e9)
print(sorted(times)[2])
"""


def reference(mechanism: SnappingMechanism, count: int) -> None:
    """Draw by the reference path alone."""
    words = default_words()
    for word in words.take(count).view(np.int64).tolist():
        mechanism._reference.draw(3.2, word, lambda: int(words.take(1)[0]))


def peer(python: str) -> str:
    """Time diffprivlib's Snapping in a Python of its own, which must not see our packages."""
    run = subprocess.run(
        [python, "-W", "ignore", "-c", _peer, "2000"], capture_output=True, text=True, check=False, env={}
    )
    if run.returncode:
        return f"not measured: {(run.stderr.strip().splitlines() or ['no message'])[-1]}"
    return f"{float(run.stdout):,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--python", default=sys.executable, help="a Python that has diffprivlib")
    given = parser.parse_args()
    n, few, rng = given.draws, 5000, np.random.default_rng()

    print(f"{n:,} values, ns per value, one thread\n")
    print(f"{'mechanism':38}{'fast path':>10}{'numpy':>9}{'ratio':>8}{'reference':>12}{'one release':>13}")
    for name, mechanism in cases.items():
        values = rng.uniform(float(mechanism.lower), float(mechanism.upper), n)
        seconds = interleaved(
            {
                "fast": lambda: mechanism.release(values),  # noqa: B023
                "numpy": lambda: rng.laplace(0.0, 1.0, n),
                "reference": lambda: reference(mechanism, few),  # noqa: B023
                "single": lambda: [mechanism.release(3.2) for _ in range(few)],  # noqa: B023
            },
            given.repetitions,
        )
        fast, numpy = (seconds[k] / n * 1e9 for k in ("fast", "numpy"))
        slow, single = (seconds[k] / few * 1e9 for k in ("reference", "single"))
        print(f"{name:38}{fast:>10.1f}{numpy:>9.1f}{fast / numpy:>8.2f}{slow:>12,.0f}{single:>13,.0f}")
    print(f"\ndiffprivlib's Snapping, one value at a time, ns: {peer(given.python)}")


if __name__ == "__main__":
    main()
