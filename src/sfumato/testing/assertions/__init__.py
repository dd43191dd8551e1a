"""Assertions: a result near the truth, and not too near."""
