"""What noisy numbers say of their question: of keys and bounds that are wrong, and of no others."""

import pyarrow as pa
import pytest

import sfumato as sf

ROWS = pa.table(
    {
        "id": range(2000),
        "zone": [f"Z{i % 4}" for i in range(2000)],
        "x": [90.0] * 1000 + [30.0] * 1000,
        "low": [-5.0] * 2000,
        "yes": [True] * 2000,
    }
)


def hints(keys=None, column="x", lower=0, upper=60, **more):
    table = sf.scan(ROWS, privacy_unit="id")
    if keys is not None:
        table = table.group_by("zone", keys=keys)
    asked = {"n": sf.count(), "m": sf.mean(column, lower=lower, upper=upper)} | more
    return table.bound(groups=1, rows=1).agg(**asked).release(epsilon=1000).hints


@pytest.mark.flakiness(
    k=13, because="each of 40 counts of noise alone is below its bar of 95% with a chance of 0.95"
)
def test_keys_that_match_no_row_are_told():
    (said,) = hints([f"Z{i}" for i in range(4)] + [f"z{i}" for i in range(40)], upper=100)
    number = int(said.removeprefix("n is no more than its error bar in ").split()[0])
    assert 20 < number <= 40 and "of 44 public groups" in said


@pytest.mark.flakiness(
    k=13, because="each of 40 means is at its bound, within a bar of 95%, with a chance of 0.95"
)
@pytest.mark.parametrize("column, side", [("x", "upper=20"), ("low", "lower=0")])
def test_means_at_a_bound_are_told(column, side):
    zones = [f"Z{i}" for i in range(40)]
    rows = ROWS.set_column(1, "zone", pa.array([zones[i % 40] for i in range(2000)]))
    table = sf.scan(rows, privacy_unit="id").group_by("zone", keys=zones).bound(groups=1, rows=1)
    release = table.agg(m=sf.mean(column, lower=0, upper=20)).release(epsilon=1000)
    (said,) = release.hints
    assert said.startswith(f"m is {side} within its error bar in ") and said.count("of 40 groups") == 1
