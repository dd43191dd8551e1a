"""Closeness of a sample of noise to its law, or to another sample, with a stated error."""
