"""A query as plain data: its columns, tables, aggregates and totals, and how it is explained."""
