"""What is allowed, and yet seldom meant: budgets that protect little, groups by floats."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sfumato.query.schema import FLOATS, Schema

HIGH_EPSILON = Fraction(20)
HIGH_DELTA = Fraction(1, 10_000)


def cautions(schema: Schema, keys: Sequence[str], epsilon: Fraction, delta: Fraction) -> tuple[str, ...]:
    """Return a sentence for each choice that whoever asks should think about once more.

    Args:
        schema: the columns after the steps.
        keys: the columns that are grouped by.
        epsilon: the privacy budget.
        delta: the chance that the promise of epsilon need not hold.

    Nothing here depends on rows. Source: Dwork and Roth 2014, section 2.3, for delta against 1/n.
    """
    found = []
    if epsilon > HIGH_EPSILON:
        found.append(
            f"epsilon {float(epsilon):g} hardly protects: above {HIGH_EPSILON} what is shown may settle who "
            "is in the table; sf.explain_epsilon says what a number means."
        )
    if delta > HIGH_DELTA:
        found.append(
            f"delta {float(delta):g} is large: showing the rows of one unit in {float(1 / delta):,.0f} would "
            "be within it. Choose it far below 1 divided by the number of units, such as 1e-6."
        )
    found += [
        f"{key} holds floats: values that look equal may differ in their last bits, and few of them have "
        "many units. Group by bins or by a rounded column, such as floor of it."
        for key in keys
        if schema[key].type_name in FLOATS
    ]
    return tuple(found)
