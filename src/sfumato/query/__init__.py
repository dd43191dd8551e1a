"""What is asked: the question, its plan within a budget, the release and its outputs."""
