"""Row expressions: what may be asked of a row, and its form that cannot raise."""
