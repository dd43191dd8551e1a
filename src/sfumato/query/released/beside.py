"""Numbers of a release with their error bars beside them: as a table, and as a workbook."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.errors import SfumatoError
from sfumato.query.bars import Bars

if TYPE_CHECKING:
    from sfumato.query.released.noisy_table import NoisyTable


def with_errors(release: NoisyTable, bars: Bars) -> pa.Table:
    """Return the table with error bars, each in a column behind that of its number; as it is written.

    Args:
        release: whose noise is drawn, if it was not.
        bars: the error bars.
    Raises:
        ParameterError, QueryError, RefusalError: as of `NoisyTable.write`; nothing is drawn then.
    """
    release.check_bars(bars)
    return release.with_bars(bars)


def write_workbook(
    release: NoisyTable,
    path: Path,
    bars: Bars | None,
    check: Callable[[], object],
) -> None:
    """Write the table with error bars, where there are any, and what it is, as a workbook.

    Args:
        release: whose noise is drawn, if it was not.
        path: of the file.
        bars: the error bars; those of the release where it is None.
        check: refuses, by what it raises, before a file of that name is replaced.
    """
    from sfumato.query.cards.about import about
    from sfumato.query.released import workbook

    if bars is None and release.measured:
        with suppress(SfumatoError):  # of names that are taken
            release.check_bars(release.bars)
            bars = release.bars
    table = release.to_arrow() if bars is None else with_errors(release, bars)
    workbook.write(path, table, about(release, bars), check)
