"""Row expressions for tests: `expression` builds a random one, over columns of all types with every awkward value.

Random expressions call everything that an expression may call, with parts that repeat and parts in parts. Most do
not fit their types and are refused; the tests are about the others.
"""

from __future__ import annotations

import itertools
import random
from functools import cache

import duckdb

from sfumato.engines.duckdb.expressions.safe_forms import FORMS
from sfumato.query.schema import Column, Kind

AWKWARD = {
    "bo": ("BOOLEAN", ["true", "false", None]),
    "ti": ("TINYINT", ["-128", "127", "0", "-1", None]),
    "i": ("INTEGER", ["-2147483648", "2147483647", "0", "-1", "1", "70", None]),
    "a": ("BIGINT", ["-9223372036854775808", "9223372036854775807", "0", "-1", "1", "64", "33", "11141111", None]),
    "b": ("BIGINT", ["9223372036854775807", "-1", "2", "0", "4294967296", "-2147483649", "5", None]),
    "u": ("UBIGINT", ["18446744073709551615", "0", "3", None]),
    "h": ("HUGEINT", ["-170141183460469231731687303715884105728", "170141183460469231731687303715884105727", "0",
                      "99999999999999999999999999999999999999", "-1", "10000000000000000000", None]),
    "x": ("DOUBLE", ["nan", "inf", "-inf", "1e308", "-1e308", "0", "-0.0", "-1.5", "1e19", "5e-324", "2", "1e-9", None]),
    "f": ("FLOAT", ["nan", "inf", "3e38", "0", "-1", None]),
    "p": ("DECIMAL(18,3)", ["999999999999999.999", "-999999999999999.999", "0", "0.001", "1.5", None]),
    "q": ("DECIMAL(38,0)", ["99999999999999999999999999999999999999", "-99999999999999999999999999999999999999", "0", "1", None]),
    "r": ("DECIMAL(38,38)", ["0.99999999999999999999999999999999999999", "0", None]),
    "s": ("VARCHAR", ["", "abc", "n/a", "5", "2020-01-01", "(", "%", "é€😀", "-1", "\x00", "a" * 300, "\\", "month", "1e400",
                      '{"a": [1, 2]}', "[" * 2000, "9" * 60, "nan", "infinity", "2020-13-45", "24:00:00", "true", "٣", None]),
    "t": ("VARCHAR", ["abc", "", "[", "a", "%Y", "\\1", "0x10", "290309-12-22 (BC)", "a_%", "1 year", ",", None]),
    "d": ("DATE", ["2020-02-29", "infinity", "-infinity", "5881580-07-10", "290309-12-22 (BC)", "0001-01-01", "9999-12-31", None]),
    "ts": ("TIMESTAMP", ["2020-02-29 12:34:56.789", "infinity", "-infinity", "294247-01-10 04:00:54.775806",
                         "290309-12-22 (BC) 00:00:00", "9999-12-31 23:59:59.999999", "0001-01-01 00:00:00", None]),
    "tz": ("TIMESTAMP WITH TIME ZONE", ["2020-02-29 12:34:56+00", "infinity", "294247-01-10 04:00:54.775806+00",
                                         "290309-12-22 (BC) 00:00:00+00", None]),
    "ns": ("TIMESTAMP_NS", ["2020-01-01", "2262-04-11 23:47:16.854775806", "1677-09-22", "infinity", None]),
    "se": ("TIMESTAMP_S", ["2020-01-01", "infinity", "290000-01-01", None]),
    "tm": ("TIME", ["23:59:59.999999", "00:00:00", "24:00:00", None]),
    "uu": ("UUID", ["00000000-0000-0000-0000-000000000000", None]),
    "j": ("JSON", ['{"a": [1, 2], "b": "x"}', '"x"', "null", "5", "[[]]", None]),
    "bl": ("BLOB", ["abc", "\\xFF\\x00", "", None]),
    "l": ("VARCHAR[]", ["[a, b]", "[]", "[NULL]", None]),
    "v": ("DOUBLE[]", ["[1.5, nan]", "[inf, -inf]", "[1e308, -1e308]", "[5e-324, -0.0]", "[1]", "[NULL, 1]", "[]", None]),
    "n": ("BIGINT[]", ["[1, 2]", "[]", None]),
    "st": ("STRUCT(k BIGINT, v VARCHAR)", ["{'k': 9223372036854775807, 'v': x}", None]),
    "da": ("DATE", ["5877642-06-25 (BC)", "5881580-07-10", "2020-12-31", None]),
    "uh": ("UHUGEINT", ["340282366920938463463374607431768211455", "0", "1", None]),
    "bi": ("BIT", ["1", "0", "101", "1" * 200, None]),
    "bj": ("BIT", ["0", "1", "110", "0" * 65, None]),
    "nn": ("BIGINT[][]", ["[[1, 2], []]", "[NULL]", "[]", None]),
    "ar": ("INTEGER[3]", ["[1, 2, NULL]", "[2147483647, 0, -1]", None]),
    "mp": ("MAP(BIGINT, VARCHAR)", ["{9223372036854775807=a, 1=NULL}", "{}", None]),
    "iv": ("INTERVAL", ["1 day", "178000000 years", "-178000000 years", "200000000 days", None]),
}  # fmt: skip
# Whose types Arrow, Spark and Beam have too.
EVERYWHERE = ["bo", "i", "a", "b", "x", "f", "p", "s", "t", "d", "ts", "tz"]
SCHEMA = {name: Column(Kind.OTHER, kind) for name, (kind, _) in AWKWARD.items()}
CONSTANTS = [
    "0", "1", "-1", "2", "10", "64", "0.5", "-2.5", "1e308", "9223372036854775807", "170141183460469231731687303715884105727",
    "NULL", "true", "''", "'a'", "'5'", "'%Y-%m-%d'", "'month'", "'day'", "'microsecond'", "'a+'", "'(a)|b'", "'\\C'", "'\\1\\1'", "'g'",
    "'$.a'", "'$'", "','", "'l2'", "'2020-01-01'", "DATE '2020-01-01'", "DATE 'infinity'", "TIMESTAMP '9999-12-31 23:59:59'",
    "INTERVAL '1 day'", "INTERVAL '1 month'", "INTERVAL '9000 years'", "INTERVAL '90000 years'", "INTERVAL 3 HOUR", "[1, 2]", "['a', 'b']",
]  # fmt: skip
TYPES = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE",
    "DECIMAL(4,1)", "DECIMAL(38,0)", "DECIMAL(38,38)", "VARCHAR", "DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_S",
    "TIMESTAMP_MS", "TIMESTAMP_NS", "TIME", "UUID", "JSON",
]  # fmt: skip
COMPARISONS = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
NAMES = sorted(FORMS)


# Functions that DuckDB does not have.
OWN = {
    "vector_norm": [["DOUBLE[]", "INTEGER", "VARCHAR"], ["BIGINT[]", "INTEGER", "VARCHAR"], ["INTEGER[3]", "INTEGER", "VARCHAR"]],
    "vector_steps": [["DOUBLE[]", "INTEGER", "INTEGER"], ["BIGINT[]", "INTEGER", "INTEGER"], ["INTEGER[3]", "INTEGER", "INTEGER"]],
}  # fmt: skip


@cache
def signatures() -> dict[str, list[list[str]]]:
    """Return the types of arguments that DuckDB says each function takes."""
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT lower(function_name), parameter_types, varargs FROM duckdb_functions() "
            "WHERE function_type IN ('scalar', 'macro')"
        ).fetchall()
    taken: dict[str, list[list[str]]] = {name: [] for name in NAMES}
    for name, types, more in found:
        if name in taken:
            taken[name].append([str(t) for t in types] + [str(more)] * (2 if more else 0))
    return taken | OWN


def expression(chance: random.Random, columns: list[str], depth: int = 3) -> str:
    """Return an expression that may fit its types or not."""
    pool: list[str] = []

    def one(depth: int) -> str:
        if pool and chance.random() < 0.25:
            return chance.choice(pool)  # a part that repeats
        made = build(depth)
        pool.append(made)
        return made

    def build(depth: int) -> str:
        if depth == 0 or chance.random() < 0.15:
            return chance.choice(columns) if chance.random() < 0.75 else chance.choice(CONSTANTS)
        match chance.randrange(12):
            case 0:
                return f"CAST({one(depth - 1)} AS {chance.choice(TYPES)})"
            case 1:
                return f"({one(depth - 1)} {chance.choice(COMPARISONS)} {one(depth - 1)})"
            case 2:
                return f"CASE WHEN {one(depth - 1)} THEN {one(depth - 1)} ELSE {one(depth - 1)} END"
            case 3:
                return f"({one(depth - 1)} {chance.choice(['AND', 'OR'])} {one(depth - 1)})"
            case 4:
                return f"({one(depth - 1)} BETWEEN {one(depth - 1)} AND {one(depth - 1)})"
            case 5:
                return f"({one(depth - 1)} IN ({one(depth - 1)}, {one(depth - 1)}))"
            case 6:
                return chance.choice(["({} IS NULL)", "(NOT {})", "TRY({})"]).format(one(depth - 1))
            case 7:
                return chance.choice(["({})[{}]", "coalesce({}, {})", "({})[{}:2]", "({})[:-:{}]"]).format(
                    one(depth - 1), one(depth - 1)
                )
        name = chance.choice(NAMES)
        known = signatures()[name]
        if known and chance.random() < 0.85:
            arguments = [fitting(kind, depth - 1) for kind in chance.choice(known)]
        else:
            arguments = [one(depth - 1) for _ in range(chance.randint(1, 3))]
        if name.isidentifier():
            return f"{name}({', '.join(arguments)})"
        return f"({f' {infix(name)} '.join((arguments * 2)[:2])})"

    def fitting(kind: str, depth: int) -> str:
        """Return what is likely to fit an argument of a type."""
        kind = {"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE"}.get(kind, kind)
        of_type = [name for name in columns if AWKWARD[name][0].partition("(")[0] == kind.partition("(")[0]]
        constants = [
            c for c in CONSTANTS if c.startswith(("'", "[")) == (kind.startswith("VARCHAR") or "[" in kind)
        ]
        choice = chance.random()
        if choice < 0.45 and of_type:
            return chance.choice(of_type)
        if choice < 0.7:
            return chance.choice(constants)
        if choice < 0.85 and kind in TYPES:
            return f"CAST({one(depth)} AS {kind})"
        return one(depth)

    return one(depth)


def infix(name: str) -> str:
    words = {"~~": "LIKE", "!~~": "NOT LIKE", "~~*": "ILIKE", "!~~*": "NOT ILIKE", "~~~": "GLOB", "@": "+ @"}
    return words.get(name, name)


def rows(columns: list[str], count: int = 240) -> dict[str, tuple[str, list[str | None]]]:
    """Return columns of awkward values, as a type and texts; each meets each other somewhere."""
    chance = random.Random(5)
    made = {}
    for name in columns:
        kind, values = AWKWARD[name]
        texts = list(itertools.islice(itertools.cycle(values), count))
        chance.shuffle(texts)
        made[name] = (kind, texts)
    return made
