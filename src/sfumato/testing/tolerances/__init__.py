"""Tolerances: how far correct noise takes a number, a mean or a variance from the truth."""
