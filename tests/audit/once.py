"""What audits draw from many times: exact numbers of rows are computed once, and noise each time."""

from __future__ import annotations


def once(engine):
    """Let an engine, and those that it makes, evaluate each question once, as noise alone is drawn anew."""
    evaluate, combine, known = engine.statistics, engine.combined, {}

    def statistics(query, batch_rows, *salt):
        key = repr(query), salt
        if key not in known:
            known[key] = list(evaluate(query, batch_rows, *salt))
        return iter(known[key])

    def combined(how):
        key = repr(how)
        if key not in known:
            known[key] = once(combine(how))
        return known[key]

    engine.statistics, engine.combined = statistics, combined
    return engine


def by_name(found):
    """Return draws, each of named numbers, as a list for each name."""
    return {name: [row[name] for row in found] for name in found[0]}
