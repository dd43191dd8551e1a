"""Guidance: what a query would give, what its limits and bounds change, and bounds that a release infers."""
