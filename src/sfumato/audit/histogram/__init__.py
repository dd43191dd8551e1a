"""The documented stochastic tester: histograms over the search graphs of Halton datasets."""

from __future__ import annotations

from sfumato.audit.histogram.method import HistogramMethod

__all__ = ["HistogramMethod"]
