"""Releases on Apache Beam."""

from sfumato.release.output import require

require("apache_beam", "beam")
