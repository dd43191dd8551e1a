"""Sizes at which an engine computes in another way: all are in one place, and a test can make each small."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato
from sfumato.engines.duckdb import contribution_limits
from sfumato.query import sizes
from sfumato.query.engine_protocol import ExactQuery
from sfumato.transformations import Count, CountUnits, DistinctMatched, UnitSum

from .conftest import SMALL

PACKAGE = Path(sfumato.__file__).parent
# What else is a large number in a module of an engine, and why no path hides behind it.
OTHERS = {
    "refuses what is larger, in words or by NULL, which tests of that limit show": {
        "beam/beam_rows.py": {"VALUE_BYTES"},
        "duckdb/combined_stages.py": {"PUBLIC_BYTES"},
        "duckdb/expressions/validation.py": {"LONGEST", "_MOST_OPERATIONS"},
        "duckdb/expressions/arithmetic.py": {"_MOST_EXPONENT", "_MOST_STEPS"},
        "duckdb/expressions/safe_parts.py": {"_TWICE", "_MOST_TAKEN", "_LONGEST_TIME"},
        "duckdb/expressions/texts.py": {
            "MOST_HELD",
            "LARGEST_PATTERN",
            "_LONGEST",
            "_MOST_JOINED",
            "_MOST_LISTED",
        },
        "duckdb/expressions/times.py": {"_LONGEST_FORMAT"},
        "duckdb/expressions/safe_forms.py": {"_LONGEST", "_LONGEST_LIST", "_MOST_PARTS"},
        "duckdb/sanitized_columns.py": {"JSON_BYTES"},
        "duckdb/sparse_matching.py": {"_MOST_WAYS"},
        "duckdb/text_lines.py": {"MOST_BYTES", "MOST_QUOTED", "MOST_JSON"},
        "duckdb/stages.py": {"KEYS_BYTES"},
        "duckdb/row_steps.py": {"MOST_STEPS"},
        "spark/spark_engine.py": {"PUBLIC_ROWS"},
    },
    "is a number of shards, of which tests have one to four, or memory, which tests of resources make small": {
        "beam/beam_engine.py": {"SHARDS"},
        "duckdb/resources.py": {"LEAST_BYTES"},
        "duckdb/stages.py": {"STAGE_BYTES"},
        "spark/spark_engine.py": {"GROUP_SHARDS"},
    },
    "is no size of data: a length of a text that is shown, a factor, a version, made-up rows": {
        "duckdb/analysis_sql.py": {"LARGEST"},
        "duckdb/dummy_source.py": {"_STEPS", "_NULLS", "_LARGEST"},
        "duckdb/expressions/binding.py": {"_SHORT"},
        "duckdb/expressions/validation.py": {"_SHORT"},
        "duckdb/shaped.py": {"_FARTHEST"},
        "duckdb/column_types.py": {"SAMPLE"},  # what is inferred is part of the answer, here and in layout
        "duckdb/text_files.py": {"_PREAMBLE", "_SAMPLE"},
        "duckdb/text_lines.py": {"_SAID"},
        "duckdb/unit_aggregates.py": {"_SUMMED"},  # of types
        "question_check.py": {"FEW", "MANY"},  # rows that are added
        "duckdb/file_paths.py": {"_SILENCE"},
        "worker_secret.py": {"BYTES"},
        "spark/session.py": {"JAVA"},
    },
}


def large_numbers(tree: ast.Module) -> Iterator[str]:
    """Yield names of a module that are numbers from 16 on, or several of which one is."""
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        pairs = [(targets[0], node.value)]
        if isinstance(targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(targets[0].elts, node.value.elts, strict=True))
        for target, value in pairs:
            constants = [n for n in ast.walk(value) if isinstance(n, ast.Constant)]
            arithmetic = (
                ast.Constant,
                ast.BinOp,
                ast.UnaryOp,
                ast.Tuple,
                ast.operator,
                ast.unaryop,
                ast.Load,
            )
            if constants and all(isinstance(n, arithmetic) for n in ast.walk(value)):
                found = eval(compile(ast.Expression(value), "", "eval"))
                found = found if isinstance(found, tuple) else (found,)
                if any(isinstance(one, int | float) and abs(one) >= 16 for one in found):
                    yield ast.unparse(target)


def test_a_small_value_is_there_for_each_size():
    """A size without one stays large under the fixture, and what is behind it is not tested."""
    assert set(SMALL) == {name for name in vars(sizes) if name.isupper()}
    assert all(0 <= SMALL[name] <= getattr(sizes, name) for name in SMALL if name not in MADE_LARGER)


MADE_LARGER = {
    "SHARE_LEFT_OUT",  # of few pairs the share left out is large, and the path behind it would not be taken
}


def test_no_size_hides_in_a_module():
    known = {(path, name) for places in OTHERS.values() for path, names in places.items() for name in names}
    found = {
        (path.relative_to(PACKAGE / "engines").as_posix(), name)
        for path in (PACKAGE / "engines").rglob("*.py")
        for name in large_numbers(ast.parse(path.read_text()))
    }
    assert found - known == set(), "move them to query/sizes.py, or say here why no path is behind them"
    assert known - found == set()


def test_a_size_that_hides_is_found():
    module = ast.parse(
        "_SMALL = 100_000\nFEW, LIMIT = 3, 1 << 20\nNAME = 'x'\nTABLE = {1: 100}\nPARTS = (1, 99)\n"
    )
    assert [*large_numbers(module)] == ["_SMALL", "LIMIT", "PARTS"]


def test_a_fault_behind_a_size_is_seen_where_sizes_are_small(openers, monkeypatch, request):
    """A unit in 20 groups keeps 13; without the ranking that only many rows need, it keeps all."""
    rows = pa.table({"id": [1] * 20, "k": range(20)})
    query = ExactQuery((), "id", ("k",), None, 13, (CountUnits(),))

    def kept() -> int:
        return sum(batch.num_rows for batch in openers("duckdb")(rows).statistics(query, 100))

    monkeypatch.setattr(
        contribution_limits, "_kept", lambda pairs, columns, *_: f"SELECT {columns} FROM {pairs}"
    )
    assert kept() == 13
    request.getfixturevalue("small_sizes")
    assert kept() == 20


@pytest.mark.long
def test_beam_takes_the_same_paths(openers, small_sizes, fixed_salt):
    """Rows wait in threes, parts are joined in twos, before a shuffle and after it; the answer is that of DuckDB."""
    rows = pa.table({"unit": [i % 12 for i in range(60)], "k": [i % 5 for i in range(60)], "x": range(60)})
    statistics = CountUnits(), Count(2), UnitSum("s", "x", 0, 0, 50, True), DistinctMatched("x", 2)
    for query in (
        ExactQuery((), "unit", ("k",), None, 2, statistics),
        ExactQuery((), "unit", (), None, 1, statistics, total_rows=3),
    ):
        answers = [
            [row for batch in openers(name)(rows).statistics(query, 100) for row in batch.to_pylist()]
            for name in ("duckdb", "beam")
        ]
        assert answers[0] == answers[1] != []
