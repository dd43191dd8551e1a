"""Words are DuckDB's: where they begin, what quotes and comments hold, and what is between them."""

import re
from itertools import pairwise

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sfumato.dialect import parse
from sfumato.dialect.sql_tokens import MAX_LENGTH, MAX_TOKENS, tokenize
from sfumato.dialect.syntax_tree import NotSql, statements
from sfumato.errors import SqlError

WRITTEN = (
    "a Größe 🦆 x$1 `b``c` \"d\"\"e\" 'f''g' '' e'h\\'i' E'' x'41' b'01' $$j$k$$ $t$ $$ $t$ 1 1.5 .5 1. 1e5 1_000 + - * / ( ) [ ] { } , "
    ". ; : :: => -> ->> := || <> != @ # ? $1 % ^ ~ ! = < > -- /* */ -- /*n/*m*/o*/"
)
# Numbers that run into a word end elsewhere in DuckDB, which refuses all of them.
PIECES = [
    piece + " " if piece[0].isdigit() or piece == ".5" else piece
    for piece in (*WRITTEN.split(" "), *"\n\t\xa0\u3000\ufeff")
]
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.sampled_from([" ", "\n"])), max_size=20).map("".join)


def words(text: str) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in tokenize(text)[:-1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a--b\nc", [("word", "a"), ("word", "c")]),
        ("a--b\rc", [("word", "a"), ("word", "c")]),
        ("a/*b/*'*/*/c", [("word", "a"), ("word", "c")]),
        ("/**/'--'/*'*/", [("text", "--")]),
        ("'a''b'", [("text", "a'b")]),
        ('`a``b`"c""d"', [("name", "a`b"), ("name", 'c"d')]),
        (r"e'a\'b'", [("code", r"e'a\'b'")]),
        ("$$a'b$$ $x$ $$ $x$", [("code", "$$a'b$$"), ("code", "$x$ $$ $x$")]),
        ("x=>-.5e-3", [("word", "x"), ("sign", "=>"), ("sign", "-"), ("number", ".5e-3")]),
        ("a\u00a0b\ufeffc\u3000d", [("word", "a"), ("word", "b"), ("word", "c"), ("word", "d")]),
        ("Größe🦆 $1", [("word", "Größe🦆"), ("sign", "$"), ("number", "1")]),
    ],
)
def test_words(text: str, expected: list[tuple[str, str]]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize("text", ["'a", "a 'b''", '"a', "`a", "$$a", "$x$ $$", "e'a\\'", "/* /* */", "x'4"])
def test_quotes_end(text: str) -> None:
    with pytest.raises(SqlError, match="is not closed"):
        tokenize(text)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(TEXTS)
@example("$$j$k$$\u00a0")
@example("'j$k$'\u00a0x")
def test_words_mean_the_same_without_what_is_between_them(text: str) -> None:
    """Also to DuckDB: nothing that it reads is taken for a comment or a space."""
    try:
        tokens = tokenize(text)[:-1]
    except SqlError:
        return
    glue = [text[a.stop : b.start] for a, b in pairwise(tokens)]
    gaps = ["" if not gap else "\n" if "\n" in gap and "/*" not in gap else " " for gap in glue]
    # A space that is not ASCII is written as a plain one for DuckDB, which finds some of them only.
    plain = [re.sub(r"[^\x00-\x7f]", " ", gap) for gap in glue]
    found = []
    for between in (plain, gaps):
        written = "".join(
            text[t.start : t.stop] + gap for t, gap in zip(tokens, [*between, ""], strict=False)
        )
        try:
            found.append(without_places(statements(f"SELECT {written}\n")))
        except NotSql:
            found.append(None)
    assert found[0] == found[1]


def without_places(tree: object) -> object:
    if isinstance(tree, dict):
        return {k: without_places(v) for k, v in tree.items() if not k.startswith("query_location")}
    return [without_places(one) for one in tree] if isinstance(tree, list) else tree


@pytest.mark.long
def test_hostile_sizes() -> None:
    with pytest.raises(SqlError, match="longer than"):
        tokenize("a" * (MAX_LENGTH + 1))
    with pytest.raises(SqlError, match="more than"):
        tokenize("a " * (MAX_TOKENS + 1))
    with pytest.raises(SqlError, match="an option is out of range"):
        parse(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e999999999, privacy_unit_column = id) COUNT(*) FROM t"
        )
    for text in ("SELECT \0", "SELECT '\ud800'"):
        with pytest.raises(SqlError, match="NUL, or half of a surrogate pair"):
            parse(text)


def test_nothing_is_opened_and_nothing_loaded(tmp_path, monkeypatch) -> None:
    from sfumato.dialect.syntax_tree import ask

    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("id,x\n1,2\n")
    for sql in (
        "SELECT * FROM 'a.csv'",
        "COPY (SELECT 1) TO 'b.csv'",
        "INSTALL spatial",
        "ATTACH 'c.duckdb'",
    ):
        with pytest.raises(duckdb.Error):
            ask(sql)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
