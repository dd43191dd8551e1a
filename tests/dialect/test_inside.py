"""SQL inside a private SELECT: the same rows as DuckDB's, or a refusal with its place."""

import itertools
from collections import Counter
from functools import cache

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.dialect import parse
from sfumato.errors import QueryError, SqlError
from tests.engines.made_rows import bits, rows_of
from tests.support.tiers import one_in
from tests.support.verdicts import verdicts

ROWS = {
    "orders": pa.table({
        "id": [1, 1, 1, 2, 2, 3, 3, None, 4],
        "town": ["A", "B", "A", "A", None, "C", "C", "A", "a"],
        "price": [1.5, 2.5, 0.1, 0.2, 0.3, 1e10, -1.0, 3.0, None],
        "n": [5, 3, 8, 1, 1, 2, 9, 4, 0],
        "day": ["2024-01-05", "2024-02-01", "2024-01-20", "2023-12-31", "2024-01-01", None, "2024-03-03",
                "2024-01-01", "2024-01-01"],
    }),
    "customers": pa.table({"customer": [1, 2, 4, 5], "age": [30, 40, 50, 60], "town": ["A", "B", "C", "A"]}),
    "towns": pa.table({"town": ["A", "B", "B", None], "region": ["n", "s", "t", "x"], "pop": [10, 20, 30, 40]}),
}  # fmt: skip


@cache
def tables() -> dict[str, sf.Table | sf.PublicTable]:
    return {
        "orders": sf.scan(ROWS["orders"], privacy_unit="id"),
        "customers": sf.scan(ROWS["customers"], privacy_unit="customer"),
        "towns": sf.public(ROWS["towns"]),
    }


def made(text: str) -> sf.Table:
    known = tables()
    return known["orders"].sql(text, tables=known)


@pytest.mark.parametrize(("_", "text"), one_in(6, verdicts("inside.txt", "same")))
def test_rows_are_those_of_duckdb(_, text):
    asked = made(text)
    session = duckdb.connect()
    for name, rows in ROWS.items():
        session.register(name, rows)
    found = session.execute(text)
    names = [name.casefold() for name, *_ in found.description]
    place = list(asked.schema).index(asked.unit)
    expected = Counter(tuple(map(bits, row)) for row in found.fetchall() if row[place] is not None)
    assert rows_of(asked) == expected
    assert all(a == b.casefold() for a, b in zip(names, asked.schema, strict=True) if "(" not in a)


@pytest.mark.parametrize(("verdict", "text"), verdicts("inside.txt", "refused"))
def test_what_is_not_unit_local_is_refused(verdict, text):
    with pytest.raises(QueryError) as caught:
        made(text)
    assert verdict.removeprefix("refused: ") in str(caught.value)


NUMBERS = ("TINYINT", "BIGINT", "UBIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL(9,2)", "DECIMAL(18,9)")
TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_S")
FEW = [("BIGINT", "DECIMAL(9,2)", "FLOAT"), ("DATE", "TIMESTAMP_S", "TIMESTAMP"), ("TINYINT", "UBIGINT")]
PAIRS = [*itertools.permutations(NUMBERS, 2), *itertools.permutations(TIMES, 2)]


@pytest.mark.parametrize(
    "all_kinds", [FEW, pytest.param(PAIRS, marks=pytest.mark.long)], ids=["few", "pairs"]
)
def test_columns_of_a_union_have_the_type_that_duckdb_gives_them(all_kinds):
    one = sf.scan(pa.table({"id": [1], "x": pa.array([None], pa.string())}), privacy_unit="id")
    for kinds in all_kinds:
        text = " UNION ALL ".join(f"SELECT id, TRY_CAST(x AS {kind}) AS v FROM self" for kind in kinds)
        columns = " UNION ALL ".join(f"SELECT CAST(NULL AS {kind}) AS v" for kind in kinds)
        ((_, expected, *_),) = duckdb.execute(f"DESCRIBE {columns}").fetchall()
        if "HUGEINT" in kinds and any(kind.startswith("DECIMAL") for kind in kinds):
            with pytest.raises(SqlError, match="no type holds"):
                one.sql(text)
        else:
            assert one.sql(text).schema["v"].type_name == expected, kinds


HOSTILE = {
    "HUGEINT": ["-170141183460469231731687303715884105728", "170141183460469231731687303715884105727"],
    "UBIGINT": ["0", "18446744073709551615"],
    "DECIMAL(38,9)": ["-99999999999999999999999999999.999999999"],
    "FLOAT": ["nan", "inf", "-inf", "-0.0", "3.4028235e38", "1e-45"],
    "DOUBLE": ["nan", "inf", "-inf", "-0.0", "1.7976931348623157e308", "5e-324"],
    "DATE": ["infinity", "-infinity", "290309-12-22 (BC)", "5881580-07-10"],
    "TIMESTAMP": ["infinity", "-infinity", "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775806"],
    "TIMESTAMP_S": ["infinity", "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54"],
}


@pytest.mark.long
def test_no_value_of_a_union_raises():
    """One that does not fit, such as a date beyond all times, is NULL."""
    values = [(kind, value) for kind in HOSTILE for value in HOSTILE[kind]]
    rows = pa.table({"id": [1] * len(values), "of": [k for k, _ in values], "x": [v for _, v in values]})
    one = sf.scan(rows, privacy_unit="id")
    for kinds in itertools.permutations(HOSTILE, 2):
        number = [kind not in ("DATE", "TIMESTAMP", "TIMESTAMP_S") for kind in kinds]
        if number[0] != number[1] or set(kinds) in (
            {"HUGEINT", "DECIMAL(38,9)"},
            {"UBIGINT", "DECIMAL(38,9)"},
        ):
            continue
        text = " UNION ALL ".join(
            f"SELECT id, TRY_CAST(x AS {kind}) AS v FROM self WHERE of = '{kind}'" for kind in kinds
        )
        asked = one.sql(text).with_columns(told="CAST(v AS VARCHAR)", v="0")
        found = list(rows_of(asked).elements())
        assert len(found) == sum(len(HOSTILE[kind]) for kind in kinds)
        assert sum(None in row for row in found) == (1 if "DATE" in kinds else 0), (kinds, found)


def test_a_unit_is_of_one_type_in_all_selects():
    known = {
        "self": sf.scan(pa.table({"id": [1], "x": [1]}), privacy_unit="id"),
        "small": sf.scan(pa.table({"id": pa.array([1], pa.int32()), "x": [1]}), privacy_unit="id"),
    }
    with pytest.raises(
        SqlError, match="the privacy unit id is BIGINT in the first SELECT and INTEGER in this"
    ):
        known["self"].sql("SELECT id, x FROM self UNION ALL SELECT id, x FROM small", tables=known)


HEAD = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000000, delta = 1e-6, privacy_unit_column = id, "
    "max_groups_contributed = 100, max_rows_per_group = 100) "
)


def released(text: str) -> sf.Release:
    sources = {**ROWS, "towns": sf.public(ROWS["towns"])}
    return sf.sql(text.replace("@DP", HEAD), tables=sources)


def takes_brackets(session: duckdb.DuckDBPyConnection) -> bool:
    """Whether this DuckDB has brackets around the name of a table."""
    try:
        session.execute("SELECT 1 FROM (orders)").fetchall()
    except duckdb.ParserException:
        return False
    return True


@pytest.mark.noise_cannot_matter("noise of 1e-5 on whole numbers")
@pytest.mark.parametrize(("_", "text"), one_in(4, verdicts("inside.txt", "asked same")))
def test_a_private_select_of_them_answers_as_plain_sql(_, text):
    session = duckdb.connect()
    for name, rows in ROWS.items():
        session.register(name, rows)
    session.execute("CREATE TABLE present AS FROM orders WHERE id IS NOT NULL")
    session.unregister("orders")
    session.execute("ALTER TABLE present RENAME TO orders")
    if not takes_brackets(session):
        for name in ("(orders)", "(orders)", "(q)"):
            text = text.replace(name, name[1:-1])
    plain = text.replace("@DP", "SELECT").replace(", contribution_bounds_per_group => (0, 10)", "")
    expected = session.sql(plain).to_arrow_table().to_pylist()
    found = released(text).to_arrow().to_pylist()
    # Groups of a single person are not shown.
    shown = [
        row for row in expected if ("GROUP BY c" not in text and "GROUP BY r" not in text) or row["n"] > 1
    ]
    values = [[sorted(map(str, row.values())) for row in rows] for rows in (found, shown)]
    assert sorted(values[0]) == sorted(values[1])


@pytest.mark.parametrize(("verdict", "text"), verdicts("inside.txt", "asked refused"))
def test_a_private_select_of_others_is_refused(verdict, text, monkeypatch):
    monkeypatch.setattr(sf.Release, "_draw", None)  # nothing is read or drawn
    with pytest.raises(QueryError, match=verdict.removeprefix("asked refused: ")):
        released(text)


def test_all_tables_that_are_read_are_named():
    query = parse(
        "WITH p AS (SELECT id FROM a WHERE x IN (SELECT y FROM b)) "
        + HEAD
        + "COUNT(*) FROM p JOIN (SELECT id FROM (SELECT id FROM c)) AS s USING (id) WHERE z IN (SELECT z FROM d)"
    )
    assert set(query.sources) == {"a", "b", "c", "d"}


@pytest.mark.long
@pytest.mark.parametrize(
    "rows", [pytest.param(ROWS["orders"], marks=pytest.mark.long), ROWS["orders"].slice(0, 0)]
)
def test_several_public_rows_are_no_value_whatever_private_rows_there_are(rows):
    known = {**tables(), "orders": sf.scan(rows, privacy_unit="id")}
    for text in (
        "SELECT id, (SELECT pop FROM towns) AS c FROM orders",
        "SELECT id, CASE WHEN false THEN (SELECT pop FROM towns) END AS c FROM orders",
        "SELECT id FROM orders WHERE n < 0 AND n > (SELECT pop FROM towns)",
        "SELECT id, count(*) AS c FROM orders GROUP BY id HAVING count(*) > (VALUES (1), (2))",
    ):
        asked = known["orders"].sql(text, tables=known)
        with pytest.raises(sf.errors.EngineError, match="stands for one value gives several rows"):
            rows_of(asked)


def hostile() -> dict[str, str]:
    return {
        "ands": "SELECT id FROM self WHERE " + " AND ".join(["n > 1"] * 20_000),
        "brackets": "SELECT id FROM self WHERE " + "(" * 5000 + "n > 1" + ")" * 5000,
        "selects": "SELECT id FROM (" * 400 + "self" + ")" * 400,
        "ctes": "WITH "
        + ", ".join(f"t{i} AS (SELECT id FROM {f't{i - 1}' if i else 'self'})" for i in range(1000))
        + " SELECT id FROM t999",
        "ctes that are not read": "WITH "
        + ", ".join(f"t{i} AS (SELECT id FROM t{i + 1})" for i in range(1000))
        + " SELECT id FROM t999",
        "doubles": "WITH t0 AS (SELECT id FROM self), "
        + ", ".join(f"t{i + 1} AS (SELECT id FROM t{i} UNION ALL SELECT id FROM t{i})" for i in range(100))
        + " SELECT id FROM t100",
        "unions": "SELECT id FROM self" + " UNION ALL SELECT id FROM self" * 2000,
        "names": "SELECT id, n + n AS a0, "
        + ", ".join(f"a{i} + a{i} AS a{i + 1}" for i in range(60))
        + " FROM self",
        "columns": "SELECT id, " + ", ".join(f"n + {i} AS c{i}" for i in range(2000)) + " FROM self",
    }  # fmt: skip


QUICK = ("brackets", "doubles", "names", "selects")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] * (n not in QUICK)) for n in hostile()]
)
def test_hostile_texts_end_soon_and_in_our_words(name):
    asked = sf.scan(ROWS["orders"], privacy_unit="id")
    try:
        asked.sql(hostile()[name])
    except QueryError as error:
        assert len(str(error)) < 2000


@pytest.mark.parametrize(
    ("text", "bounds", "domains"),
    [
        ("SUM(x) AS s FROM (SELECT v.id, v.age AS x FROM visits v JOIN regions USING (region)) q", (0, 60), None),
        ("SUM(x) AS s FROM (SELECT v.id, r.age AS x FROM visits v JOIN regions r USING (region)) q", (0, 1), None),
        ("region, COUNT(*) AS n FROM (SELECT id, region FROM visits LEFT JOIN regions USING (region)) q", None, "nse"),
        ("region, COUNT(*) AS n FROM (SELECT v.* FROM visits v LEFT JOIN regions r USING (region)) q", None, "nse"),
        ("r, COUNT(*) AS n FROM (SELECT id, o.region AS r FROM visits JOIN regions o USING (region)) q", None, "ns"),
        ("region, COUNT(*) AS n FROM (SELECT id, lower(region) AS region FROM visits) v LEFT JOIN regions USING (region)", None, None),
    ],
)  # fmt: skip
def test_what_is_declared_of_a_column_is_its_own_tables(text, bounds, domains):
    rows = pa.table({"id": [1], "region": ["n"], "age": [3], "tall": [4]})
    visits = {"region": {"domain": ["n", "s", "e"]}, "age": {"lower": 0, "upper": 60}}
    regions = {"region": {"domain": ["n", "s"]}, "age": {"lower": 0, "upper": 1}}
    tables = {
        "visits": {"source": rows, "privacy_unit": "id", "columns": visits},
        "regions": {"source": rows.select(["region", "age"]), "public": True, "columns": regions},
    }
    group = "" if bounds else f" GROUP BY {text.split(',')[0]}"
    query = parse(
        HEAD.replace("privacy_unit_column = id, ", "") + text + group, sf.catalog({"tables": tables})
    )
    with pytest.raises(SqlError, match="SUM has no bounds"):  # of a union neither's are those of both
        one_of_two = (
            "SUM(x) AS s FROM (SELECT id, age AS x FROM visits UNION ALL SELECT id, tall AS x FROM visits) q"
        )
        parse(HEAD.replace("privacy_unit_column = id, ", "") + one_of_two, sf.catalog({"tables": tables}))
    assert query.domains == (domains and (tuple(domains),))
    assert bounds is None or (query.aggregates[0][1].lower, query.aggregates[0][1].upper) == bounds
