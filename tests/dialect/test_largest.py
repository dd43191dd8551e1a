"""The largest groups in SQL: the question of `Table.top`, and nothing else beside it."""

import dataclasses

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api.largest_groups import Top
from sfumato.dialect import parse
from sfumato.errors import SfumatoError, SqlError
from sfumato.release.processed_release import ProcessedRelease
from tests.support.tiers import one_in

N = 600
TABLE = pa.table(
    {
        "id": [i // 3 for i in range(N)],
        "product": [f"p{i % 7}" for i in range(N)],
        "shop": [["a", "b"][i % 2] for i in range(N)],
        "rank": [i % 4 for i in range(N)],
        "price": [float(i % 5) for i in range(N)],
    }
)
GOODS = pa.table({"product": [f"p{i}" for i in range(9)], "shop": ["a"] * 9})


@pytest.mark.noise_cannot_matter("names of columns are looked at")
def test_only_what_is_released_is_there():
    bare = f"{COUNT}(product, 3, counts => FALSE)"
    for words, says in [
        (around("SELECT units FROM (@)", bare), "(the columns are rank, product)"),
        (around("SELECT DP_INTERVAL_LOW(units) FROM (@)", bare), "none here"),
        (around("SELECT * FROM (@) JOIN sold USING (product)"), "sold is a private table"),
        (around("SELECT * FROM read_csv('/etc/hostname'), (@)"), "line 1"),
    ]:
        with pytest.raises(SqlError) as caught:
            sf.sql(words, tables=TABLES)
        assert says in str(caught.value), words
    assert run(around("SELECT * FROM (@)", bare)).to_arrow().column_names == ["rank", "product"]


TABLES = {"sold": TABLE, "goods": sf.public(GOODS)}
SOLD = sf.scan(TABLE, privacy_unit="id")
FORM = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, privacy_unit_column = id{}) {} FROM {} {}"
BY_SUM = "contribution_bounds_per_group => (0, 5)"
PUBLIC = {
    "options": ", group_selection_strategy = PUBLIC_GROUPS",
    "source": "sold RIGHT JOIN (SELECT DISTINCT product FROM goods) AS p ON sold.product = p.product",
}


def text(call: str, options: str = ", delta = 1e-6", source: str = "sold", rest: str = "") -> str:
    return FORM.format(options, call, source, rest)


def asked(call: str, **more: str) -> tuple[Top, dict]:
    query = parse(text(call, **more), public=["goods"], private=["sold"])
    question = query.question(lambda *_: SOLD, lambda groups: GOODS.select(list(groups.columns)))
    assert isinstance(question, Top)
    return dataclasses.replace(question, notes=()), query.release_options


CALLS = {
    "APPROX_TOP_COUNT(product, 3)": SOLD.top("product", k=3),
    'approx_top_count(sold."Product", 1)': SOLD.top("product", k=1),
    "APPROX_TOP_COUNT((product), 3)": SOLD.top("product", k=3),
    "APPROX_TOP_COUNT((product, shop), 3, candidates => 30)": SOLD.top("product", "shop", k=3, candidates=30),
    "APPROX_TOP_COUNT(upper(shop), 2)": SOLD.with_columns(key_1="upper(shop)").top("key_1", k=2),
    "APPROX_TOP_COUNT((price + 1) // (1 + 1), 2) AS half": SOLD.with_columns(
        half="(price + 1) // (1 + 1)"
    ).top("half", k=2),
    "APPROX_TOP_COUNT(rank, 2) AS place": SOLD.with_columns(place="rank").top("place", k=2),
    f"APPROX_TOP_SUM(product, price, 4, {BY_SUM})": SOLD.top(
        "product", k=4, by=sf.sum("price", lower=0, upper=5)
    ),
    f"APPROX_TOP_SUM((shop, product), sold.price, 4, {BY_SUM}, candidates => 9)": SOLD.top(
        "shop", "product", k=4, candidates=9, by=sf.sum("price", lower=0, upper=5)
    ),
    # The name of the groups hides the column that is added up, which is the source's.
    f"APPROX_TOP_SUM(price // 2, price, 4, {BY_SUM}) AS price": SOLD.with_columns(
        _price="price", price="price // 2"
    ).top("price", k=4, by=sf.sum("_price", lower=0, upper=5)),
}


@pytest.mark.parametrize("call", one_in(3, CALLS))
def test_sql_asks_what_python_asks(call):
    found, options = asked(call)
    want = CALLS[call]
    if "AS price" not in call:
        assert found == dataclasses.replace(want, _engine=found._engine, schema=found.schema)
    assert (found.keys, found.k, found.candidates, found.by) == (want.keys, want.k, want.candidates, want.by)
    assert options == {"epsilon": "2", "delta": "1e-6", "counts": True}
    assert found.plan(**options).measurement == want.plan(epsilon=2, delta="1e-6").measurement


def test_options_of_the_release():
    assert asked("APPROX_TOP_COUNT(product, 3, counts => FALSE)")[1]["counts"] is False
    found, options = asked("APPROX_TOP_COUNT(product, 3, counts_share => 0.1)")
    assert found.plan(**options) == SOLD.top("product", k=3).plan(epsilon=2, delta="1e-6", counts_share="0.1")


COUNT, SUM = "APPROX_TOP_COUNT", "APPROX_TOP_SUM"
REFUSED = [
    (f"{COUNT}(product)", "the number of groups is missing"),
    (f"{COUNT}(*, 3)", "write APPROX_TOP_COUNT(product, 10)"),
    (f"{COUNT}(product, 0)", "whole number of at least 1"),
    (f"{COUNT}(product, 1.5)", "whole number of at least 1"),
    (f"{COUNT}(product, 100001)", "at most 100,000"),
    (f"{COUNT}(product, 3, {BY_SUM})", "counts once in each of its groups"),
    (f"{COUNT}(product, 3, candidates => 2)", "at least 3"),
    (f"{COUNT}(product, 3, candidates => 4, candidates => 5)", "given twice"),
    (f"{COUNT}(product, 3, counts_share => 1)", "between 0 and 1"),
    (f"{COUNT}((product, product), 3)", "used twice"),
    (f"{COUNT}(id, 3)", "privacy unit"),
    (f"{COUNT}(product, 3) AS Units", "a column units already"),
    (f"{COUNT}(rank, 3)", "a column rank already"),
    (f"{COUNT}(product, 3) FILTER (WHERE price > 1)", "FILTER"),
    (f"{COUNT}(product, 3) OVER ()", "takes no OVER"),
    (f"{COUNT}(product, 3), COUNT(*)", "must stand alone in the SELECT list"),
    (f"{SUM}(product, price, 3)", "has no bounds"),
    (
        f"{SUM}(product, price, 3, contribution_bounds_per_row => (0, 1))",
        "the contribution of a privacy unit to a group needs bounds",
    ),
    (f"{SUM}(product, price, 3, contribution_bounds_per_group => (-1, 1))", "must be at least 0"),
]


@pytest.mark.parametrize(("call", "says"), one_in(2, REFUSED))
def test_wrong_calls_are_refused_in_words(call, says):
    with pytest.raises(SqlError) as caught:
        sf.sql(text(call), tables=TABLES)
    assert says in str(caught.value) and "\nline 1, column " in str(caught.value)


BESIDE = [
    ({"rest": "GROUP BY product"}, "Leave GROUP BY out"),
    ({"rest": "ORDER BY price"}, "(the columns are rank, product, units)"),
    ({"rest": "ORDER BY 4"}, "ORDER BY 4: the SELECT list has only 3 entries"),
    ({"rest": f"WHERE {COUNT}(product, 3) > 1"}, "in WHERE"),
    ({"options": ""}, "Write OPTIONS (delta ="),
    ({"options": ", delta = 1e-6, max_rows_per_group = 3"}, "needs no limit"),
    ({"options": ", delta = 1e-6, noise = laplace"}, "leave noise out"),
    ({"options": ", delta = 1e-6, weights = 'units 2'"}, "leave weights out"),
    (PUBLIC, "PUBLIC_GROUPS: the group keys must be the columns of the public table"),
]


@pytest.mark.parametrize(("more", "says"), one_in(3, BESIDE))
def test_what_stands_beside_it_is_refused(more, says):
    with pytest.raises(SfumatoError, match="line 1, column") as caught:
        sf.sql(text(f"{COUNT}(product, 3)", **more), tables=TABLES)
    assert says in str(caught.value)


def around(words: str, call: str = f"{COUNT}(product, 3)", **more: str) -> str:
    """Put a private SELECT into a text, in the place of @."""
    return words.replace("@", text(call, **more))


def run(words: str, **tables: object) -> ProcessedRelease:
    release = sf.sql(words, tables={**TABLES, **tables})
    assert isinstance(release, ProcessedRelease)
    return release
