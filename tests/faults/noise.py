"""Faults of noise: samplers and their laws."""

from __future__ import annotations

from tests.faults.fault import Fault

FAULTS: list[Fault] = []
