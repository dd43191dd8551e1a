"""The assertions about noisy results: `assert_approx_equal` to the truth, and `assert_noisy`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sfumato.errors import ParameterError, RefusalError
from sfumato.exact.library_settings import isolated
from sfumato.noise import Law
from sfumato.noise.k_norm.marginals import Marginal
from sfumato.testing.assertions.compared_values import (
    Cells,
    Group,
    Off,
    check_all_compared,
    difference,
    group_differences,
    is_number,
    is_whole,
    label,
    labels,
    number,
    numbers,
    read,
    report,
    select_cells,
    too_close_message,
    where_text,
)
from sfumato.testing.assertions.noise_spread import (
    PARTS,
    check_discrete,
    check_k_norm,
    check_spread,
    powerless,
    require_power,
)
from sfumato.testing.assertions.output_tolerances import Residue, each_k
from sfumato.testing.assertions.released_values import SHOWN, ReleasedCells, is_release
from sfumato.testing.assertions.stated_tolerances import Limits, StatedTolerance, Tolerance
from sfumato.testing.assertions.top_group_assertions import approx_largest, is_largest, noisy_largest
from sfumato.testing.discrete_laws import DiscreteLaw
from sfumato.testing.flakiness import charge, note_uncounted


@isolated
def assert_approx_equal(
    actual: Any,
    expected: Any,
    *,
    tolerance: Tolerance = None,
    law: Law | Marginal | DiscreteLaw | None = None,
    k: object = None,
    keys: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> None:
    """Assert that a noisy result is as close to the expected one as correct noise allows.

    Args:
        actual: a number, an array, a mapping by group, a table (Arrow, pandas, Polars), or a `Release`, whose
            plan gives the tolerances.
        expected: the result without noise, in the same shape. For a release: a table or mapping by group of
            all outputs or of those in `columns`, the statistics of the bounded contributions; for a quantile
            the group's own values, one for each row that counts, or a recorder's leaf counts. For the largest
            groups: the exact number of every group, shown or not.
        tolerance: the largest distance: a number >= 0; a mapping by group or by output; an array like
            `actual`; or a function of the k of one value, such as `lambda k: laplace_tolerance(k, 1, 50)`.
            For a release: only for outputs that it names.
        law: the distribution of the noise on each value, in place of a tolerance: a law from `sfumato.noise`,
            rounded if both values are whole numbers; that of a number of K-norm noise; or, for noise that is
            drawn whole, `sfumato.noise.DiscreteLaplace`, `DiscreteGaussian` or `Pmf`.
        k: correct code fails with probability at most 10^-k, over all values together. You can leave it out
            in a pytest test marked with `flakiness`. If `tolerance` is a number, it is your statement about
            it and is only added up.
        keys: the columns of a table that identify a group.
        columns: the outputs to compare. The default is all, and then both sides must have them.
    Raises:
        AssertionError: a value is too far off, missing or NaN; a group or an output is missing or unexpected;
            or shapes differ. The text names the groups, how far off they are in tolerances, and how probable
            that is if the distribution is known.
        ParameterError: k, tolerance or expected is not valid, or keys is missing.
        RefusalError: a quantile of a release has a number and no tolerance, or neither side has a value.

    >>> from sfumato.noise import Laplace
    >>> assert_approx_equal({"a": 103, "b": 98}, {"a": 100, "b": 100}, law=Laplace(scale=1), k=23)
    >>> assert_approx_equal({"a": 103, "b": 998}, {"a": 100, "b": 100}, law=Laplace(scale=1), k=23)
    Traceback (most recent call last):
    ...
    AssertionError: 1 of 2 values is off (flakiness 10^-23 in all)
      'b': 998, expected 100 within 54: off by +898 = 16.6 tolerances; probability at most 10^-389.8

    Source:
        Privacy on Beam, "Tolerance calculation for ApproxEquals in tests", with its errata.
    """
    if is_largest(actual):
        _left_out(_LARGEST, tolerance=tolerance, law=law, keys=keys, columns=columns)
        approx_largest(actual, expected, k)
        return
    if is_release(actual):
        _left_out("a release", law=law, keys=keys)
        _approx_release(actual, expected, tolerance, k, columns)
        return
    got, wanted, options = _pair(actual, expected, keys, "expected", columns)
    limits = Limits(tolerance, law, k, len(wanted.values) * max(len(wanted.outputs), 1), whole=True)
    off = []
    for group, output in _present(got, wanted):
        value, truth = got.values[group][output], wanted.values[group][output]
        limit = limits.find(group, output, is_whole(value) and is_whole(truth))
        away = number(value)
        if away is None or not math.isfinite(away):
            off.append(Off(group, output, value, truth, limit))
            continue
        gap = difference(value, truth)
        if abs(gap) > limit:
            rounded = is_whole(value) and is_whole(truth)
            off.append(Off(group, output, value, truth, limit, gap, limits.log10_outside(abs(gap), rounded)))
    report(options, off, wanted, limits.stated)


@isolated
def assert_noisy(
    actual: Any,
    raw: Any,
    *,
    tolerance: Tolerance = None,
    law: Law | DiscreteLaw | None = None,
    k: object = None,
    keys: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> None:
    """Assert that a result has noise, neither too narrow nor too wide.

    A single value can only show that noise is missing. Many values show its spread: with a `law`, or for a
    release, all of them are also judged together. Quantiles of a release are not checked, because with nearly
    all rows in one leaf they are the same with and without noise.

    Args:
        actual, keys, columns: as for `assert_approx_equal`, but you may leave out outputs that show no noise.
        raw: the result without noise, in the same shape.
        tolerance: a complementary tolerance: a value closer than this to its raw value fails. A number,
            mapping or function as for `assert_approx_equal`.
        law: the distribution that the noise should have, in place of a tolerance; as for
            `assert_approx_equal`.
        k: as for `assert_approx_equal`.
    Raises:
        AssertionError: noise is missing, too narrow or too wide; or as for `assert_approx_equal`.
        ParameterError: k, tolerance or raw is not valid, or keys is missing.
        RefusalError: the check cannot fail, because nothing in the release shows its noise or because this
            few values would pass without any.

    >>> from sfumato.noise import Laplace, SeededWords
    >>> law, truth = Laplace(scale=100), [0] * 1000
    >>> noisy = law.rounded(1000, SeededWords(1))
    >>> assert_noisy(noisy, truth, law=law, k=23)
    >>> assert_noisy(truth, truth, law=law, k=23)
    Traceback (most recent call last):
    ...
    AssertionError: noise is missing: 1000 of 1000 values show none; probability at most 10^-2302. Whole ...

    >>> from sfumato.noise import DiscreteLaplace
    >>> assert_noisy(0, 0, law=DiscreteLaplace(scale=2), k=23)
    Traceback (most recent call last):
    ...
    sfumato.errors.RefusalError: 1 value cannot show at k = 23 that noise is missing, as the check passes ...

    Source:
        Privacy on Beam, "Complementary tolerance calculation for checkMetricsAreNoisy".
    """
    if is_largest(actual):
        _left_out(_LARGEST, tolerance=tolerance, law=law, keys=keys, columns=columns)
        noisy_largest(actual, raw, k)
        return
    if is_release(actual):
        _left_out("a release", tolerance=tolerance, law=law, keys=keys)
        _noisy_release(actual, raw, k, columns)
        return
    got, wanted, options = _pair(actual, raw, keys, "raw", columns)
    limits = Limits(
        tolerance,
        law,
        k,
        len(wanted.values) * max(len(wanted.outputs), 1),
        whole=False,
        joint=law is not None,
    )
    near, broken, residues = [], [], []
    noises: dict[str, float] = {}
    for group, output in _present(got, wanted):
        value, truth = got.values[group][output], wanted.values[group][output]
        rounded = is_whole(value) and is_whole(truth)
        away = number(value)
        if away is None or not math.isfinite(away):
            broken.append(Off(group, output, value, truth, math.nan))
            continue
        gap = difference(value, truth)
        limit = 0.0 if law is not None else limits.find(group, output, rounded)
        if abs(gap) < limit:
            near.append(Off(group, output, value, truth, limit, gap))
        if isinstance(limits.law, DiscreteLaw):
            noises[where_text(group, output)] = gap
        elif law is not None:
            residues.append(Residue(group, output, gap, 0.0, law, 0.5 if rounded else 0.0))
    report(options, broken, wanted, limits.stated)
    if near:
        raise AssertionError(too_close_message(near, len(wanted.values) * len(wanted.outputs), limits.stated))
    if not wanted.values or (law is not None and not residues and not noises):
        raise RefusalError(_NOTHING.format("raw"))
    if isinstance(limits.law, DiscreteLaw):
        _check_discrete(noises, limits.law, limits.k)
    elif law is not None:
        _check_plain(residues, limits.k)


def _check_discrete(noises: Mapping[str, float], law: DiscreteLaw, k: float) -> None:
    """Assert the spread of whole noises, where the absence of noise would fail."""
    try:
        check_discrete(dict.fromkeys(noises, 0.0), law, k)
    except AssertionError:
        check_discrete(noises, law, k)
        return
    raise powerless(len(noises), k, law.zero)


def _check_plain(residues: Sequence[Residue], k: float) -> None:
    """Assert the spread of other values' noise, and explain how whole ones were taken."""
    require_power(lambda made: check_spread(made, k), residues, k)
    try:
        check_spread(residues, k)
    except AssertionError as error:
        if not any(r.half for r in residues):
            raise
        raise AssertionError(f"{error}. {_AS_ROUNDED}") from None


_NOTHING = "there is no value to compare, so the check cannot fail. Give {} at least one"
_AS_ROUNDED = (
    "Whole values were treated as rounded real noise; for discrete noise, pass "
    "law=DiscreteLaplace(...) of sfumato.noise, DiscreteGaussian(...) or Pmf(...) of sfumato.testing"
)


def _pair(
    actual: Any, other: Any, keys: Sequence[str] | None, name: str, columns: Sequence[str] | None
) -> tuple[Cells, Cells, str]:
    """Read both sides of an assertion; raise where their shapes do not match."""
    if isinstance(keys, str):
        keys = (keys,)
    got, wanted = read(actual, "actual", keys), read(other, name, keys)
    if not got.outputs and not wanted.outputs:
        raise RefusalError(_NOTHING.format(name))
    got, wanted = select_cells(got, columns, got.outputs), select_cells(wanted, columns, got.outputs)
    _check_expected(wanted, name)
    for cells, which in ((got, "actual"), (wanted, name)):
        if cells.twice:
            raise AssertionError(f"{which} has groups twice: {labels(cells.twice)}")
    if (got.kind != wanted.kind) and (
        "array" in got.kind + wanted.kind or "number" in (got.kind, wanted.kind)
    ):
        raise AssertionError(f"shapes do not match: actual is a {got.kind}, {name} a {wanted.kind}")
    lacking = [o for o in wanted.outputs if o not in got.outputs]
    if lacking and got.values:
        raise AssertionError(f"shapes do not match: {name} has {', '.join(lacking)}, which actual lacks")
    check_all_compared(got, wanted, name, columns)
    return got, wanted, group_differences(got, wanted, name)


def _check_expected(wanted: Cells, name: str, walks: Sequence[str] = ()) -> None:
    for group, row in wanted.values.items():
        for output, value in row.items():
            truth = number(value)
            if truth is None and output in walks:
                continue
            if truth is None or not math.isfinite(truth):
                raise ParameterError(f"{name} of {label(group)} {output}", value, "a finite number")


def _present(got: Cells, wanted: Cells) -> Iterator[tuple[Group, str]]:
    for group, row in wanted.values.items():
        if group in got.values:
            for output in row:
                if output in got.values[group]:
                    yield group, output
                else:
                    raise AssertionError(f"shapes do not match: actual has no {output} for {label(group)}")


def _approx_release(
    release: Any, expected: Any, tolerance: Tolerance, k: object, columns: Sequence[str] | None
) -> None:
    if callable(tolerance) or is_number(tolerance):
        raise ParameterError(
            "tolerance", tolerance, "a mapping by output, such as {'income_50': 2.0}, or left out"
        )
    given = None if tolerance is None else StatedTolerance(tolerance)
    released, wanted = _released_and_expected(release, expected, "expected", columns)
    if given is not None:
        note_uncounted()
    k = charge(k)
    check_all_compared(released.cells, wanted, "expected", columns)
    groups, outputs = max(len(wanted.values), 1), max(len(wanted.outputs), 1)
    # Groups may have noises of their own, outputs of one group may share them; and where groups are
    # private, being shown is one more chance to fail.
    parts = outputs + (1 if released.private_groups else 0)
    apart = released.plan.measurement.independent
    each = each_k(k, groups, apart=apart) + math.log10(parts)
    unlikely = _forgiven(released, wanted, each)
    differences = group_differences(released.cells, wanted, "expected", unlikely)
    off = []
    for group, output in _present(released.cells, wanted):
        actual, truth = released.cells.values[group][output], wanted.values[group][output]
        if number(truth) is None:  # the values of a quantile
            truth = truth.without_noise  # type: ignore[attr-defined]
        shown = number(actual)
        if shown is None or not math.isfinite(shown):
            off.append(Off(group, output, actual, truth, math.nan))
            continue
        limit = None if given is None else given.find(group, output)
        gap = difference(actual, truth)
        if limit is not None:
            if abs(gap) > limit:
                off.append(Off(group, output, actual, truth, limit, gap))
            continue
        judged = released.tolerance_for(group, output, wanted.values[group], shown, each)
        if abs(gap) > judged.tolerance:
            off.append(Off(group, output, actual, truth, judged.tolerance, gap, judged.log10_probability))
    report(differences, off, wanted, f" (flakiness 10^-{k:.4g} in all)")


def _noisy_release(release: Any, raw: Any, k: object, columns: Sequence[str] | None) -> None:
    released, wanted = _released_and_expected(release, raw, "raw", columns)
    k = charge(k)
    blind = [o for o, e in released.estimates.items() if e.kind not in SHOWN]
    check_all_compared(released.cells, wanted, "raw", columns, blind)
    missing = [g for g in wanted.values if g not in released.cells.values]
    differences = group_differences(released.cells, wanted, "raw", missing if released.private_groups else ())
    broken = [
        Off(g, o, released.cells.values[g][o], wanted.values[g][o], math.nan)
        for g, o in _present(released.cells, wanted)
        if not math.isfinite(number(released.cells.values[g][o]) or 0.0)
    ]
    report(differences, broken, wanted, "")
    truth: dict[Group, Mapping[str, float]] = {g: numbers(row) for g, row in wanted.values.items()}
    if released.k_norm is not None and missing:
        truth = released.surely_shown(truth, k + math.log10(PARTS))
    everything = list(released.residues(truth, complete=not missing))
    residues = [r for r in everything if not math.isnan(r.noise)]
    if not residues:
        raise RefusalError(
            "no output here shows its noise: quantiles, variances without their mean, values at "
            "their bounds, and numbers of units that decide group selection do not. Add a count or a "
            "sum, with its raw value"
        )
    hidden = len(everything) - len(residues)

    def check(shown: Sequence[Residue]) -> None:
        if released.k_norm is not None:
            check_k_norm(released.k_norm, shown, hidden, len(truth), k)
        else:
            check_spread(shown, k)

    require_power(check, residues, k)
    check(residues)


_LARGEST = "a release of the largest groups"


def _left_out(owner: str, **given: object) -> None:
    """Refuse arguments of an assertion that a release has by itself."""
    for name, value in given.items():
        if value is not None:
            raise ParameterError(name, value, f"left out: {owner} knows its {name}")


def _released_and_expected(
    release: Any, other: Any, name: str, columns: Sequence[str] | None
) -> tuple[ReleasedCells, Cells]:
    """Read both sides of an assertion about a release."""
    released = ReleasedCells(release)
    wanted = released.read_expected(other, name, columns)
    _check_expected(wanted, name, released.quantiles)
    if wanted.twice:
        raise AssertionError(f"{name} has groups twice: {labels(wanted.twice)}")
    return released, wanted


def _forgiven(released: ReleasedCells, wanted: Cells, each: float) -> list[Group]:
    """Return the groups that an assertion forgives, as correct selection hides them too often."""
    if not released.private_groups:
        return []
    found, unknown = [], False
    for group, row in wanted.values.items():
        chance = released.log10_missing(group, numbers(row))
        unknown |= chance is None
        if chance is not None and chance > -each and group not in released.cells.values:
            found.append(group)
    if unknown:
        note_uncounted()
    return found
