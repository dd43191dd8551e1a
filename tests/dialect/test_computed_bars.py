"""Error bars of what SQL computes with released numbers, in the private SELECT and in one around it."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import RefusalError
from tests.dialect.test_outside import VISITS, written

PRIVATE = (
    "@DP city, SUM(v@R) AS s, COUNT(*) AS n, 100.0 * SUM(v@R) / COUNT(*) AS percent FROM visits GROUP BY city"
)


def ask(text: str) -> sf.Release:
    return sf.sql(written(text.replace("@IN", PRIVATE)).replace("1000000", "9"), tables={"visits": VISITS})


@pytest.mark.noise_cannot_matter("bars are compared with ends of the same release")
@pytest.mark.parametrize(
    ("formula", "around"),
    [
        ("s - n", "SELECT *, @F AS x FROM (@) ORDER BY city DESC"),
        ("n / 4 + s / 2", "SELECT t.*, @F x, n + low FROM (@) AS t WHERE city > 'A' ORDER BY ALL"),
        ("s / (s + n)", "WITH t AS (@) SELECT city, t.s / (s + t.n) AS x, @ENDS FROM t LIMIT 1"),
        (
            "percent / 2 + 1",
            "WITH t AS (@) SELECT percent / 2 + 1 AS x, @ENDS FROM t AS u WHERE city = 'Ulm'",
        ),
        ("round(percent, 1)", "SELECT city, @F AS x, @ENDS FROM (@) LIMIT 1 OFFSET 1"),
        ("s", "SELECT n + 1 AS y, @F AS x, @ENDS FROM (@) u"),
    ],
)
def test_bars_of_a_formula_reach_both_ends(formula: str, around: str) -> None:
    bare = formula.removeprefix("round(").removesuffix(", 1)").replace("percent", "100.0 * s / n")
    private = PRIVATE.replace(
        " FROM", f", {bare} AS f, DP_INTERVAL_LOW(f) AS low, DP_INTERVAL_HIGH(f) AS high FROM"
    )
    text = around.replace("@F", formula).replace("@ENDS", "low, high, n + low").replace("(@)", f"({private})")
    release = ask(text)
    found, bars = release.to_arrow(), release.errors()
    assert "x" in release.measured and "(n + low)" not in release.measured and found.num_rows
    for row, bar in zip(found.to_pylist(), bars["x"].to_pylist(), strict=True):
        reach = max(row["high"] - row["x"], row["x"] - row["low"])
        assert bar == pytest.approx(reach)


@pytest.mark.noise_cannot_matter("bars are compared with those of the same release")
def test_bars_of_a_rounded_output_of_the_same_name_are_around_what_is_shown() -> None:
    release = ask(
        "SELECT round(m) AS m, 2024 AS year, n FROM (@DP city, AVG(v@R) AS m, COUNT(*) AS n FROM visits GROUP BY city)"
    )
    before, after = (one.to_arrow()["m"].to_numpy() for one in (release.released, release))
    expected = release.released.errors()["m"].to_numpy() + np.abs(after - before)
    assert release.errors()["m"].to_pylist() == pytest.approx(expected)
    assert release.errors()["n"].to_pylist() == release.released.errors()["n"].to_pylist()


@pytest.mark.noise_cannot_matter("only which columns have bars is compared")
@pytest.mark.parametrize(
    ("text", "measured"),
    [
        ("SELECT city, n * n AS a, s / n + n / s AS b, n + 1 AS c, 2 AS d FROM (@IN)", ["c"]),
        ("SELECT city AS n, s AS other, round(n) + round(s) AS z FROM (@IN) AS t", ["other"]),
        ("SELECT coalesce(n, 0) AS a, n // 2 AS b, n % 2 AS c, n FROM (@IN)", ["n"]),
        ("@DP year, year + COUNT(*) AS a, COUNT(*) + 1 AS b FROM visits GROUP BY year", ["b"]),
    ],
)
def test_only_formulas_have_bars(text: str, measured: list[str]) -> None:
    release = ask(text)
    assert release.measured == measured
    nulls = [name for name in release.errors().schema.names if release.errors()[name].null_count]
    assert not {*nulls} & {*measured}


@pytest.mark.noise_cannot_matter("only names are compared")
def test_what_is_released_for_bars_has_a_name_that_the_text_does_not_use() -> None:
    having = (
        PRIVATE.replace("100.0", "round(100.0").replace("(*) AS p", "(*)) AS p")
        + " HAVING percent = round(percent)"
    )
    release = ask(f"SELECT city, s - n AS n, s + n, percent FROM ({having}) ORDER BY percent + 1")
    names = [name for name, _ in release.released.plan.query.aggregates]
    assert names == ["s", "n", "percent_computed", "n_computed", "column_computed"]
    assert release.to_arrow().num_rows and ", percent_computed" in str(release.explain())
    taken = ask("@DP city, COUNT(*) AS x_computed, 2 * COUNT(*) AS x FROM visits GROUP BY city").released
    assert taken.plan.query.output_names == ("x_computed", "x_computed_2")


@pytest.mark.noise_cannot_matter("it is refused, whatever is drawn")
@pytest.mark.parametrize(
    "text",
    [
        "SELECT sum(n) AS n FROM (@IN)",
        'SELECT "sum"(n) AS n FROM (@IN)',
        "SELECT n FROM (@IN) GROUP BY n",
        "SELECT DISTINCT n FROM (@IN)",
        "SELECT x + 1 AS y FROM (@IN) AS t (c, n, x, p)",
        "SELECT a.n - b.n AS n FROM (@IN) AS a, (@IN) AS b",
        "WITH t AS (@IN) SELECT a.n FROM t AS a JOIN t AS b USING (city)",
        "SELECT n FROM (@IN) UNION ALL SELECT 1",
        "SELECT n FROM (SELECT 2 * n AS n FROM (@IN))",
        "SELECT t FROM (@IN) AS t",
        "SELECT * EXCLUDE (n) FROM (@IN)",
        "SELECT COLUMNS('n') FROM (@IN)",
        "SELECT n, rank() OVER (ORDER BY n) AS r FROM (@IN)",
        "SELECT n IS DISTINCT FROM s AS n FROM (@IN)",
        "SELECT n FROM (@IN) WHERE n > (SELECT 3)",
    ],
)
def test_rows_of_several_released_rows_have_no_bars(text: str) -> None:
    release = ask(text)
    before = release.to_arrow().schema.names
    assert not [name for name in before if "released" in name]
    with pytest.raises(RefusalError, match="one SELECT around the private one"):
        release.errors()


GROUPS, RELEASES = 100, 100
FORMULAS = {"d": "s - n", "half": "n / 2", "r": "100.0 * s / n", "share": "s / (s + n)"}


@pytest.mark.long
@pytest.mark.flakiness(k=20, because="16 binomial tails of 6.5 standard deviations, below 1e-10 each")
@pytest.mark.parametrize("noise", ["laplace", "k_norm"])
def test_bars_hold_as_often_as_they_say(noise: str) -> None:
    """Groups have noises of their own, so that misses of one formula are independent."""
    rng = np.random.default_rng(5)
    town = rng.integers(0, GROUPS, 400 * GROUPS)
    visits = pa.table({"id": np.arange(len(town)), "town": town, "x": rng.uniform(2, 8, len(town))})
    inner = (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25, noise = '{noise}', privacy_unit_column = id, "
        "max_groups_contributed = 1, max_rows_per_group = 1, group_selection_strategy = PUBLIC_GROUPS) p.town, "
        "SUM(x, contribution_bounds_per_row => (0, 10)) AS s, COUNT(x) AS n FROM visits RIGHT OUTER JOIN "
        "(SELECT DISTINCT town FROM towns) AS p ON visits.town = p.town GROUP BY p.town"
    )
    listed = ", ".join(f"{formula} AS {name}" for name, formula in FORMULAS.items())
    text = f"SELECT town, {listed} FROM ({{}}) AS t ORDER BY town"
    towns = sf.public(pa.table({"town": list(range(GROUPS))}))
    exact = duckdb.sql(text.format("SELECT town, sum(x) AS s, count(*) AS n FROM visits GROUP BY town"))
    exact = exact.to_arrow_table()
    missed = {(name, confidence): 0 for name in FORMULAS for confidence in (0.8, 0.95)}
    for _ in range(RELEASES):
        release = sf.sql(text.format(inner), tables={"visits": visits, "towns": towns})
        found = release.to_arrow()
        for name, confidence in missed:
            apart = np.abs(found[name].to_numpy() - exact[name].to_numpy())
            bars = release.errors(confidence)[name].to_numpy()
            missed[name, confidence] += int((apart > bars * (1 + 1e-9)).sum())
    size = GROUPS * RELEASES
    for (_, confidence), count in missed.items():
        most, least = 1 - confidence, (1 - confidence) * 0.75
        deviations = [6.5 * np.sqrt(size * chance * (1 - chance)) for chance in (least, most)]
        assert size * least - deviations[0] <= count <= size * most + deviations[1]
