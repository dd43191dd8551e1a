"""What audits draw from many times: exact numbers of rows are computed once, and noise each time."""

from __future__ import annotations


class Once:
    """An engine that evaluates each question once, as noise alone is drawn anew."""

    def __init__(self, engine):
        self.engine, self.known = engine, {}

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def statistics(self, query, batch_rows):
        key = repr(query)
        if key not in self.known:
            self.known[key] = list(self.engine.statistics(query, batch_rows))
        return iter(self.known[key])
