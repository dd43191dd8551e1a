"""Faults of SQL: what a query asks for."""

from __future__ import annotations

from tests.faults.fault import Fault

FAULTS: list[Fault] = []
