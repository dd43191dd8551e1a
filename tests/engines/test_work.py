"""The noise of repeated work: the same for the same statistics, however they came about."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.worker_noise import Work, digest
from sfumato.query import sizes

SIZES = [350], [100, 100, 100, 50], [1, 348, 1], [7] * 50


def plan_and_statistics():
    table = pa.table({"id": range(700), "g": [i % 350 for i in range(700)]})
    question = sf.scan(table, privacy_unit="id").group_by("g", keys=list(range(350)))
    plan = question.bound(groups=1, rows=1).agg(n=sf.count()).plan(epsilon=0.01)
    engine = question._engine
    return plan, pa.Table.from_batches(list(engine.statistics(plan.exact, 10**6))).combine_chunks()


def released(plan, batches, secret=bytes(32)) -> list[dict]:
    stages = SimpleNamespace(has_trees=False, merged=lambda shard, payloads, rows: iter(batches))
    given = Work(stages, plan.measurement, secret=secret).released(0, [])
    return [row for batch in given for row in batch.to_pylist()]


@pytest.mark.parametrize("size", [100, 10**6])
def test_the_noise_does_not_depend_on_how_batches_were_cut(monkeypatch, size):
    monkeypatch.setattr(sizes, "BATCH_GROUPS", size)
    plan, exact = plan_and_statistics()
    answers = []
    for batches in SIZES:
        ends = np.cumsum(batches)
        cut = [
            exact.slice(e - n, n).combine_chunks().to_batches()[0] for e, n in zip(ends, batches, strict=True)
        ]
        answers.append(released(plan, cut))
    assert all(answer == answers[0] for answer in answers) and len(answers[0]) == 350


def test_each_work_has_secrets_of_its_own():
    plan, _ = plan_and_statistics()
    works = [Work.prepare(plan, SimpleNamespace(has_trees=False)) for _ in range(2)]
    assert len({each for work in works for each in (work.secret, work.release)}) == 4  # fewer: chance 2^-253


def test_another_secret_and_other_statistics_have_other_noise():
    plan, exact = plan_and_statistics()
    one = released(plan, exact.to_batches())
    assert one != released(plan, exact.to_batches(), secret=b"x" * 32)
    moved = exact.set_column(1, "rows", pa.array([0, *exact[1].to_pylist()[1:]]).cast(exact[1].type))
    other = released(plan, moved.to_batches())
    # One group has other rows: the noise of all is another, so no difference of two looks is exact.
    same = sum(a["n"] == b["n"] for a, b in zip(one, other, strict=True))
    assert same < 20  # noise of scale 100: equal by chance in one of about 400


def lying(values: pa.Array) -> list[pa.Array]:
    """The same values elsewhere in memory: as a slice, and with other bits under NULL."""
    longer = pa.concat_arrays([values[:1], values, values[:1]])
    return [values, longer.slice(1, len(values)), pa.concat_arrays([values[:2], values[2:]])]


ARRAYS = {
    "integers": pa.array([1, None, 3, 4]),
    "booleans": pa.array([True, None, False, True]),
    "texts": pa.array(["a", None, "", "é"]),
    "decimals": pa.array([1, None, 3, -4], pa.decimal128(38, 0)),
    "leaves": pa.array(
        [[{"leaf": 1, "weight": 2}], [], [{"leaf": 0, "weight": 1}, {"leaf": 5, "weight": 1}], []]
    ),
    "large lists": pa.array([[1, 2], [], [3], [2, 1]], pa.large_list(pa.int64())),
    "large texts": pa.array(["a", None, "", "é"], pa.large_string()),
    "large bytes": pa.array([b"a", None, b"", b"\xff"], pa.large_binary()),
    "empty texts": pa.array([""] * 4),
    "floats": pa.array([0.0, float("nan"), None, 1.5]),
    "nothing": pa.array([None] * 4, pa.string()),
}


def test_a_digest_is_of_values():
    for kind, array in ARRAYS.items():
        found = {digest(pa.record_batch({"x": one})) for one in lying(array)}
        assert len(found) == 1, kind
        assert digest(pa.record_batch({"x": array[:3]})) not in found, kind
        turned = array.take(pa.array([2, 1, 0, 3]))
        assert turned.equals(array) or digest(pa.record_batch({"x": turned})) not in found, kind
    kinds = [array.type for array in ARRAYS.values()]
    empty = [digest(pa.record_batch({"x": pa.array([], kind)})) for kind in kinds]
    assert len(set(empty)) == len(set(map(str, kinds)))


def test_bits_under_a_null_do_not_count():
    valid = pa.py_buffer(np.packbits([1, 0, 1, 0, 0, 0, 0, 0], bitorder="little").tobytes())
    one, other = (
        pa.Array.from_buffers(pa.int64(), 3, [valid, pa.py_buffer(np.array([1, hidden, 3]).tobytes())])
        for hidden in (0, 77)
    )
    assert digest(pa.record_batch({"x": one})) == digest(pa.record_batch({"x": other}))
