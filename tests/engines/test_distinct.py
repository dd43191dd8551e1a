"""What stands for values whose different ones are counted: equal for equal values, and else different."""

import duckdb
import pytest

import sfumato as sf
from sfumato.engines.duckdb.distinct import code

# Of each type, values of which none equals another, though DuckDB's own hash takes some for one.
DIFFERENT = {
    "of numbers": "SELECT unnest([0.0, 1.5, -1.5, 'infinity'::DOUBLE])",
    "of 128 bits": "SELECT (i % 9)::HUGEINT + ((i // 9)::HUGEINT << 64) FROM range(81) t(i)",
    "of decimals": "SELECT (i * 1000000000000000)::DECIMAL(38, 2) FROM range(81) t(i)",
    "of days": "SELECT to_days(i::INTEGER) FROM range(20000) t(i)",
    "of months and time": "SELECT to_months((i % 99)::INTEGER) + to_microseconds(i // 99) FROM range(9900) t(i)",
    "of time before": "SELECT to_microseconds(-7777777 * i) FROM range(9900) t(i)",
    "of lists": "SELECT unnest([[], [NULL], [NULL, NULL], [1], [1, NULL], [NULL, 1]])",
    "of lists of lists": "SELECT unnest([[[1], [2]], [[1, 2]], [[1, 2], []]])",
    "of lists of 128 bits": "SELECT [(i % 9)::HUGEINT + ((i // 9)::HUGEINT << 64)] FROM range(81) t(i)",
    "of text": "SELECT unnest(['', chr(0), ' ', 'a', 'A', 'a ', 'ä', 'a\u0308'])",
    "of structs": "SELECT {'a': i % 9, 'b': i // 9} FROM range(81) t(i)",
    "of truth": "SELECT unnest([true, false])",
}
EQUAL = {
    "zeros": "[0.0::DOUBLE, -0.0::DOUBLE]",
    "zeros in lists": "[[0.0::DOUBLE], [-0.0::DOUBLE]]",
    "zeros in structs": "[{'a': 0.0::FLOAT}, {'a': -0.0::FLOAT}]",
    "no numbers in lists": "['[nan]'::DOUBLE[], '[-nan]'::DOUBLE[]]",
    "times": "['2020-01-01 00:00:00+00'::TIMESTAMPTZ, '2020-01-01 01:00:00+01'::TIMESTAMPTZ]",
    "lengths of time": "[INTERVAL 30 DAY, INTERVAL 1 MONTH, INTERVAL 720 HOUR]",
}


def codes(values, standing=code):
    with duckdb.connect() as con:
        (kind,) = con.execute(f"SELECT typeof(v) FROM ({values}) AS t(v) LIMIT 1").fetchone()
        found = f"SELECT count(*), count(DISTINCT {standing('v', kind)}) FROM ({values}) AS t(v)"
        return con.execute(found).fetchone()


@pytest.mark.parametrize("values", DIFFERENT.values(), ids=DIFFERENT)
def test_different_values_have_different_codes(values):
    number, different = codes(values)
    assert number == different


@pytest.mark.parametrize("values", EQUAL.values(), ids=EQUAL)
def test_equal_values_have_one_code(values):
    assert codes(f"SELECT unnest({values})")[1] == 1


@pytest.mark.parametrize(
    "of", ["of 128 bits", "of days", "of months and time", "of lists", "of lists of lists"]
)
def test_a_bare_hash_is_found(of):
    number, different = codes(DIFFERENT[of], lambda value, _: f"hash({value})")
    assert different < number


@pytest.mark.flakiness(k=20, because="noise of scale 1/1000 is 1/2 with a probability of exp(-500)")
@pytest.mark.parametrize("method", ["matching", "shares"])
@pytest.mark.parametrize("of", [of for of in DIFFERENT if of not in ("of days", "of time before")])
def test_any_column_is_counted(of, method):
    with duckdb.connect() as con:
        rows = con.sql(f"SELECT row_number() OVER () AS unit, v AS x FROM ({DIFFERENT[of]}) AS t(v)")
        number = len(rows)
        asked = sf.count_distinct("x", values=1, method=method)
        table = sf.scan(rows, privacy_unit="unit").bound(groups=1).agg(n=asked)
        (found,) = table.release(epsilon=1000).to_arrow()["n"].to_pylist()
    assert found == number
