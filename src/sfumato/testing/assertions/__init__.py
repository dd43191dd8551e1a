"""Assertions about noisy results: near the truth, and not too near."""
