"""Releases: payment, noise on exact statistics, noisy tables, files, pictures and receipts."""
