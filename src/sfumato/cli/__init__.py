"""The command line. `main` is its door; nothing here computes a number that is released."""
