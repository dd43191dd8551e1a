"""Transformations of single records: vectors of values in; vectors and exact numbers out."""
