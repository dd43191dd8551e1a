"""The list of seeded faults: each can be made, and a part of them is made here; `run.py` makes all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import run
from tests.faults.fault import HARMLESS, SOURCE, Fault

FAULTS = run.faults()
SOME = [
    "K-norm noise has a quarter of its scales", "Gaussian noise is for one group", "the threshold is one lower",
    "delta is not split over groups", "noise of totals is for one level", "each pick has all of epsilon",
    "bounds move inward to the grid", "joint noise is described as larger", "several SELECTs are paid as one",
    "SQL does not clamp sums of units", "SQL of pairs lets a unit pass by a group",
    # That releases refuse, and no test of the first tier finds.
    "the pure loss of Laplace noise is of one group", "places are chosen as if a unit were in one group",
    "places are chosen as if a unit had one row", "the map forgets choices", "noise beside choices has all of epsilon",
    "choices have all of epsilon beside noise", "noise of each group is planned for one group",
    "a threshold of K-norm noise has the delta of all groups", "looks before a release are not in what it takes",
    "a loss is charged without what is drawn beside", "the map counts private groups as one that is shown",
    "selection is not described", "private groups are described as public ones", "diagnostics are not paid",
]  # fmt: skip


def test_each_fault_can_be_made():
    texts = {fault.file: (SOURCE / fault.file).read_text() for fault in FAULTS}
    assert not [f.name for f in FAULTS if texts[f.file].count(f.old) != 1 or f.old == f.new]
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) > 250


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ({"refused": "QueryError"}, ""),
        ({"described": "a", "drawn": "1", "paid": "1"}, "refused: [], changed: []"),
        ({"described": "a", "drawn": "2", "paid": "1"}, "released"),
        ({"described": "a", "drawn": "1", "paid": "2"}, "released"),
        ({"described": "b", "drawn": "2", "paid": "1"}, "refused: [], changed: ['one']"),
    ],
)
def test_what_is_released_is_seen(after, says):
    before = {"one": {"described": "a", "drawn": "1", "paid": "1"}}
    told = run.judged(FAULTS[0], before, {"one": after})
    assert told.startswith(says) and bool(told) == bool(says)
    kept = Fault("none", "query/engine_protocol.py", "a", "b", f"{HARMLESS}it is within the claim")
    assert not run.judged(kept, before, {"one": {"described": "b", "drawn": "2", "paid": "1"}})
    assert run.judged(kept, before, {"one": {"refused": "QueryError"}})


@pytest.mark.long
def test_some_faults_are_found():
    """Of the questions that are released, and of each kind of fault; with `run.py` alone all of them."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(Path(run.__file__)), "--trusting", *SOME]
    done = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=1200, check=False)
    assert done.returncode == 0 and done.stdout.startswith(f"{len(SOME)} faults in "), (
        done.stdout + done.stderr
    )
