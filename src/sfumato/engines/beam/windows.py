"""The one window of what a release is applied to, and of all that moves between its steps."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from sfumato.errors import QueryError, with_article

_WINDOWS = (GlobalWindow(),)

# A number, of a shard or of a table, and an Arrow stream.
Part = tuple[int, bytes]


def in_one_window(part: object) -> WindowedValue:
    """Put a part, or a batch of rows, into the one global window.

    What a collection says of its windows may be of the first of several that were flattened alone.
    """
    return windowed_value.create(part, MIN_TIMESTAMP.micros, _WINDOWS)


def check_collection(rows: object) -> None:
    """Refuse what a release is not defined on."""
    if not isinstance(rows, beam.PCollection):
        raise QueryError(f"Beam: a release is of one collection, not of {with_article(type(rows).__name__)}")
    # A trigger gives several panes: a second look at the same people, or at some of their rows alone.
    if not rows.windowing.is_default() or not rows.is_bounded:
        raise QueryError(
            "Beam: the collection has windows, a trigger or no end. A unit's limits hold for a whole "
            "release, which is given out once; put beam.WindowInto(beam.window.GlobalWindows()), without "
            "a trigger or allowed lateness, before it, and release one bounded collection"
        )
