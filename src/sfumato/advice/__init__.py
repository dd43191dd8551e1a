"""Advice for several queries of one table: limits, bounds and a part of one budget for each."""
