"""Exact numbers: parameters taken exactly, outward rounding of results, root finding, Gaussian tails."""

from __future__ import annotations

from sfumato.exact.outward_rounding import root_down, root_up, round_down, round_up
from sfumato.exact.parameters import (
    Number,
    as_fraction,
    as_fractions,
    as_int,
    as_written,
    at_least_0,
    one_of,
    positive,
    positive_int,
    truth_value,
    whole_number,
    written_up,
)

__all__ = [
    "Number",
    "as_fraction",
    "as_fractions",
    "as_int",
    "as_written",
    "at_least_0",
    "one_of",
    "positive",
    "positive_int",
    "root_down",
    "root_up",
    "round_down",
    "round_up",
    "truth_value",
    "whole_number",
    "written_up",
]
