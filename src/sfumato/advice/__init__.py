"""Advice for several questions at once: limits, bounds and a part of the budget for each, for one look."""
