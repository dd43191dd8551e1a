"""Noise in the shape of what one unit can add: K-norm noise, exactly rounded."""
