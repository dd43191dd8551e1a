"""The names behind the dot of tables, questions, plans and releases are those that the reference documents."""

from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf

from .pages import members, reference, shown

pytestmark = pytest.mark.noise_cannot_matter("names alone are looked at")
SQL = (
    "SELECT n + 1 AS m FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id) "
    "COUNT(DISTINCT id) AS n FROM people)"
)


def documented(kind: type, pages: dict[str, str]) -> set[str]:
    """Return the names that the entry of a class shows: members, and those that its docstring describes."""
    (entry,) = (entry for entry in shown(pages.values()) if entry.value is kind)
    names = {name for name, _ in members(kind, entry.options)}
    return names | reference.described(reference.documented(kind))


def undocumented(value: Any, pages: dict[str, str]) -> set[str]:
    """Return the public names of an object that the entry of its class does not document."""
    return {name for name in dir(value) if not name.startswith("_")} - documented(type(value), pages)


@pytest.fixture(scope="module")
def held() -> dict[str, Any]:
    """Return an object of each class, by the name of the class."""
    people = pa.table({"id": range(100), "town": ["ABCD"[i % 4] for i in range(100)]})
    table = sf.scan(people, privacy_unit="id")
    question = table.group_by("town", keys=list("ABCD")).bound(groups=1, rows=1).agg(n=sf.count())
    top = table.top("town", k=2)
    made = (
        question.release(epsilon=1),
        top.release(epsilon=1, delta="1e-6"),
        sf.sql(SQL, tables={"people": people}),
    )
    for release in made:
        release.to_arrow()
    before = (table, question, top, question.plan(epsilon=1))
    return {type(one).__name__: one for one in (*made, *before)}


@pytest.mark.parametrize(
    "kind", ["Table", "Question", "Top", "Plan", "Release", "TopRelease", "ProcessedRelease"]
)
def test_names_behind_the_dot_are_documented(held: dict[str, Any], kind: str, pages: dict[str, str]) -> None:
    assert not undocumented(held[kind], pages)
