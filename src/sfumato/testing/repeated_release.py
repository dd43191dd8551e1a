"""A release repeated many times, as a mechanism for the auditor: exact statistics once, noise in bulk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.mechanisms import fingerprint
from sfumato.errors import RefusalError
from sfumato.plan.group_measurement import SideBySide
from sfumato.testing.assertions.compared_values import by_entry

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.release.noisy_table import NoisyTable
    from sfumato.release.release import Release
    from sfumato.release.top_release import TopRelease


_MAX_GROUPS = 10_000


def release_mechanism(
    ask: Callable[[Any], NoisyTable],
) -> Callable[[Any, int], Any]:
    """Return a mechanism `(table, size) -> outputs` that repeats a release `size` times.

    Args:
        ask: a function from a table to its release, as in the example.
    Returns:
        A function for `audit`. The engine bounds and aggregates each table once; noise, selection of groups
        and outputs are then those of `size` releases. With public groups the outputs are a column for each
        output of each group; with private groups, a mapping for each release, by shown group. For the largest
        groups each is a mapping from a shown group to its rank and number.
    Raises:
        RefusalError: the table has more than 10,000 groups, or SQL processes the releases.

    K-norm noise of all groups together takes some milliseconds for each release, other noise far less.

    Bounding that is random (groups of a unit that has too many, rows for quantiles) is done once for a table.
    That keeps the claim for the unit by which two tables differ, whatever was chosen for it; all other units
    must be within the bounds, as those of `sfumato.audit.units` are for `groups=1, rows=1` or more.

    >>> import sfumato as sf
    >>> from sfumato.audit import audit
    >>> mechanism = release_mechanism(lambda rows: sf.scan(rows, privacy_unit="unit").bound(rows=1)
    ...     .agg(n=sf.count()).release(epsilon=2))
    >>> import pyarrow as pa
    >>> table = pa.table({"unit": [1, 2]})
    >>> audit(mechanism, epsilon=1, pairs=[(table, table[:1])], max_samples=20_000).violated
    True
    """
    from sfumato.release.release import Release
    from sfumato.release.top_release import TopRelease

    known: dict[str, _Tiles | _Largest] = {}

    def mechanism(table: Any, size: int) -> Any:
        key = repr(fingerprint(table))
        if key not in known:
            release = ask(table)
            if isinstance(release, TopRelease):
                known[key] = _Largest(release)
            elif isinstance(release, Release):
                known[key] = _Tiles(release)
            else:
                raise RefusalError(
                    "release_mechanism: this is computed with released tables. Audit each of these, .released"
                )
        return known[key].draw(size)

    return mechanism


class _Tiles:
    """The exact statistics of one release, repeated side by side before noise is added."""

    def __init__(self, release: Release) -> None:
        import pyarrow as pa

        self.release = release
        plan = release.plan
        self.keys = len(plan.query.keys)
        batches = list(release._engine.statistics(plan.exact, _MAX_GROUPS))
        self.exact = pa.Table.from_batches(batches).combine_chunks().to_batches(_MAX_GROUPS)
        if sum(b.num_rows for b in self.exact) > _MAX_GROUPS:
            raise RefusalError(
                f"release_mechanism: there are more than {_MAX_GROUPS:,} groups. Audit a smaller table"
            )
        self.names = list(by_entry(plan.requirements.estimates))
        self.groups: list[str] = []
        for batch in self.exact:
            keys = [c.to_pylist() for c in batch.columns[: self.keys]]
            self.groups += [repr(k)[1:-1].rstrip(",") for k in zip(*keys, strict=True)] if keys else [""]
        totals, shown = plan.measurement.totals, self.exact[0].columns[: self.keys] if self.exact else []
        self.shown_keys = self.keys
        if totals is not None:
            named = totals.for_keys(shown).keys(shown, plan.query.keys)
            self.shown_keys = named.num_columns
            self.groups = [repr(tuple(row.values()))[1:-1] for row in named.to_pylist()]

    def draw(self, size: int) -> Any:
        """Return the outputs of `size` repeated releases."""
        groups, measurement = len(self.groups), self.release.plan.measurement
        by_key = measurement.series is not None or measurement.totals is not None
        if measurement.at_once and not by_key:
            noise: Any = SideBySide(measurement.noise, size)
            measurement = replace(measurement, noise=noise)
        shown = np.zeros((size, groups), np.bool_)
        found = np.full((size, groups, len(self.names)), np.nan)
        if by_key:  # series and totals are told by keys, which tell no draws apart
            (batch,) = self.exact
            for i in range(size):
                outputs = measurement.draw(batch, self.release._words).outputs().columns[self.shown_keys :]
                found[i] = np.column_stack([_floats(c) for c in outputs])
            return self._by_name(found)
        for batch in self.exact:
            noisy = measurement.draw(self._tiled(batch, size, groups), self.release._words).outputs()
            outputs = np.column_stack([_floats(c) for c in noisy.columns[self.keys :]])
            codes = np.asarray(noisy.column(0)) if self.keys else np.arange(size)
            found[codes // groups, codes % groups] = outputs
            shown[codes // groups, codes % groups] = True
        if self.release.plan.selection is None:
            return self._by_name(found)
        # A group that is not shown must leave no trace, not even an empty column.
        return [
            {
                self.groups[i]: dict(zip(self.names, found[draw, i].tolist(), strict=True))
                for i in np.flatnonzero(shown[draw])
            }
            for draw in range(size)
        ]

    def _by_name(self, found: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Return the outputs of repeated releases as a column for each output of each group."""
        return {
            f"{group}.{name}" if group else name: found[:, i, j]
            for i, group in enumerate(self.groups)
            for j, name in enumerate(self.names)
        }

    def _tiled(self, batch: pa.RecordBatch, size: int, groups: int) -> pa.RecordBatch:
        """Repeat a batch of a release's statistics, with the numbers of draw and group as its first key."""
        import pyarrow as pa

        rows = np.tile(np.arange(batch.num_rows), size)
        tiled = batch.take(pa.array(rows))
        if not self.keys:
            return tiled
        codes = np.repeat(np.arange(size), batch.num_rows) * groups + rows
        return pa.RecordBatch.from_arrays(
            [pa.array(codes), *tiled.columns[1:]],
            names=[str(i) for i in range(len(tiled.columns))],
        )


class _Largest:
    """The exact numbers of one release of the largest groups, for repeated draws."""

    def __init__(self, release: TopRelease) -> None:
        import pyarrow as pa

        self.measurement, self.words = release.plan.measurement, release._words
        self.exact = pa.Table.from_batches(release._engine.statistics(release.plan.exact, _MAX_GROUPS))
        if self.exact.num_rows > _MAX_GROUPS:
            raise RefusalError(
                f"release_mechanism: there are more than {_MAX_GROUPS:,} groups. Audit a smaller table"
            )

    def draw(self, size: int) -> list[dict[str, dict[str, Any]]]:
        """Return the outputs of `size` repeated releases of the largest groups."""
        return [self._shown(self.measurement.draw(self.exact, self.words)) for _ in range(size)]

    def _shown(self, table: pa.Table) -> dict[str, dict[str, Any]]:
        keys = zip(*(table[key].to_pylist() for key in self.measurement.keys), strict=True)
        numbers = table.drop_columns(list(self.measurement.keys)).to_pylist()
        return {repr(k)[1:-1].rstrip(","): row for k, row in zip(keys, numbers, strict=True)}


def _floats(column: pa.Array) -> NDArray[np.float64]:
    """Return the values of a repeated release's column; of lists a column for each entry."""
    if column.type.num_fields:
        return np.array(column.to_pylist(), np.float64).reshape(len(column), column.type.list_size)
    return np.array([np.nan if v is None else float(v) for v in column.to_pylist()])
