"""What the time of an answer tells of one person: two services, of tables that differ in that person alone.

    python benchmarks/timing.py [--answers 40] [--pace 3]

The registry of examples/rwm5yr.py. An analyst asks both services the same question again and again, and guesses from
each answer's time which of the two tables was asked. Told is the chance that an answer of the one takes longer than one
of the other (0.5: nothing to learn; 0 or 1: all), and how many guesses were right with the threshold that was best on the
first half, on the second; with answers at once, and with --constant-time. Answers that were stopped count as the slowest.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _service import registry, served

from sfumato.client import Client, connect
from sfumato.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

DP = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, max_rows_per_group = 1)"
COUNT = f"{DP} year, COUNT(*) AS n FROM visits GROUP BY year"
LONGEST = 10.0  # seconds that a question may take
PERSON = 14  # who has a row in each of five years


def joined(times: int) -> str:
    """Return a question that joins a table with itself: of n rows of a person become n to the power of `times`."""
    parts = " ".join(f"JOIN visits a{i} USING (id)" for i in range(1, times))
    return f"{DP} COUNT(*) AS n FROM visits a0 {parts} WHERE id = {PERSON}"


def without(rows: pa.Table) -> pa.Table:
    """Return the table without the person."""
    return rows.filter(pc.not_equal(rows["id"], PERSON))


def crowded(rows: pa.Table) -> pa.Table:
    """Return the table where the person has a million rows."""
    own = rows.filter(pc.equal(rows["id"], PERSON)).slice(0, 1)
    return pa.concat_tables([without(rows), pa.concat_tables([own] * 10**6).combine_chunks()])


@contextmanager
def service(rows: pa.Table, pace: float | None) -> Iterator[Client]:
    """Give a client of a service of such rows."""
    options = ["--workers", "1", "--seconds", str(LONGEST)]
    with served(rows, options + ([] if pace is None else ["--constant-time", str(pace)])) as one:
        yield connect(one.url, *one.tokens)


def seconds(client: Client, question: str) -> float:
    """Return how long an answer takes; infinity for one that was stopped."""
    began = time.perf_counter()
    try:
        client.sql(question)
    except EngineError:
        return float("inf")
    return time.perf_counter() - began


def in_turn(both: list[Client], question: str, first: bool) -> list[float]:
    """Return how long each answer takes, of which the first or the second is asked for first."""
    found = [seconds(client, question) for client in (both if first else both[::-1])]
    return found if first else found[::-1]


def chance(one: np.ndarray, other: np.ndarray) -> float:
    """Return the chance that one takes longer than the other; a tie is half of it."""
    more, same = one[:, None] > other[None, :], one[:, None] == other[None, :]
    return float(more.mean() + same.mean() / 2)


def right(one: np.ndarray, other: np.ndarray) -> float:
    """Return how many guesses are right in the second half, with what was best in the first half."""
    half = len(one) // 2
    guesses = [
        (np.mean([one[:half] > t, other[:half] <= t]), t, True) for t in np.r_[one[:half], other[:half]]
    ]
    guesses += [(1 - share, t, False) for share, t, _ in guesses]
    _, threshold, longer = max(guesses, key=lambda guess: guess[0])
    share = float(np.mean([one[half:] > threshold, other[half:] <= threshold]))
    return share if longer else 1 - share


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--answers", type=int, default=40)
    given.add_argument("--pace", type=float, default=3.0)
    args = given.parse_args()
    rows = registry()
    attacks = [
        ("a person of five rows, or not", rows, COUNT),
        ("a person of a million rows, or not", crowded(rows), COUNT),
        ("five rows, joined with themselves to 2 million", rows, joined(9)),
        ("five rows, joined with themselves to 244 million", rows, joined(12)),  # longer than the longest
    ]
    print(f"{'':48} {'':>14} {'with, ms':>9} {'without':>9} {'longer':>7} {'right':>6}", flush=True)
    for name, rows_of_one, question in attacks:
        for pace in (None, args.pace):
            with ExitStack() as stack:
                both = [stack.enter_context(service(table, pace)) for table in (rows_of_one, without(rows))]
                for client in both:  # the first answer of a service takes longer
                    seconds(client, COUNT)
                answers = args.answers if question != joined(12) else 4
                pairs = [in_turn(both, question, i % 2 == 0) for i in range(answers)]
            one, other = np.array(pairs).T
            means = [1000 * float(np.median(t)) for t in (one, other)]
            words = "at once" if pace is None else f"each {pace:g} s"
            print(
                f"{name:48} {words:>14} {means[0]:9.1f} {means[1]:9.1f} {chance(one, other):7.2f} {right(one, other):6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
