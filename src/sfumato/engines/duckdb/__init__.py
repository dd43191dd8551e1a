"""The default engine: DuckDB, embedded, out of core."""
