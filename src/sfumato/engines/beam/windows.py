"""The one window of all that moves between the steps of a release."""

from __future__ import annotations

from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

_WINDOWS = (GlobalWindow(),)

# A number, of a shard or of a table, and an Arrow stream.
Part = tuple[int, bytes]


def in_one_window(part: Part) -> WindowedValue:
    """Put a part into the one global window: what a collection says of its windows may be of the first of
    several that were flattened alone.
    """
    return windowed_value.create(part, MIN_TIMESTAMP.micros, _WINDOWS)
