"""Workers without a cluster: rows in pieces that move in any order, and what the last worker releases of them."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

import sfumato as sf
from sfumato.api.table import Table
from sfumato.engines.distributed_engine import DistributedEngine
from sfumato.engines.duckdb.stages import Payload

Shards = list[tuple[int, list[bytes]]]


class LocalEngine(DistributedEngine):
    """Runs the stages of workers here, on shuffled rows in random parts.

    Args:
        rows: all rows of the table.
        seed: decides the parts and their order.
    """

    name, has_local_rows = "stages", False

    def __init__(self, rows: pa.Table, seed: int = 0) -> None:
        super().__init__(rows.schema)
        self.given, self.chance = rows, random.Random(seed)

    def statistics(self, query, batch_rows):
        stages = self.stages(query, self.chance.randint(1, 4))
        groups = [parts for _, parts in shards(self, stages, self.chance)]
        if query.largest is not None:
            groups = [stages.collected(parts) for parts in groups]
        return stages.bare.merged(None, [data for parts in groups for data in parts], batch_rows)


def shards(engine: Any, stages: Any, chance: random.Random) -> Shards:
    """Return the parts of each shard of groups; `given` of each table's engine has its rows."""
    stages = pickle.loads(pickle.dumps(stages))  # as it reaches workers
    moved: dict[int, list[Payload]] = {}
    for number, schema in stages.arriving.items():
        rows = engine.tables[number].engine.given.select(schema.names)
        rows = rows.take(chance.sample(range(rows.num_rows), rows.num_rows))
        cuts = sorted(chance.choices(range(rows.num_rows + 1), k=chance.randint(0, 3)))
        moved[number] = []
        for start, end in zip([0, *cuts], [*cuts, rows.num_rows], strict=True):
            batches = rows.slice(start, end - start).to_batches(max_chunksize=chance.choice((3, 1000)))
            moved[number] += stages.from_table(number).partials(batches, number)
    for join in stages.key_joins:
        met = by_shard(moved.pop(join.owners) + moved.pop(join.rows), chance)
        moved[join.gives] = [part for _, data in met for part in stages.reached(join, data)]
    units = by_shard([part for of_table in moved.values() for part in of_table], chance)
    found = dict(by_shard([part for _, data in units for part in stages.totals(data)], chance))
    return [(shard, found.get(shard, [])) for shard in range(stages.group_shards)]


def by_shard(parts: Iterable[Payload], chance: random.Random) -> Shards:
    """Bring parts together as a shuffle does, in any order."""
    parts = [*parts]
    chance.shuffle(parts)
    found: dict[int, list[bytes]] = {}
    for part in parts:
        found.setdefault(part.shard, []).append(part.data)
    return [*found.items()]


def released(engine: Any, work: Any, seed: int = 0) -> list[dict[str, Any]]:
    """Do all of a release's work here; return its rows in order of their texts."""
    parts, work = shards(engine, work.stages, random.Random(seed)), pickle.loads(pickle.dumps(work))
    if work.at_once:
        batches = [*work.drawn_jointly([(shard, work.gathered(shard, data)) for shard, data in parts])]
    else:
        batches = [batch for shard, data in parts for batch in work.released(shard, data)]
    return sorted((row for batch in batches for row in batch.to_pylist()), key=repr)


def questions(asked: Table[Any], keys: Iterable[Any]) -> list[sf.Question[Any]]:
    """Ask for rows, units and sums of all numbers: by the last text where there is one, and of everybody."""
    sums = {
        f"s{i}": sf.sum(name, lower=-9, upper=9)
        for i, (name, column) in enumerate(asked.schema.items())
        if column.kind.numeric and name != asked.unit
    }
    wanted = {"n": sf.count(), "units": sf.count_units(), **sums}
    texts = [n for n, column in asked.schema.items() if column.type_name == "VARCHAR" and n != asked.unit]
    made = [asked.bound(rows=3).agg(**wanted)]
    for name in texts[-1:]:
        made.append(asked.group_by(name).bound(groups=2, rows=3).agg(**wanted))
        made.append(asked.group_by(name, keys=list(keys)).bound(groups=2, rows=3).agg(**wanted))
        # A limit of rows over all groups, which no worker can keep before a unit is whole.
        made.append(asked.group_by(name).bound(total_rows=4).agg(**wanted))
    return made


def statistics(
    asked: Table[Any], keys: Iterable[Any] = ("A", "B", "C", "a", "")
) -> list[list[dict[str, Any]]]:
    """Return the exact statistics of `questions`."""
    return [exact(one, noise="laplace") for one in questions(asked, keys)]


def exact(question: Any, **options: Any) -> list[dict[str, Any]]:
    """Return the exact statistics of a question's plan, as rows."""
    plan = question.plan(**({"epsilon": 1, "delta": 1e-6} | options))
    engine = question.table._engine
    return [row for batch in engine.statistics(plan.exact, 1000) for row in batch.to_pylist()]


def killing(marker: str, start: int = 0):
    """Return a task of Spark that kills its worker after `start` batches, once: where it can still make the marker."""

    def function(batches):  # sent by value: workers cannot import this file
        import os

        for number, batch in enumerate(batches):
            if number == start:
                try:
                    os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    pass
                else:
                    os._exit(1)
            yield batch

    return function
