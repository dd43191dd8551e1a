"""Faults of error bars, previews and explanations: how exact an output is said to be."""

from __future__ import annotations

from tests.faults.fault import Fault

FAULTS: list[Fault] = []
