"""SQL on released tables: what it means, what is refused, and that nothing exact is in reach."""

import re
from fractions import Fraction
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.dialect import parse
from sfumato.errors import SqlError
from sfumato.query.aggregates import Combination, WeightedSum
from sfumato.release.processed_release import ProcessedRelease
from tests.support.tiers import one_in
from tests.support.verdicts import verdicts

OPTIONS = "epsilon = 1000000, delta = 1e-6, privacy_unit_column = id, max_groups_contributed = 8, max_rows_per_group = 8"
PUBLIC_GROUPS = "group_selection_strategy = PUBLIC_GROUPS"
WORDS = {
    "@DP": f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({OPTIONS})",
    "@PG": f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({PUBLIC_GROUPS}, {OPTIONS.replace('delta = 1e-6, ', '')})",
    "@G": ", contribution_bounds_per_group => (0, 1000)",
    "@R": ", contribution_bounds_per_row => (0, 100)",
}
LIMITS = "max_groups_contributed = 8, max_rows_per_group = 8"
WORDS["@TR"] = WORDS["@DP"].replace(LIMITS, "max_rows_contributed = 8")
PLAIN = {"@DP": "SELECT", "@PG": "SELECT", "@TR": "SELECT", "@G": "", "@R": ""}
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
PEOPLE = pa.table(
    {
        "id": list(range(300)),
        "year": [None if i % 5 == 0 else 2000 + i % 3 for i in range(300)],
        "city": ["Ulm" if i % 3 else "Bonn" for i in range(300)],
    }
)
TOWNS = pa.table(
    {
        "city": ["Ulm", "Bonn", "Kiel"],
        "region": ["south", "west", "north"],
        "people": [100, 200, 300],
        "huge": pa.array([3, 2, 1], pa.decimal128(38, 0)),
    }
)
YEARS = pa.table({"year": [2000, 2001, 2002, 2050, None], "label": ["a", "b", "c", "d", "e"]})
NAMES = pa.table({"x": [1, 2]})
PRIVATE = {"visits": VISITS, "people": PEOPLE}
PUBLIC = {"towns": TOWNS, "years": YEARS, "my.names": NAMES}


def written(text: str, words: dict[str, str] = WORDS) -> str:
    for short, long in words.items():
        text = text.replace(short, long)
    return text


def ask(text: str) -> sf.Release:
    public = {name: sf.public(table) for name, table in PUBLIC.items()}
    return sf.sql(written(text), tables={**PRIVATE, **public})


def rounded(table: pa.Table) -> list[tuple[object, ...]]:
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return [tuple(round(float(x), 1) if isinstance(x, (int, float)) else x for x in row) for row in rows]


@pytest.mark.flakiness(k=40, because="epsilon is so large that noise moves no number by half a unit")
@pytest.mark.parametrize(("verdict", "text"), one_in(6, verdicts("outside.txt", "same")))
def test_answers_are_those_of_plain_sql(verdict: str, text: str) -> None:
    release = ask(text)
    with duckdb.connect() as connection:
        for name, table in (PRIVATE | PUBLIC).items():
            connection.register(name, table)
        expected = connection.sql(written(text, PLAIN)).to_arrow_table()
    assert isinstance(release, ProcessedRelease)
    assert release.to_arrow().schema.names == expected.schema.names
    found, wanted = rounded(release.to_arrow()), rounded(expected)
    loose = verdict.endswith("in any order")
    assert sorted(found) == sorted(wanted) if loose else found == wanted


@pytest.mark.noise_cannot_matter("only names of columns are compared")
@pytest.mark.parametrize(("verdict", "text"), one_in(6, verdicts("outside.txt", "gives")))
def test_columns(verdict: str, text: str) -> None:
    assert ask(text).to_arrow().schema.names == verdict.removeprefix("gives ").split(", ")


@pytest.mark.parametrize(("verdict", "text"), verdicts("outside.txt", "refused"))
def test_refusals(verdict: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sf.Release, "_draw", None)  # nothing is read or drawn
    before, place, after = re.split("[«»]", text)
    with pytest.raises(SqlError) as caught:
        ask(before + place + after)
    message, _, shown, marks = str(caught.value).split("\n")
    assert verdict.removeprefix("refused: ") in message
    at = marks.index("^")
    marked = shown[at : at + marks.count("^")]
    assert marked in written(place)


@pytest.mark.noise_cannot_matter("all groups are large enough to be shown, whatever is drawn")
@pytest.mark.parametrize(("verdict", "text"), one_in(6, verdicts("outside.txt", "fails")))
def test_failures_on_noisy_numbers_do_not_lose_them(verdict: str, text: str) -> None:
    release = ask(text)
    assert isinstance(release, ProcessedRelease)
    with pytest.raises(SqlError, match=verdict.removeprefix("fails: ")) as caught:
        release.to_arrow()
    assert ".released" in str(caught.value) and caught.value.__context__ is None
    assert all(one.to_arrow().num_rows in (1, 2, 3) for one in release._releases)


BY_YEAR = (
    "@DP year, COUNT(*) AS n, 2 * COUNT(*) AS twice FROM visits GROUP BY year ORDER BY n DESC, year LIMIT 2"
)


@pytest.mark.noise_cannot_matter("all numbers are of one draw")
def test_one_draw_serves_all_looks(tmp_path: Path) -> None:
    text = "WITH t AS (@DP year, COUNT(*) AS n FROM visits GROUP BY year) SELECT a.n - b.n AS d FROM t a JOIN t b USING (year)"
    noisy = text.replace("@DP", WORDS["@DP"].replace("1000000", "0.1"))
    assert set(sf.sql(noisy, tables={"visits": VISITS}).to_arrow()["d"].to_pylist()) <= {0}
    release = ask(BY_YEAR)
    release.write(tmp_path / "out.parquet", confidence=0.9)
    kept = pq.read_table(tmp_path / "out.parquet")
    assert kept.schema.names == ["year", "n", "n_error", "twice", "twice_error"]
    assert kept.select(["year", "n", "twice"]) == release.to_arrow()
    assert release.to_pandas()["n"].tolist() == release.to_polars()["n"].to_list() == kept["n"].to_pylist()
    assert kept["n_error"] == release.errors(0.9)["n"]
    assert kept["twice_error"].to_pylist() == [2 * width for width in kept["n_error"].to_pylist()]


@pytest.mark.noise_cannot_matter("rows are found by their keys")
def test_error_bars_follow_rows() -> None:
    text = "@DP city, AVG(v@R) AS mean, DP_INTERVAL_LOW(mean) AS low, DP_INTERVAL_HIGH(mean) AS high, 1 + AVG(v@R) AS more"
    text += " FROM visits GROUP BY city ORDER BY city DESC"
    release = sf.sql(
        written(text).replace("epsilon =", "confidence = 0.8, epsilon =").replace("1000000", "9"),
        tables={"visits": VISITS},
    )
    assert isinstance(release, ProcessedRelease) and release.measured == ["mean", "more"]
    widths = dict(zip(*(release.released.errors(0.8)[c].to_pylist() for c in ("city", "mean")), strict=True))
    errors, table = release.errors(0.8), release.to_arrow()
    assert table["city"].to_pylist() == ["Ulm", "Bonn"] == errors["city"].to_pylist()
    assert errors["mean"].to_pylist() == [widths["Ulm"], widths["Bonn"]]
    for mean, bar, more in zip(
        *(c.to_pylist() for c in (table["mean"], errors["mean"], errors["more"])), strict=True
    ):
        # A mean and its bar end at its bounds; a formula has no bounds.
        assert more == pytest.approx(bar) if bar < min(mean, 100 - mean) else more >= bar - 1e-9
    for row in table.to_pylist():
        assert row["low"] == row["mean"] - widths[row["city"]]
        assert row["high"] == row["mean"] + widths[row["city"]]


@pytest.mark.noise_cannot_matter("ends are those of the release, whatever the numbers are")
def test_ratios_and_differences_have_the_error_bars_of_python() -> None:
    """By hand a bar of a ratio goes wrong: its two numbers have noise in common, and the lower one may be near 0."""
    text = (
        "@DP city, SUM(v@R) AS s, COUNT(*) AS n, s / n AS r, DP_INTERVAL_LOW(r) AS low, DP_INTERVAL_HIGH(s / n) AS high, "
        "DP_INTERVAL_LOW(s - COUNT(v)) AS less, DP_INTERVAL_HIGH(n - n) AS nothing FROM visits GROUP BY city ORDER BY city"
    )
    release = sf.sql(written(text).replace("1000000", "9"), tables={"visits": VISITS})
    table, asked = release.to_arrow(), release.released
    derived = {name: a for name, a in asked.plan.query.aggregates if a.derived}
    assert sorted(derived.values(), key=str) == sorted(
        [sf.ratio("s", "n"), sf.difference("s", "count_v"), Combination(weighted(n=0))], key=str
    )
    of = {a: name for name, a in derived.items()}
    found, bars = asked.to_arrow(), asked.errors(0.95)
    ratio, less = of[sf.ratio("s", "n")], of[sf.difference("s", "count_v")]
    for i, row in enumerate(table.to_pylist()):
        assert row["low"] == found[ratio][i].as_py() - bars[ratio][i].as_py()
        assert row["high"] == found[ratio][i].as_py() + bars[ratio][i].as_py()
        assert row["less"] == found[less][i].as_py() - bars[less][i].as_py() and row["nothing"] == 0


def weighted(constant: Fraction | int = 0, **terms: Fraction | int) -> WeightedSum:
    return WeightedSum(tuple((name, Fraction(w)) for name, w in terms.items()), Fraction(constant))


@pytest.mark.parametrize(
    ("written_as", "asked"),
    [
        ("n", None),
        ("2 * s / (n + n)", sf.ratio("s", "n")),
        ("-(n - s)", sf.difference("s", "n")),
        ("n * 0.1 - 3", Combination(weighted(n=Fraction(1, 10), constant=-3))),
        ("n / 4 + s / 2 / 2", Combination(weighted(n=Fraction(1, 4), s=Fraction(1, 4)))),
        ("100 * (s - n) / n", Combination(weighted(s=100, n=-100), weighted(n=1))),
        ("1 + s / (2 * n)", Combination(weighted(s=Fraction(1, 2), n=1), weighted(n=1))),
        ("s / n + 3 * m / n", Combination(weighted(s=1, m=3), weighted(n=1))),
        ("(s / n) / (m / n)", sf.ratio("s", "m")),
        ("s / (n + m)", Combination(weighted(s=1), weighted(n=1, m=1))),
        ("2 / (n / s)", Combination(weighted(s=2), weighted(n=1))),
        ("share + 1", Combination(weighted(s=1, n=1), weighted(n=1))),
    ],
)
def test_what_is_computed_of_outputs_is_one_question(written_as: str, asked: object) -> None:
    text = f"@DP SUM(v@R) AS s, COUNT(*) AS n, COUNT(v) AS m, s / n AS share, DP_INTERVAL_LOW({written_as}) AS low FROM visits"
    found = [a for _, a in parse(written(text), private=["visits"]).aggregates if a.derived]
    assert found == list(dict.fromkeys([sf.ratio("s", "n"), *([] if asked is None else [asked])]))


@pytest.mark.noise_cannot_matter("two groups of other sizes by far")
def test_without_an_order_rows_stay_sorted_by_their_keys() -> None:
    release = ask("@DP city, rank() OVER (ORDER BY COUNT(*) DESC) AS place FROM visits GROUP BY city")
    assert release.to_arrow().to_pylist() == [{"city": "Bonn", "place": 2}, {"city": "Ulm", "place": 1}]
