"""Whole numbers: every operator is exact, whatever its columns are declared; only beyond HUGEINT it is NULL.

The definition is Python's own integers.
"""

import itertools
import random
from collections.abc import Callable

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.duckdb.expressions.safe_parts import SPANS
from sfumato.engines.duckdb.expressions.validation import validate
from sfumato.engines.duckdb.unit_aggregates import unit_aggregate
from sfumato.query.schema import INTEGERS, Column, Kind

MIN, MAX = SPANS["HUGEINT"]


def cut(a: int, b: int) -> int:
    """Divide as DuckDB does, towards zero."""
    whole = abs(a) // abs(b)
    return whole if (a < 0) == (b < 0) else -whole


def rounded(value: int, zeros: int, even: bool) -> int:
    step = 10**zeros
    whole, rest = divmod(abs(value), step)
    up = rest * 2 > step or (rest * 2 == step and (not even or whole % 2 == 1))
    return (whole + up) * step * (1 if value >= 0 else -1)


OPERATORS: dict[str, Callable[[int, int], int | bool | None]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: cut(a, b) if b else None,
    "%": lambda a, b: a - b * cut(a, b) if b else None,
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
}


def held(value: int | bool | None) -> int | bool | None:
    return value if value is None or isinstance(value, bool) or MIN <= value <= MAX else None


def extremes(kind: str) -> list[int]:
    least, most = SPANS[kind]
    inner = {0, 1, 2, 7, 50, most // 2, most // 3, least // 2, int(most**0.5), -1, -2, -7}
    return sorted({least, least + 1, most - 1, most} | {one for one in inner if least <= one <= most})


def values(schema: dict[str, str], rows: list[tuple[int, ...]], text: str) -> list[int | None]:
    """Return what an expression gives on rows, with no TRY around it and all optimizers on."""
    one = validate("filter", text, {name: Column(Kind.INTEGER, kind) for name, kind in schema.items()})
    columns = ", ".join(f"{name} {kind}" for name, kind in schema.items())
    typed = [
        [f"CAST('{value}' AS {kind})" for value, kind in zip(row, schema.values(), strict=True)]
        for row in rows
    ]
    listed = ", ".join(f"({', '.join(row)})" for row in typed)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE rows ({columns})")
        connection.execute(f"INSERT INTO rows VALUES {listed}")
        found = [value for (value,) in connection.execute(f"SELECT ({one.text}) FROM rows").fetchall()]
    if one.span is not None:  # what is known of it, by which the types of greater ones are chosen
        assert all(one.span[0] <= value <= one.span[1] for value in found if value is not None), text
    return found


PAIRS = list(itertools.product(INTEGERS, INTEGERS))


def test_operators_on_two_types():
    """Some pairs of types; the next test has all."""
    for sign in OPERATORS:
        for a, b in [("HUGEINT", "HUGEINT"), *random.Random(sign).sample(PAIRS, 2)]:
            check_pair(sign, a, b)


@pytest.mark.long
@pytest.mark.parametrize("sign", OPERATORS)
def test_operators_on_all_pairs_of_types(sign):
    for a, b in PAIRS:
        check_pair(sign, a, b)


def check_pair(sign: str, a: str, b: str) -> None:
    rows = [(x, y) for x in extremes(a) for y in extremes(b)]
    found = values({"x": a, "y": b}, rows, f"x {sign} y")
    assert found == [held(OPERATORS[sign](*row)) for row in rows], (sign, a, b)


OF_ONE: dict[str, Callable[[int], int]] = {
    "-x": lambda x: -x,
    "abs(x)": abs,
    "x * 2": lambda x: 2 * x,
    "x // -1": lambda x: -x,
    "x // 3 * 3 + x % 3": lambda x: x,
    "-x * x": lambda x: -x * x,
    "x * x * x": lambda x: x**3,
    "round(x, -1)": lambda x: rounded(x, 1, False),
    "round(x, -38)": lambda x: rounded(x, 38, False),
    "round_even(x, -1)": lambda x: rounded(x, 1, True),
    "trunc(x, -1)": lambda x: cut(x, 10) * 10,
}


@pytest.mark.parametrize("kind", ["TINYINT", "HUGEINT", pytest.param("UBIGINT", marks=pytest.mark.long)])
def test_one_value_at_the_ends_of_its_type(kind):
    rows = [(x,) for x in extremes(kind)]
    for text, of in OF_ONE.items():
        assert values({"x": kind}, rows, text) == [held(of(x)) for (x,) in rows], text
    bits = {"T": 8, "S": 16, "I": 32, "B": 64, "H": 128}[kind.removeprefix("U")[0]]
    assert values({"x": kind}, rows, "bit_count(x)") == [(x % 2**bits).bit_count() for (x,) in rows]


Definition = Callable[[dict[str, int]], int | None]


def nested(chance: random.Random, names: list[str], depth: int) -> tuple[str, Definition]:
    """Return an expression of whole numbers, and its definition: NULL as soon as a part is beyond HUGEINT."""
    if depth == 0:
        name = chance.choice(names)
        return name, lambda row: row[name]
    sign = chance.choice(["+", "-", "*", "*", "//", "%"])
    left, of_left = nested(chance, names, depth - 1)
    if chance.random() < 0.25:
        number = chance.choice([0, 1, -1, 3, 100, 2**31, -(2**63)])
        right, of_right = f"({number})", lambda row: number
    else:
        right, of_right = nested(chance, names, depth - 1)

    def value(row: dict[str, int]) -> int | None:
        a, b = of_left(row), of_right(row)
        return None if a is None or b is None else held(OPERATORS[sign](a, b))

    return f"({left} {sign} {right})", value


@pytest.mark.long
@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 8), marks=pytest.mark.long)])
def test_operators_in_operators(seeds):
    """What a part can be at most is known from its own parts: a product of sums, a sum of remainders, and so on."""
    for seed in seeds:
        chance = random.Random(seed)
        schema = {f"c{i}": chance.choice(list(INTEGERS)) for i in range(3)}
        rows = [tuple(chance.choice(extremes(kind)) for kind in schema.values()) for _ in range(40)]
        for depth in (2, 2, 3, 4):
            text, of = nested(chance, list(schema), depth)
            expected = [of(dict(zip(schema, row, strict=True))) for row in rows]
            assert values(schema, rows, text) == expected, text


@pytest.mark.long
def test_a_product_of_many_columns_does_not_double_with_each():
    text = " * ".join(["x"] * 30)
    one = validate("filter", text, {"x": Column(Kind.INTEGER, "BIGINT")})
    assert len(one.text) < 60_000
    assert values({"x": "BIGINT"}, [(-1,), (1,), (2,), (4,)], text) == [1, 1, 2**30, 4**30]


def test_a_product_that_is_the_smallest_number_does_not_stop():
    """DuckDB refuses to multiply to the smallest HUGEINT, which is within the type."""
    rows = [(-(2**63),), (-(2**63) + 1,), (0,), (2**63 - 1,)]
    for text in ("a * abs(a - 9223372036854775808)", "abs(a - 9223372036854775808) * a"):
        assert values({"a": "BIGINT"}, rows, text) == [a * abs(a - 2**63) for (a,) in rows]


SUMMED = [[MAX, 1, -5], [MAX, 1], [MIN, -1, 1], [MIN], [MIN, MIN, MAX, MAX, 2], [3, None], [None]]


@pytest.mark.parametrize("over", ["", " OVER ()"])
def test_sums_of_a_unit_s_rows(over):
    """sum and avg of HUGEINT, plain and as windows: exact, and NULL where no HUGEINT holds the sum."""
    for kind, rows in [("HUGEINT", rows) for rows in SUMMED] + [("UBIGINT", [2**64 - 1] * 3)]:
        there = [value for value in rows if value is not None]
        expected = held(sum(there)) if there else None
        listed = ", ".join(f"(CAST({'NULL' if v is None else repr(str(v))} AS {kind}))" for v in rows)
        schema = {"x": Column(Kind.INTEGER, kind)}
        for name, result in (("sum", expected), ("avg", sum(there) / len(there) if there else None)):
            one = unit_aggregate("y", f"{name}(x)", schema)
            inner = f"SELECT ({one.value}) AS v FROM (VALUES {listed}) AS t(x)"
            text = f"SELECT y, typeof(y) FROM (SELECT {one.sql('v', over)} AS y FROM ({inner})) LIMIT 1"
            with duckdb.connect() as connection:
                ((found, type_name),) = connection.execute(text).fetchall()
            assert found == result if name == "sum" or not there else found == pytest.approx(result)
            assert type_name == one.type_name == {"sum": "HUGEINT", "avg": "DOUBLE"}[name]


def test_a_union_of_two_types_of_whole_numbers_holds_both():
    """A column that an operator widened, beside one that it did not: narrow and wide, signed and not."""
    rows = pa.table(
        {"id": [1, 2], "k": pa.array([2**63 - 1, 5], pa.int64()), "u": pa.array([0, 2**64 - 1], pa.uint64())}
    )
    table = sf.scan(rows, privacy_unit="id")
    both = table.union(table.with_columns(k="k + 1", u="u % 7"))
    assert {name: both.schema[name].type_name for name in ("k", "u")} == {"k": "HUGEINT", "u": "HUGEINT"}
    question = both.group_by("k", "u").bound(groups=4, rows=1).agg(n=sf.count()).plan(epsilon=1, delta="1e-6")
    found = [row for batch in both._engine.statistics(question.exact, 9) for row in batch.to_pylist()]
    expected = {(2**63 - 1, 0), (5, 2**64 - 1), (2**63, 0), (6, (2**64 - 1) % 7)}
    assert {(int(row["k"]), int(row["u"])) for row in found} == expected
