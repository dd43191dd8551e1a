"""Transformations of single records: vectors of values in, numbers out."""
