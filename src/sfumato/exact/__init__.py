"""The numeric kernel: exact numbers in, directed rounding within, outward-rounded floats out.

What most rooms need is here. `directed` has MPFR whose operations round up or down, `roots` finds where a
function crosses its goal, `normal` has the tails of the standard Gaussian.
"""

from __future__ import annotations

from sfumato.exact.rationals import (
    Number,
    as_fraction,
    as_fractions,
    as_int,
    as_written,
    at_least_0,
    one_of,
    positive,
    positive_int,
    root_down,
    root_up,
    round_down,
    round_up,
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
