"""Faults of accounting: what privacy loss composes to."""

from __future__ import annotations

from tests.faults.fault import Fault

FAULTS: list[Fault] = []
