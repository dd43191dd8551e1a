"""Faults of expressions: what a value of a row becomes."""

from __future__ import annotations

from tests.faults.fault import Fault

FAULTS: list[Fault] = []
