"""How often the auditor is wrong about honest mechanisms whose outputs hold more than numbers.

    python benchmarks/honest.py                  # 1,000 audits, some minutes
    python benchmarks/honest.py --runs 200

Each mechanism adds noise that reaches epsilon = 1 exactly to a count, and puts it into an output beside or within objects,
functions, exceptions, dates, sets, times of the machine and more, none of which tells of the dataset. The audits go round
over all of them, at alpha = 0.01: correct code is called violated in at most 1 of 100, on average.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import enum
import functools
import itertools
import random
import threading
import time
import types
import uuid
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.audit import approximate, audit
from sfumato.noise import Laplace, SeededWords

PAIR = [([1.0], [])]
STEPS = 2**20
START = datetime.datetime(2020, 1, 1)


@dataclasses.dataclass
class Answer:
    value: Any
    about: Any = None


class Thing:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"<Thing at {id(self):#x}>"


def raised(value: Any) -> None:
    raise ValueError(f"{value:.3f} of {object()}")


def caught(value: Any) -> BaseException:
    try:
        raised(value)
    except ValueError as error:
        return error
    raise AssertionError


def in_turn(value: Any, seen: list[float]) -> dict[str, Any]:
    """The time since the call before, whichever it was."""
    seen.append(time.perf_counter())
    return {"v": value, "since": seen[-1] - seen[-2] if len(seen) > 1 else 0.0}


# Each makes an output of one noisy count v; all else in it is drawn or read off the machine.
OUTPUTS: dict[str, Callable[[], Callable[[float], Any]]] = {
    "objects": lambda: lambda v: {"v": v, "o": object(), "more": [object(), Thing(Thing(v))]},
    "objects kept": lambda: functools.partial(lambda kept, v: kept.append(Thing(v)) or kept[-1], []),
    "functions": lambda: lambda v: (v, lambda: v, print, Thing(v).__repr__, functools.partial(raised, v)),
    "exceptions": lambda: lambda v: ValueError(v, object()),
    "exceptions caught": lambda: caught,
    "exceptions raised": lambda: lambda v: raised(v) if v > 0.5 else v,
    "dates": lambda: lambda v: {
        "day": datetime.date(2020, 1, 1) + datetime.timedelta(days=round(v)),
        "at": START + datetime.timedelta(seconds=v),
        "now": datetime.datetime.now(datetime.UTC),
    },
    "sets": lambda: lambda v: {v, "a", "b", object(), frozenset(["c", object(), v])},
    "sets of texts": lambda: lambda v: (set(map(str, range(round(abs(v)) + 3))), {Thing(1), Answer}),
    "times": lambda: lambda v: {"v": v, "t": time.time(), "p": time.perf_counter(), "c": time.process_time()},
    "time since": lambda: functools.partial(lambda seen, v: in_turn(v, seen), []),
    "text with a time": lambda: lambda v: f"count {v:.4f} after {time.perf_counter():.6f} s by {object()}",
    "classes made anew": lambda: lambda v: (type("Made", (), {"v": v})(), enum.Enum("Made", {"ONE": v}).ONE),
    "dataclasses": lambda: lambda v: Answer(Answer(v, object()), dataclasses.make_dataclass("Made", ["v"])(v)),
    "weak references": lambda: lambda v: [weakref.ref(Thing(v)), v, weakref.WeakSet(), threading.Lock()],
    "generators": lambda: lambda v: [(i for i in [v]), iter({v}), map(str, [v]), v],
    "arrays of objects": lambda: lambda v: np.array([v, object(), None, np.array([object(), v], object)], object),
    "exact numbers": lambda: lambda v: [Decimal(v), Fraction(v), complex(v, v), np.float32(v), uuid.uuid4().int],
    "Arrow": lambda: lambda v: {"s": pa.scalar(v), "l": pa.array([v, None]), "t": pa.scalar(datetime.datetime.now())},
    "mappings of odd keys": lambda: lambda v: {object(): v, (1, object()): 0.5, 1: v, "1": v, "a.b": {"c": v}},
    "texts at random": lambda: lambda v: {"v": v, "id": uuid.uuid4().hex, "r": random.random()},
    "a counter": lambda: functools.partial(lambda calls, v: [v, next(calls)], itertools.count()),
    "bytes": lambda: lambda v: (np.float64(v).tobytes(), str(object()).encode(), memoryview(b"0" * 80)),
    "containers": lambda: lambda v: [deque([v]), OrderedDict(a=v), Counter("aab"), types.SimpleNamespace(v=v), slice(v)],
}  # fmt: skip
# The same by calls that return many outputs: a time then belongs to the whole call.
BATCHES: dict[str, Callable[[Any], Any]] = {
    "a time for each call": lambda v: {"v": v, "t": np.full(len(v), time.perf_counter())},
    "an object for each call": lambda v: [{"v": x, "o": thing} for thing in [object()] for x in v.tolist()],
    "seconds that a call took": lambda v: [(x, took) for took in [random.random()] for x in v.tolist()],
}


def mechanism(name: str, seed: int) -> Callable[..., Any]:
    words = SeededWords(seed)

    def noisy(dataset: Any, size: int) -> Any:
        return len(dataset) + Laplace(scale=STEPS).rounded(size, words) / STEPS

    if name in BATCHES:
        return lambda dataset, size: BATCHES[name](noisy(dataset, size))
    output = OUTPUTS[name]()
    return lambda dataset: output(float(noisy(dataset, 1)[0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=500, help="draws a side of each audit")
    parser.add_argument("--alpha", type=float, default=0.01)
    options = parser.parse_args()
    names = [*OUTPUTS, *BATCHES]
    alarms: Counter[str] = Counter()
    for seed in range(options.runs):
        name = names[seed % len(names)]
        report = audit(
            mechanism(name, seed),
            claim=approximate(1),
            pairs=PAIR,
            alpha=options.alpha,
            max_samples=options.draws,
        )
        if report.violated:
            assert report.witness is not None
            alarms[name] += 1
            print(f"  {name}: {report.witness.event}", flush=True)
    total = alarms.total()
    print(f"{total} alarms in {options.runs:,} audits = {total / options.runs:.4f} (alpha {options.alpha:g})")
    # Half the noise in the same outputs: so the audits are not blind to them.
    found = sum(
        audit(mechanism(name, 0), claim=approximate(0.25), pairs=PAIR, max_samples=20_000).violated
        for name in names
    )
    print(f"with a quarter of the claim {found} of {len(names)} mechanisms are found")


if __name__ == "__main__":
    main()
