"""Exact numbers to noisy ones, and what is read from these."""
