"""What queries may call follows from the running DuckDB: made-up catalogs, optimizers and syntax trees."""

import json
from collections.abc import Callable, Iterator

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.dialect import overloads, syntax_tree
from sfumato.dialect.overloads import Overload, catalog, classify, functions
from sfumato.dialect.syntax_tree import children, descendants, statements
from sfumato.engines.duckdb.connection import disabled_optimizers, unknown_optimizers
from sfumato.engines.duckdb.expressions import safe_parts
from sfumato.engines.duckdb.expressions.safe_forms import FORMS, OF_CONSTANTS
from sfumato.engines.duckdb.expressions.validation import validate
from sfumato.errors import QueryError, SqlError
from sfumato.query.schema import Column, Kind

COLUMNS = {
    "a": Column(Kind.INTEGER, "BIGINT"), "x": Column(Kind.OTHER, "DOUBLE"), "s": Column(Kind.OTHER, "VARCHAR"),
    "d": Column(Kind.OTHER, "DATE"), "t": Column(Kind.OTHER, "TIMESTAMP WITH TIME ZONE"),
}  # fmt: skip
AROUND = "SELECT {} AS v FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id) COUNT(*) AS n FROM rows) AS q"


@pytest.fixture
def running(monkeypatch) -> Iterator[Callable[[list[Overload]], None]]:
    """Make a catalog that of the running DuckDB."""

    def change(made_up: list[Overload]) -> None:
        forget()
        monkeypatch.setattr(overloads, "catalog", lambda: made_up)

    def forget() -> None:
        functions.cache_clear()
        safe_parts._cached_type.cache_clear()

    yield change
    forget()


def judge(text: str) -> str:
    return validate("filter", text, COLUMNS).text


def around(value: str) -> None:
    sf.sql(AROUND.format(value), tables={"rows": pa.table({"id": [1, 2]})})


def changed(name: str, signature: str, **properties: str | None) -> list[Overload]:
    """Return the catalog with one overload that has other properties."""
    found = [
        one._replace(**properties) if one[0] == name and one.signature == signature else one
        for one in catalog()
    ]
    assert any(one[0] == name and one.signature == signature for one in found)
    return found


def test_everything_known_is_there_and_nothing_is_strange():
    """Of the DuckDB of this run; where it fails on a new one, try what it names, then add it to overloads.txt."""
    found = classify(catalog())
    assert set(found.known) <= set(FORMS) | OF_CONSTANTS
    # Forms of these are CASE and COALESCE, whatever DuckDB has.
    forms = {"if", "ifnull", "nullif", "split_part", "vector_norm", "vector_steps"}
    assert (set(FORMS) | OF_CONSTANTS) - set(found.known) == forms
    assert not found.missing and not any(found.strange.values())
    assert set(overloads._known()[0]) == found.enclosing


def test_what_reads_a_clock_a_file_or_a_setting_is_not_known():
    never = "now random current_setting read_text getenv nextval version age current_localtime"
    assert not {*never.split()} & {*overloads._known()[0]}


def test_a_new_function_is_refused_by_name(running):
    running([*catalog(), Overload("read_secret", "scalar", "(VARCHAR)", "VARCHAR", "CONSISTENT")])
    with pytest.raises(QueryError, match="read_secret"):
        judge("read_secret(s)")
    with pytest.raises(SqlError, match="read_secret cannot be used outside the private SELECT"):
        around("read_secret('a')")
    assert judge("abs(a)")


@pytest.mark.parametrize("stability", ["VOLATILE", "CONSISTENT_WITHIN_QUERY"])
def test_a_function_that_became_volatile_is_refused_by_name(running, stability):
    running(changed("round", "(DOUBLE)", stability=stability))
    with pytest.raises(
        QueryError, match=rf"round\(DOUBLE\) of DuckDB .* between calls \(it is {stability}\)"
    ):
        judge("round(x) > 1")
    with pytest.raises(SqlError, match="round cannot be used outside the private SELECT"):
        around("round(2.5)")
    assert judge("round(x, 2) > 1")  # another overload
    assert judge("abs(x) > 1")


@pytest.mark.parametrize(
    ("signature", "types"),
    [
        ("(DATE)", ["DATE"]),
        ("(T)", ["DATE"]),
        ("(ANY[])", ["DATE[]"]),
        ("(DOUBLE, ANY...)", ["DOUBLE", "BIGINT"]),
    ],
)
def test_a_new_overload_is_refused_by_name(running, signature, types):
    known = functions()
    running([*catalog(), Overload("floor", "scalar", signature, "BIGINT", "CONSISTENT")])
    assert judge("floor(x) > 1")
    assert functions().known == known.known
    why = functions().refusal("floor", types)
    assert (
        why
        == f"floor{signature} of DuckDB {duckdb.__version__} is new, and not known to be safe on every row"
    )
    assert not known.refusal("floor", types)


def test_a_new_overload_that_takes_a_call_over_is_refused_by_name(running, monkeypatch):
    """As DuckDB binds it."""
    running(catalog())
    signatures, macros = overloads._known()
    fewer = signatures | {"year": signatures["year"] - {"(DATE)"}}  # as if nobody had tried it
    monkeypatch.setattr(overloads, "_known", lambda: (fewer, macros))
    with pytest.raises(
        QueryError, match=r"year\(DATE\) of DuckDB .* is new, and not known to be safe on every row"
    ):
        judge("year(d) = 2020")
    assert judge("year(t) = 2020")


def test_an_optimizer_that_is_not_known_is_off():
    running = [name for (name,) in syntax_tree.ask("SELECT name FROM duckdb_optimizers()")]
    moving = {"common_subexpressions", "scalar_fn_pushdown", "type_pushdown"}
    assert moving <= {*unknown_optimizers(running)}
    assert unknown_optimizers([*running, "evaluate_early"]) == [
        *unknown_optimizers(running),
        "evaluate_early",
    ]
    assert not unknown_optimizers(["filter_pushdown"])
    with duckdb.connect() as connection:  # DuckDB refuses names that it does not know
        connection.execute(
            f"SET disabled_optimizers = '{disabled_optimizers(connection, 'join_order', 'gone')}'"
        )
        (found,) = connection.execute("SELECT current_setting('disabled_optimizers')").fetchone()
    assert {*found.split(",")} == {*unknown_optimizers(running), "join_order"}


def test_a_part_of_the_syntax_tree_that_is_not_known_is_refused_by_name(monkeypatch):
    answer = syntax_tree.ask

    def newer(sql: str, parameters=()):
        rows = answer(sql, parameters)
        if sql != "SELECT json_serialize_sql(?)":
            return rows
        found = json.loads(rows[0][0])
        for node in (n for root in found["statements"][0]["node"]["select_list"] for n in descendants(root)):
            node["empty"] = []
            if node["class"] == "FUNCTION":
                node["sorted_by"] = new
        return [(json.dumps(found),)]

    monkeypatch.setattr(syntax_tree, "ask", newer)
    new = ""
    assert judge("round(x) > 1")
    new = "x"
    with pytest.raises(QueryError, match="uses sorted_by, which is new in DuckDB's SQL"):
        judge("round(x) > 1")


@pytest.mark.parametrize(
    "text",
    ["+".join(["a"] * 70), "f(" * 65 + "'_part0_'" + ")" * 65, "CASE WHEN a THEN " * 60 + "b" + " END" * 60],
)
def test_a_deep_tree_is_written_in_parts(text):
    """The same tree, whether DuckDB reads it at once or not."""
    ((node,),) = (one["select_list"] for one in statements(f"SELECT {text}"))

    def shape(one):
        named = one.get("function_name"), one.get("column_names"), one.get("literal")
        return one["class"], *named, *map(shape, children(one))

    again = syntax_tree._written_in_parts([node])
    ((found,),) = (one["select_list"] for one in statements(f"SELECT {again}"))
    assert shape(found) == shape(node)
    assert "_part1_" not in again
