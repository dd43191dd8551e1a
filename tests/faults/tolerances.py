"""Faults of tolerances: how far a noisy number may be off in a test."""

from __future__ import annotations

from tests.faults.fault import Fault

FAULTS: list[Fault] = []
