"""Faults of the service and its client: who may ask what."""

from __future__ import annotations

from tests.faults.fault import Fault

FAULTS: list[Fault] = []
