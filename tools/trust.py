"""Count the code on which the privacy of a release rests, and write the table of docs/trust.md.

`python tools/trust.py` writes the table; `--check` fails if the page has another one. Each module of the
package is in one part of `BASE`, or in one line of `APART`, which says why it cannot break the promise.
"""

from __future__ import annotations

import ast
import fnmatch
import io
import sys
import tokenize
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "sfumato"
PAGE = ROOT / "docs" / "trust.md"
BEGIN, END = "<!-- begin: written by tools/trust.py -->", "<!-- end -->"
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER
}  # fmt: skip


@dataclass(frozen=True)
class Part:
    """A part of the privacy base.

    Args:
        name: of the part.
        used: in which releases it runs: "all", or those that need it.
        right: what must be right of it.
        files: patterns of paths below the package; `path::name` takes one definition of a file that is
            otherwise in `APART`.
        tests: the tests that hold it, below the checkout.
    """

    name: str
    used: str
    right: str
    files: tuple[str, ...]
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Apart:
    """Modules that cannot break the promise.

    Args:
        why: they cannot.
        files: patterns of paths below the package.
        near: whether they run between the rows and the noisy numbers all the same.
    """

    why: str
    files: tuple[str, ...]
    near: bool = False


BASE = (
    Part(
        "Certificate",
        "all",
        "what it certifies is true of what the description says",
        (
            "certificate/certificate.py",
            "certificate/composition.py",
            "certificate/description.py",
            "certificate/unit_loss.py",
        ),
        (
            "tests/certificate/test_noise.py",
            "tests/certificate/test_composition.py",
            "tests/certificate/test_contributions.py",
            "tests/certificate/test_certify.py",
        ),
    ),
    Part(
        "Payment, one draw",
        "all",
        "nothing is drawn that was not certified and charged, and nothing is drawn twice",
        (
            "release/payment.py",
            "plan/plan_description.py",
            "budget/certified_loss.py",
            "ownership.py",
            "release/release.py::Release._draw_all",
            "release/release.py::Release._draw",
            "release/release.py::Release._drawn",
            "release/release.py::Release._noisy",
            "release/release.py::joined",
            "release/top_release.py::TopRelease.to_arrow",
            "release/top_release.py::TopRelease._draw",
            "release/top_release.py::TopRelease._drawn",
        ),
        ("tests/test_ownership.py", "tests/engines/test_ownership.py", "tests/budget/test_spending.py"),
    ),
    Part(
        "Drawing",
        "all",
        "it adds the noise that it describes to every exact number, and shows nothing else of them",
        (
            "plan/quantile_candidates.py",
            "plan/group_measurement.py",
            "plan/noisy_statistics.py",
            "plan/top_measurement.py",
            "query/arrow_columns.py",
            "query/group_totals.py",
            "query/engine_protocol.py",
            "measurements/group_selection.py",
            "measurements/candidate_selection.py",
            "measurements/quantile_choice.py",
            "measurements/int128_array.py",
            "release/release_files.py::regular",
            "dataclass.py",
        ),
        (
            "tests/certificate/test_planned.py",
            "tests/engines/test_composition.py",
            "tests/engines/test_noise.py",
            "tests/audit/test_every_aggregate.py",
        ),
    ),
    Part(
        "Samplers, random source",
        "all",
        "they draw their laws, exactly rounded, of words that nobody can guess",
        (
            "noise/random_words.py",
            "noise/rounded_sampler.py",
            "noise/laws.py",
            "noise/standard_laws.py",
            "noise/series_noise.py",
            "noise/centred_noise.py",
            "noise/level_noise.py",
            "noise/k_norm/cones.py",
            "noise/k_norm/sampling.py",
            "noise/k_norm/cone_noise.py",
            "exact/outward_rounding.py",
            "exact/library_settings.py",
            "exact/rollup.py",
            "exact/time_trees.py",
        ),
        (
            "tests/noise/test_exactness.py",
            "tests/noise/test_words.py",
            "tests/noise/test_rounded.py",
            "tests/noise/test_statistics.py",
        ),
    ),
    Part(
        "Statistics",
        "all",
        "the numbers that they describe are those that engines are told to compute",
        (
            "transformations/statistics/*.py",
            "transformations/grid.py",
            "transformations/quantile_lattice.py",
            "framework/contribution_bodies.py",
        ),
        ("tests/certificate/test_planned.py", "tests/engines/test_statistics.py"),
    ),
    Part(
        "Contribution bounding in SQL",
        "all",
        "each unit adds to each number at most what is described, whatever its rows are",
        (
            "engines/duckdb/bounding_sql.py",
            "transformations/row_sql.py",
            "engines/duckdb/contribution_limits.py",
            "engines/duckdb/ordering.py",
            "engines/duckdb/distinct_values.py",
            "engines/duckdb/sparse_matching.py",
            "engines/duckdb/public_keys.py",
            "sql_text.py",
            "query/sizes.py",
        ),
        (
            "tests/engines/test_statistics.py",
            "tests/engines/test_neighbours.py",
            "tests/engines/test_broken_values.py",
            "tests/engines/test_group_limit.py",
        ),
    ),
    Part(
        "Row expressions",
        "all",
        "an expression sees one row, has a value on every row, and never stops",
        (
            "engines/duckdb/expressions/*.py",
            "engines/duckdb/row_steps.py",
            "engines/duckdb/sanitized_columns.py",
            "dialect/syntax_tree.py",
            "dialect/sql_tokens.py",
            "dialect/overloads.py",
            "query/schema.py",
        ),
        (
            "tests/engines/test_expressions.py",
            "tests/engines/test_hostile_expressions.py",
            "tests/engines/test_conditions.py",
        ),
    ),
    Part(
        "Rows, sessions, errors",
        "all",
        "no row stops a query, shows in an error, or changes how another row is read",
        (
            "engines/duckdb/duckdb_engine.py",
            "engines/duckdb/source_reader.py",
            "engines/duckdb/connection.py",
            "engines/duckdb/source.py",
            "engines/duckdb/sources.py",
            "engines/duckdb/arrow_sources.py",
            "engines/duckdb/parquet.py",
            "engines/duckdb/resources.py",
            "errors.py",
        ),
        (
            "tests/engines/test_sources.py",
            "tests/engines/test_hostile_sources.py",
            "tests/engines/test_hostile_files.py",
            "tests/test_error_chain.py",
        ),
    ),
    Part(
        "Tables made of tables",
        "joins, unions, windows, unit-local SQL, units of several columns",
        "each row that is made belongs to the unit of the rows that it is made of",
        (
            "query/tables/combined_tables.py",
            "query/tables/shaped_tables.py",
            "query/tables/table_part.py",
            "query/tables/unit_parts.py",
            "engines/duckdb/combinations.py",
            "engines/duckdb/combined_rows.py",
            "engines/duckdb/shaped.py",
            "engines/duckdb/unit_aggregates.py",
            "engines/duckdb/composite_units.py",
            "engines/duckdb/post_processing_sql.py",
        ),
        (
            "tests/engines/test_combined.py",
            "tests/engines/test_composite_units.py",
            "tests/engines/test_unit_limit.py",
            "tests/dialect/test_inside.py",
        ),
    ),
    Part(
        "CSV, JSON, pandas",
        "rows of text files and data frames",
        "as for rows",
        (
            "engines/duckdb/text_files.py",
            "engines/duckdb/text_lines.py",
            "engines/duckdb/column_types.py",
        ),
        ("tests/engines/test_text_files.py", "tests/engines/test_hostile_files.py"),
    ),
    Part(
        "Databases, addresses",
        "rows of SQLite, PostgreSQL, DuckDB files, and files at an address",
        "as for rows",
        ("engines/duckdb/databases.py", "engines/duckdb/file_paths.py"),
        ("tests/engines/test_databases.py", "tests/engines/test_addresses.py"),
    ),
    Part(
        "Stages on many machines",
        "Spark and Beam",
        "the same statistics in parts, and the same noise however often a task runs",
        (
            "engines/duckdb/stages.py",
            "engines/duckdb/combined_stages.py",
            "engines/distributed_engine.py",
            "engines/worker_noise.py",
            "engines/worker_secret.py",
        ),
        (
            "tests/engines/test_work.py",
            "tests/engines/test_statistics.py",
            "tests/engines/test_combined_on_workers.py",
        ),
    ),
    Part(
        "Spark",
        "Spark",
        "each shard comes to one task, whole; a release is computed once; no error quotes a row",
        ("engines/spark/*.py",),
        ("tests/engines/test_spark.py", "tests/engines/test_spark_errors.py"),
    ),
    Part(
        "Beam",
        "Beam",
        "each shard comes to one task, whole; no element stops another; a release is drawn once",
        (
            "engines/beam/beam_release.py",
            "engines/beam/beam_elements.py",
            "engines/beam/beam_rows.py",
            "engines/beam/beam_engine.py",
        ),
        (
            "tests/engines/test_beam.py",
            "tests/engines/test_beam_elements.py",
            "tests/engines/test_beam_rows.py",
            "tests/engines/test_beam_once.py",
        ),
    ),
    Part(
        "Surveys",
        "surveys",
        "the sample is stratified as described, and the noise of its numbers is what they describe",
        ("measurements/stratified_survey.py", "transformations/stratified_design.py"),
        ("tests/measurements/test_stratified.py",),
    ),
)

APART = (
    Apart(
        "They choose what is drawn, from the question alone. The certificate reads the objects that draw, so "
        "a mistake there is refused, or costs accuracy",
        (
            "plan/*.py",
            "query/query.py",
            "plan/required_statistics.py",
            "api/largest_groups.py",
            "query/aggregates/*.py",
            "framework/*.py",
            "measurements/correlated_noise.py",
            "measurements/independent_noise.py",
            "exact/parameters.py",
            "exact/__init__.py",
        ),
        near=True,
    ),
    Apart(
        "They see noisy numbers alone, or laws of noise: outputs, error bars, files, receipts",
        (
            "release/*.py",
            "query/error_bars.py",
            "plan/serialization.py",
            "query/group_totals.py",
            "release/table_digest.py",
            "release/canonical_form.py",
            "query/inferred_parameters.py",
            "noise/noise_sums.py",
            "noise/k_norm/marginals.py",
            "noise/k_norm/joint_marginals.py",
            "exact/root_finding.py",
            "exact/parameters.py",
        ),
        near=True,
    ),
    Apart(
        "They say what goes on, and hand values on as they are: progress, logs, names in messages, cards",
        (
            "names/*.py",
            "display/*.py",
            "release/payment.py",
            "query/table_display.py",
            "release/release_display.py",
        ),
        near=True,
    ),
    Apart(
        "They look up what a question names. What they make, Python can ask as well, and the base judges it",
        (
            "dialect/*.py",
            "catalogs/*.py",
            "engines/sql.py",
            "engines/scan.py",
            "engines/catalog.py",
            "engines/declared_tables.py",
            "engines/duckdb/origin.py",
            "api/question.py",
            "api/table.py",
            "query/engine_protocol.py",
            "query/choices.py",
            "plan/explanation.py",
            "query/tables/public_table.py",
            "query/tables/dummy_rows.py",
            "beam.py",
            "spark.py",
            "files.py",
        ),
        near=True,
    ),
    Apart(
        "They make questions of questions, and see the noisy answers of these",
        (
            "advice/*.py",
            "guidance/contribution_distribution.py",
            "guidance/counted_rows.py",
            "guidance/diagnosis_plan.py",
            "guidance/diagnostics.py",
            "guidance/expected_error.py",
            "guidance/histogram_tail.py",
            "guidance/inferred_bounds.py",
            "guidance/inferred_limits.py",
            "guidance/preliminary_queries.py",
            "guidance/preview.py",
            "guidance/shift_queries.py",
            "guidance/shifts.py",
            "guidance/simulated_groups.py",
        ),
        near=True,
    ),
    Apart(
        "They show exact numbers to the owner of the rows, and refuse a table that is opened for analysts",
        (
            "guidance/analysis.py",
            "guidance/non_private_analysis.py",
            "guidance/quantile_errors.py",
            "guidance/unit_contributions.py",
            "engines/question_check.py",
            "engines/catalog_check.py",
            "engines/duckdb/analysis_sql.py",
        ),
    ),
    Apart(
        "They make rows up, of which nothing is private",
        ("engines/duckdb/dummy_source.py",),
        near=True,
    ),
    Apart(
        "They add up releases, a promise of its own: a mistake there overdraws a budget, and leaves each "
        "table with the epsilon that it states",
        ("budget/*.py",),
        near=True,
    ),
    Apart(
        "They have the promises of the [threat model](threat-model.md), and release by the base",
        ("service/*.py", "client/*.py", "cli/*.py", "certificate/*.py"),
    ),
    Apart(
        "They are tools of their own, and no part of a release",
        (
            "audit/*.py",
            "testing/*.py",
            "snapping/*.py",
            "measurements/*.py",
            "transformations/*.py",
            "exact/*.py",
            "__init__.py",
            "engines/__init__.py",
            "engines/duckdb/__init__.py",
            "engines/beam/__init__.py",
            "query/__init__.py",
            "query/tables/__init__.py",
            "api/__init__.py",
            "guidance/__init__.py",
            "noise/__init__.py",
            "noise/k_norm/__init__.py",
        ),
    ),
)


@cache
def modules() -> tuple[str, ...]:
    """Return the paths of all modules below the package."""
    return tuple(sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")))


@cache
def of_part(part: Part) -> dict[str, tuple[str, ...]]:
    """Return the modules of a part, each with the definitions that it takes of it; none where it takes all.

    Raises:
        ValueError: a pattern has no module.
    """
    found: dict[str, tuple[str, ...]] = {}
    for pattern in part.files:
        path, _, name = pattern.partition("::")
        matching = fnmatch.filter(modules(), path)
        if not matching and "*" not in path:
            raise ValueError(f"{part.name}: there is no {path}")
        for module in matching:
            found[module] = (*found.get(module, ()), name) if name else ()
    return found


@cache
def base() -> dict[str, tuple[str, ...]]:
    """Return all modules of the base, each with the definitions that are taken of it; none where it is all.

    Raises:
        ValueError: a module is in two parts.
    """
    found: dict[str, tuple[str, ...]] = {}
    for part in BASE:
        for module, names in of_part(part).items():
            if module in found and not (names and found[module]):
                raise ValueError(f"{module} is in two parts")
            found[module] = (*found.get(module, ()), *names)
    return found


@cache
def apart(module: str) -> Apart | None:
    """Return the first line that a module is in; None where it is in no line."""
    return next((one for one in APART if any(fnmatch.fnmatchcase(module, p) for p in one.files)), None)


@cache
def code_lines(module: str, names: tuple[str, ...] = ()) -> int:
    """Count lines of code, without docstrings, comments and blank lines.

    Args:
        module: its path below the package.
        names: the definitions that count, such as `Release._draw`; none for the whole module.
    Raises:
        ValueError: there is no such definition.
    """
    source = (PACKAGE / module).read_text()
    tree, code, left = ast.parse(source), set[int](), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    places: dict[str, range] = {}

    def look(node: ast.AST, inside: str) -> None:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                left.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        for child in ast.iter_child_nodes(node):
            name = inside
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{inside}.{child.name}" if inside else child.name
                start = min([child.lineno, *(one.lineno for one in child.decorator_list)])
                places[name] = range(start, (child.end_lineno or child.lineno) + 1)
            look(child, name)

    look(tree, "")
    if missing := set(names) - set(places):
        raise ValueError(f"{module} has no {', '.join(sorted(missing))}")
    counted = {line for name in names for line in places[name]} if names else code
    return len((code & counted) - left)


def lines_of(part: Part) -> int:
    """Count the lines of code of a part."""
    return sum(code_lines(module, names) for module, names in of_part(part).items())


def total(*used: str) -> int:
    """Count the lines of code of all parts, or of those that are used in these releases."""
    return sum(lines_of(part) for part in BASE if not used or part.used in used)


def table() -> str:
    """Return the tables of the page."""
    rows = ["| part | what must be right | runs in | files | lines | tests |", "|---|---|---|---|---|---|"]
    for part in BASE:
        files = "; ".join(_file(module, names) for module, names in of_part(part).items())
        tests = ", ".join(f"`{test}`" for test in part.tests)
        rows.append(f"| {part.name} | {part.right} | {part.used} | {files} | {lines_of(part):,} | {tests} |")
    rows += [f"| **all** | | | {len(base())} files | **{total():,}** | |", ""]
    alone = f"{total('all'):,} of these lines"
    rows.append(f"A release of Parquet files or Arrow tables on one machine rests on {alone}.")
    why = ["| what is apart | modules |", "|---|---|"]
    for one in APART:
        count = sum(m not in base() and apart(m) is one for m in modules())
        why.append(f"| {one.why} | {count:,} |")
    return "\n".join([*rows, "", *why])


def _file(module: str, names: tuple[str, ...]) -> str:
    return f"`{module}`" + (f" ({', '.join(f'`{name}`' for name in names)})" if names else "")


def page() -> str:
    """Return the page with the tables as they are today."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    written = page()
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if written == PAGE.read_text() else f"{PAGE} is not what tools/trust.py writes")
    PAGE.write_text(written)
