"""Releases on Apache Spark."""
