"""What a question leaves to its release: found by a first noisy look, for a share of the budget."""
