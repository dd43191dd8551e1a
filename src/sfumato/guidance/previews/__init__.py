"""What a release would give, before a row is read."""
