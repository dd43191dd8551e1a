"""Faults of commands: what they print, and how they end."""

from __future__ import annotations

from tests.faults.fault import Fault

FAULTS: list[Fault] = []
