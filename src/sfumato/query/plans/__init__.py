"""A question and a budget to a plan: which noise, how much, at what price; from the question alone."""
