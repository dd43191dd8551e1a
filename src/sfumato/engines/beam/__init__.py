"""Releases on Apache Beam."""

from sfumato.query.released.output import require

require("apache_beam", "beam")
