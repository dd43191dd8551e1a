"""Error bars of what SQL computes with released numbers, in the private SELECT and in one around it."""

import pickle

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import RefusalError
from sfumato.noise.noise_sums import Form
from tests.dialect.test_outside import VISITS, written

PRIVATE = (
    "@DP city, SUM(v@R) AS s, COUNT(*) AS n, 100.0 * SUM(v@R) / COUNT(*) AS percent FROM visits GROUP BY city"
)

WEIGHTS = pa.table({"city": ["Bonn", "Ulm"], "w": [3.0, 0.5], "side": [0, 1]})


def ask(text: str) -> sf.Release:
    sql = written(text.replace("@IN", PRIVATE)).replace("1000000", "9")
    return sf.sql(sql, tables={"visits": VISITS, "w": sf.public(WEIGHTS)})


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
        ("SELECT n, rank() OVER (ORDER BY n) AS r FROM (@IN)", ["n"]),
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
        "SELECT max(n) AS n FROM (@IN)",
        "SELECT sum(n) AS n FROM (@IN) HAVING sum(n) > 3",
        "SELECT city, sum(n) AS n FROM (@IN) GROUP BY city ORDER BY n LIMIT 1",
        "SELECT sum(n) AS n FROM (@IN) WHERE n > 3",
        "SELECT n, sum(s) AS s FROM (@IN) GROUP BY ALL",
        "SELECT sum(r.n * w.n) AS n FROM (@IN) AS r JOIN (@IN) AS w USING (city)",
        "SELECT sum(n) AS n FROM (@IN) JOIN w ON n > w",
        "SELECT sum(n) AS n FROM (SELECT DISTINCT n FROM (@IN))",
        "SELECT sum(n) AS n FROM (SELECT n FROM (@IN) ORDER BY n LIMIT 2)",
        "SELECT sum(v.x) + sum(n) AS n FROM (@IN) AS r, (SELECT w * r.n AS x FROM w) AS v",
        "WITH t AS (@IN), u AS (SELECT sum(n) AS m FROM t) SELECT n / (SELECT m FROM u) AS x FROM (SELECT n FROM t)",
        "WITH t (n, city, s, p) AS (@IN) SELECT sum(s) AS x FROM t",
        'SELECT sum("(n * n)" + n) AS x FROM (SELECT n * n, n FROM (@IN))',
        "SELECT n FROM (@IN) GROUP BY n",
        "SELECT DISTINCT n FROM (@IN)",
        "SELECT x + 1 AS y FROM (@IN) AS t (c, n, x, p)",
        "SELECT a.n - b.n AS n FROM (@IN) AS a, (@IN) AS b",
        "WITH t AS (@IN) SELECT a.n FROM t AS a JOIN t AS b USING (city)",
        "SELECT n FROM (@IN) UNION ALL SELECT 1",
        "SELECT t FROM (@IN) AS t",
        "SELECT * EXCLUDE (n) FROM (@IN)",
        "SELECT COLUMNS('n') FROM (@IN)",
        "SELECT n IS DISTINCT FROM s AS n FROM (@IN)",
        "SELECT n FROM (@IN) WHERE n > (SELECT 3)",
    ],
)
def test_rows_of_several_released_rows_have_no_bars(text: str) -> None:
    release = ask(text)
    before = release.to_arrow().schema.names
    assert not [name for name in before if "released" in name]
    with pytest.raises(RefusalError, match="adds rows up with public weights"):
        release.errors()


@pytest.mark.noise_cannot_matter("bars are compared with those of the same release")
@pytest.mark.parametrize(
    "text",
    [
        "SELECT city, n, percent FROM (@IN) JOIN w USING (city)",
        "SELECT city, 2 * n AS n, 100 * x AS percent FROM (SELECT city, n / 2 AS n, s / n AS x FROM (@IN))",
        "SELECT city, sum(n) AS n, 100 * sum(s) / sum(n) AS percent FROM (@IN) GROUP BY ALL ORDER BY ALL DESC",
        "WITH t AS (@IN) SELECT sum(n) AS n, city, round(sum(100 * CAST(s / n AS DOUBLE))) AS percent FROM t GROUP BY city",
        "WITH t AS (SELECT * FROM w), u AS (@IN) SELECT u.city, -sum(-n - 2 * w * n) / sum(2 * w + 1) AS n, "
        "sum(w * percent) FILTER (w > 0) / sum(w) - 1 AS percent FROM t JOIN u ON t.city = u.city GROUP BY 1",
    ],
)
def test_sums_over_one_row_have_the_bars_of_that_row(text: str) -> None:
    """Both ways to bars agree: row by row, and by the weights of several rows."""
    release = ask(text.replace("round(sum", "(sum"))
    found, bars = release.to_arrow(), release.errors()
    assert release.measured == [name for name in found.schema.names if name in ("n", "percent")]
    before = dict(
        zip(
            release.released.to_arrow()["city"].to_pylist(),
            release.released.errors().to_pylist(),
            strict=True,
        )
    )
    assert len(before) == found.num_rows == 2
    for city, bar in zip(found["city"].to_pylist(), bars.to_pylist(), strict=True):
        assert bar["n"] == pytest.approx(before[city]["n"])
        assert bar["percent"] == pytest.approx(before[city]["percent_computed"], rel=1e-4)


@pytest.mark.noise_cannot_matter("bars are compared with those of the same release")
def test_sums_over_rows_have_the_law_of_their_noise() -> None:
    text = (
        "SELECT sum(n) AS plain, sum(w * n) AS weighted, 2 * sum(w * n) + sum(s) - 9 AS both, round(sum(n), -2) AS rounded, "
        "sum(n) FILTER (side = 0) AS one, sum(n * n), sum(DISTINCT n), sum(n) FILTER (n > 3), sum(coalesce(n, 0)), "
        "sum(s / n) / sum(n), sum(n * s), count(*), avg(w), sum(abs(n)), sum(n) * sum(s) FROM (@IN) JOIN w USING (city)"
    )
    release = ask(text)
    found, bars = release.to_arrow().to_pylist()[0], release.errors().to_pylist()[0]
    numbers = release.released._kept()[0].numbers
    assert release.measured == ["plain", "weighted", "both", "rounded", "one"]
    n, s = (
        next(e.linear for e in release.released.plan.requirements.estimates if e.name == o)
        for o in ("n", "s")
    )
    clipped = next(e.null_counts for e in release.released.plan.requirements.estimates if e.name == "s")
    weights = {
        "plain": [(1, 0), (1, 0)],
        "weighted": [(3, 0), (0.5, 0)],
        "both": [(6, 1), (1, 1)],
        "one": [(1, 0), (0, 0)],
    }
    for name, rows in weights.items():
        forms = [(1, Form({}).plus(Form(n), a).plus(Form(s), b)) for a, b in rows]
        missing = [abs(w) for _, f in forms for name, w in f.weights.items() if name in clipped]
        shift = sum(missing) * float(numbers.noises.deviation({clipped[0]: 1.0})[0]) / 2
        assert bars[name] == pytest.approx(numbers.noises.reach(forms, 0.05) + shift, rel=1e-3), name
    assert bars["rounded"] == pytest.approx(bars["plain"] + float(abs(found["rounded"] - found["plain"])))
    assert release.errors(simultaneous=True)["plain"][0].as_py() == pytest.approx(
        numbers.noises.reach([(2, Form(n))], 0.05 / 5)
    )
    assert pickle.loads(pickle.dumps(release)).errors() == release.errors()
    with pytest.raises(RefusalError, match="half-widths of the noise alone"):
        release.errors(kind="standard")


GROUPS = 100
BY_ROW = "SELECT town, s - n AS d, n / 2 AS half, 100.0 * s / n AS r, s / (s + n) AS share FROM ({}) AS t ORDER BY town"
OVER_ROWS = (
    "SELECT side, sum(w * n) AS d, sum(s) - 3 * sum(w * n) AS half, sum(w * s / n) / sum(w) AS r, "
    "sum(w * s) / sum(n) AS share FROM ({}) AS t JOIN towns USING (town) GROUP BY side ORDER BY side"
)


@pytest.mark.long
@pytest.mark.flakiness(k=20, because="32 binomial tails of 6.5 standard deviations, below 1e-10 each")
@pytest.mark.parametrize("noise", ["laplace", "k_norm"])
@pytest.mark.parametrize(("text", "releases"), [(BY_ROW, 100), (OVER_ROWS, 16)])
def test_bars_hold_as_often_as_they_say(text: str, releases: int, noise: str) -> None:
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
    sides, weights = np.arange(GROUPS) // 4, rng.uniform(0.2, 1, GROUPS)
    towns = pa.table({"town": list(range(GROUPS)), "side": sides, "w": weights})
    exact = duckdb.sql(text.format("SELECT town, sum(x) AS s, count(*) AS n FROM visits GROUP BY town"))
    exact = exact.to_arrow_table()
    names = ("d", "half", "r", "share")
    missed = {(name, confidence): 0 for name in names for confidence in (0.8, 0.95)}
    for _ in range(releases):
        release = sf.sql(text.format(inner), tables={"visits": visits, "towns": sf.public(towns)})
        found, bars = (
            release.to_arrow(),
            {confidence: release.errors(confidence) for confidence in (0.8, 0.95)},
        )
        for name, confidence in missed:
            apart = np.abs(found[name].to_numpy() - exact[name].to_numpy())
            missed[name, confidence] += int((apart > bars[confidence][name].to_numpy() * (1 + 1e-9)).sum())
    size = exact.num_rows * releases
    for (_, confidence), count in missed.items():
        most, least = 1 - confidence, (1 - confidence) * 0.75
        deviations = [6.5 * np.sqrt(size * chance * (1 - chance)) for chance in (least, most)]
        assert size * least - deviations[0] <= count <= size * most + deviations[1]
