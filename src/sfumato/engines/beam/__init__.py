"""Releases on Apache Beam, and the private collections that users of Privacy on Beam know."""

from sfumato.query.released.output import require

require("apache_beam", "beam")
