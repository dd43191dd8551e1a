"""Visits to the doctor by year, from the table that examples/rwm5yr.py writes.

    python examples/visits_by_year.py [rwm5yr.parquet]

It needs `pip install '.[examples]'` in a checkout (for pandas, which prints the
tables). The same question in SQL is examples/visits_by_year.sql.
"""

from __future__ import annotations

import sys

import sfumato as sf


def main(path: str = "rwm5yr.parquet") -> None:
    people = sf.scan(path, privacy_unit="id")
    question = (
        people.group_by("year")
        .bound(groups=5, rows=1)  # a person is in at most 5 years, with one row in each
        .agg(
            people=sf.count_units(),
            # Bounds are chosen beforehand, never read from the rows; the error bars do not
            # include what they cut.
            visits=sf.mean("docvis", lower=0, upper=60),
        )
    )
    release = question.release(epsilon=1, delta=1e-6)

    print(release.frame(errors=True).round(2).to_string(index=False))
    print(f"\n{release.explain()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
