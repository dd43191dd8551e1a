"""Releases on Apache Beam."""

from sfumato.errors import require

require("apache_beam", "beam")
