"""A query and a budget to a plan: the statistics to compute, the measurement and its description."""
