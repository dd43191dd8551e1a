"""Mistakes that a checker of types sees: each line that is marked has one, and no other line."""

from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

import sfumato as sf


def analysis() -> tuple[pa.Table, tuple[float, float], str, int]:
    people = sf.scan("visits.parquet", privacy_unit="id").group_by("year").bound(groups=3, rows=1)
    question = people.agg(n=sf.count(), total=sf.sum("visits", lower=0, upper=30, per="unit"))
    release = question.release(epsilon=1, delta=1e-6, noise="gaussian")
    table: pa.Table = release.to_arrow()
    spent: tuple[float, float] = release.spent
    question.release(epsilon="1/3", delta="1e-6", noise="laplace")
    question.release(share="1/12", budget=sf.Budget(epsilon="3", delta="1e-6"))
    question.plan(epsilon=Fraction(1, 3), delta=Decimal("1e-6"), auto_share="1/5").explain()
    question.preview(epsilon=["1/3", 1], delta="1e-6", units=100)
    people.agg(mean=sf.mean("visits", lower="0", upper=Decimal("30.5"))).release(epsilon="1/3")
    text: str = str(question.plan(epsilon=1, delta=1e-6).explain())

    question.release(epsilon=1, delta=1e-6, noise="gaussain")  # mistake
    question.release(epsilon=[1], delta=1e-6)  # mistake
    question.plan(epsilon=1, delta=1e-6, group_selection="geometric")  # mistake
    sf.sum("visits", lower=0, upper=30, per="person")  # mistake
    sf.mean("visits", 0, 30)  # mistake
    question.plan(epsilon=1, delta=1e-6).explain().to_tekst()  # mistake
    question.plan(epsilon=1, delta=1e-6).explian()  # mistake
    release.to_arow()  # mistake
    release.errors(confidence="high")  # mistake
    people.bound(group=3)  # mistake
    people.filter(30)  # mistake
    sf.scan("visits.parquet")  # mistake
    wrong: int = release.spent  # mistake
    sf.sql("SELECT 1").to_arow()  # mistake
    noisy: sf.NoisyTable = sf.sql("SELECT 1")
    differs: bool = noisy.compare("n", 1984, 1988, sampling=True).excludes_zero or noisy.drawn
    noisy.errors(0.9, sampling=differs)
    if isinstance(noisy, sf.TopRelease):
        noisy.write(f"largest_{noisy.plan.measurement.k}.csv")
        noisy.plan.explian()  # mistake
    noisy.question.plan(epsilon=1)  # mistake
    release = sf.sql("SELECT 1")  # mistake
    catalog = sf.catalog("catalog.toml")
    mean = catalog.table("visits").group_by("year").agg(mean=sf.mean("age"))
    mean.plan(epsilon=1).explain()
    sf.sql("SELECT 1", catalog=catalog).to_arrow()
    catalog.table("visits").bound(group=3)  # mistake
    catalog.tabel("visits")  # mistake
    sf.sql("SELECT 1", catalog="catalog.toml")  # mistake
    return table, spent, text, wrong
