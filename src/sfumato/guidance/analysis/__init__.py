"""Utility analysis for the owner of a table: what limits and bounds cut, and what noise adds. Not private."""
