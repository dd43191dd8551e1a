"""Faults of the auditor and the falsifier: what they find, and what they must not."""

from __future__ import annotations

from tests.faults.fault import Fault

FAULTS: list[Fault] = []
