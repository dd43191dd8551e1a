"""The falsifier: it looks for two inputs that break the claim of a transformation."""
