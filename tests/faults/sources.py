"""Faults of sources: which rows are read."""

from __future__ import annotations

from tests.faults.fault import Fault

FAULTS: list[Fault] = []
