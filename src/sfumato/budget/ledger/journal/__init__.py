"""The journal of a ledger: every question, and what came of it, in a chain of digests."""
