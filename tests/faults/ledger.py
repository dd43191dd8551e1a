"""Faults of ledgers and journals: what is charged and remembered."""

from __future__ import annotations

from tests.faults.fault import Fault

FAULTS: list[Fault] = []
