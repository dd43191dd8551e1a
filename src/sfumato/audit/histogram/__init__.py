"""The documented stochastic tester: histograms over the search graphs of Halton datasets."""
