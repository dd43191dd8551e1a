"""SQL on released tables: what it means, what is refused, and that nothing exact is in reach."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SqlError
from sfumato.query.processed import ProcessedRelease

CORPUS = (Path(__file__).parent / "outside.txt").read_text()
OPTIONS = "epsilon = 1000000, delta = 1e-6, privacy_unit_column = id, max_groups_contributed = 8, max_rows_per_group = 8"
WORDS = {
    "@DP": f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({OPTIONS})",
    "@G": ", contribution_bounds_per_group => (0, 1000)",
    "@R": ", contribution_bounds_per_row => (0, 100)",
}
PLAIN = {"@DP": "SELECT", "@G": "", "@R": ""}
ROWS = 600
VISITS = pa.table(
    {
        "id": [i // 3 for i in range(ROWS)],
        "year": [2000 + (i * i) % 7 % 4 for i in range(ROWS)],
        "v": [i * 37 % 20 for i in range(ROWS)],
        "age": [20 + i % 61 for i in range(ROWS)],
        "city": ["Ulm" if i % 3 else "Bonn" for i in range(ROWS)],
    }
)


def corpus(kind: str) -> list[tuple[str, str]]:
    """Return verdicts of one kind, and their texts."""
    entries = re.findall(r"^== (.*)\n((?:(?!==|\n).*\n?)*)", CORPUS, re.MULTILINE)
    return [(verdict, text) for verdict, text in entries if verdict.startswith(kind)]


def written(text: str, words: dict[str, str] = WORDS) -> str:
    for short, long in words.items():
        text = text.replace(short, long)
    return text


def ask(text: str) -> sf.Release:
    return sf.sql(written(text), tables={"visits": VISITS})


def test_the_corpus_is_read() -> None:
    assert len(corpus("")) == CORPUS.count("\n== ") >= 120
    assert all(text.strip() for _, text in corpus(""))


def rounded(table: pa.Table) -> list[tuple[object, ...]]:
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return [tuple(round(float(x), 1) if isinstance(x, (int, float)) else x for x in row) for row in rows]


@pytest.mark.flakiness(k=40, because="epsilon is so large that noise moves no number by half a unit")
@pytest.mark.parametrize(("verdict", "text"), corpus("same"))
def test_answers_are_those_of_plain_sql(verdict: str, text: str) -> None:
    release = ask(text)
    with duckdb.connect() as connection:
        connection.register("visits", VISITS)
        expected = connection.sql(written(text, PLAIN)).to_arrow_table()
    assert isinstance(release, ProcessedRelease)
    assert release.to_arrow().schema.names == expected.schema.names
    assert rounded(release.to_arrow()) == rounded(expected)


@pytest.mark.noise_cannot_matter("only names of columns are compared")
@pytest.mark.parametrize(("verdict", "text"), corpus("gives"))
def test_columns(verdict: str, text: str) -> None:
    assert ask(text).to_arrow().schema.names == verdict.removeprefix("gives ").split(", ")


@pytest.mark.parametrize(("verdict", "text"), corpus("refused"))
def test_refusals(verdict: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sf.Release, "_draw", None)  # nothing is read or drawn
    with pytest.raises(SqlError) as caught:
        ask(text)
    marked, says = re.fullmatch(r"refused \((.*)\): (.*)", verdict).groups()  # type: ignore[union-attr]
    message, _, shown, marks = str(caught.value).split("\n")
    assert says in message
    at = marks.index("^")
    assert shown[at : at + marks.count("^")].startswith(written(marked)[: marks.count("^")])


@pytest.mark.noise_cannot_matter("all groups are large enough to be shown, whatever is drawn")
@pytest.mark.parametrize(("verdict", "text"), corpus("fails"))
def test_failures_on_noisy_numbers_do_not_lose_them(verdict: str, text: str) -> None:
    release = ask(text)
    assert isinstance(release, ProcessedRelease)
    with pytest.raises(SqlError, match=verdict.removeprefix("fails: ")) as caught:
        release.to_arrow()
    assert ".released" in str(caught.value) and caught.value.__context__ is None
    assert release.released.to_arrow().num_rows in (2, 3)
