"""Count the code on which the privacy of a release rests, and write the table of docs/trust.md.

`python tools/trust.py` writes the table; `--check` fails if the page has another one. Each module of the
package is in one part of `BASE`, or in one line of `APART`, which says why it cannot break the promise.
Definitions in `BASE` that a line of `EXCLUDED` names do not count: tests/test_trust.py sees that none of them
runs between the rows and the noisy numbers, and that no definition that counts calls one.
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
        files: patterns of paths below the package; `path::name` takes one definition of a file, the rest of
            which is in `APART` or in another part.
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


@dataclass(frozen=True)
class Excluded:
    """Definitions in modules of the base that cannot break the promise.

    Args:
        why: they cannot.
        definitions: `path::name`, both patterns; a class takes all that it holds.
    """

    why: str
    definitions: tuple[str, ...]


DISTINCT, QUANTILES = "counts of distinct values", "quantiles, largest groups"
TOTALS, K_NORM = "totals over groups, numbers over time", "K-norm noise"
OTHER_NUMBERS = "vectors, covariances, counts by bin, weights"
ON_ONE_MACHINE = ("all", DISTINCT, QUANTILES, TOTALS, K_NORM, OTHER_NUMBERS)

BASE = (
    Part(
        "Certificate",
        "all",
        "each loss that it certifies follows from the description",
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
            "plan/plan.py::Claim",
            "plan/plan.py::describe",
            "plan/plan.py::sum_costs",
            "plan/plan.py::certify_plans",
            "plan/plan.py::_describe_plans",
            "plan/plan.py::_units",
            "plan/plan.py::_parts",
            "budget/loss.py::certify_loss",
            "budget/loss.py::_certified",
            "budget/loss.py::_compare_losses",
            "budget/loss.py::_make_refusal",
            "ownership.py",
            "release/release.py::Release._draw_all",
            "release/release.py::Release._draw",
            "release/release.py::Release._drawn",
            "release/release.py::Release._noisy",
            "release/release.py::join_batches",
        ),
        ("tests/test_ownership.py", "tests/engines/test_ownership.py", "tests/budget/test_spending.py"),
    ),
    Part(
        "Drawing",
        "all",
        "it adds the described noise to every exact number, and shows nothing else about them",
        (
            "plan/group_measurement.py",
            "plan/noisy_trees.py",
            "plan/quantile_candidates.py::replace_margins",
            "query/engine_protocol.py",
            "measurements/group_selection.py",
            "measurements/int128_array.py",
            "release/release_files.py::regular",
            "dataclass.py",
        ),
        (
            "tests/certificate/test_planned.py",
            "tests/engines/test_noise.py",
            "tests/audit/test_every_aggregate.py",
        ),
    ),
    Part(
        "Samplers, random source",
        "all",
        "they draw their laws, exactly rounded, from random words that nobody can guess",
        (
            "noise/random_words.py",
            "noise/rounded_sampler.py",
            "noise/laws.py",
            "noise/standard_laws.py",
            "exact/outward_rounding.py",
            "exact/library_settings.py",
        ),
        (
            "tests/noise/test_sampler.py",
            "tests/noise/test_random_words.py",
            "tests/noise/test_laws.py",
        ),
    ),
    Part(
        "Statistics",
        "all",
        "engines compute the numbers that are described",
        (
            "transformations/statistics/__init__.py",
            "transformations/statistics/count.py",
            "transformations/statistics/moments.py",
            "transformations/statistics/statistic.py",
            "transformations/statistics/unit_sum.py",
            "transformations/grid.py",
            "framework/contribution_bodies.py",
        ),
        ("tests/certificate/test_planned.py", "tests/engines/test_statistics.py"),
    ),
    Part(
        "Contribution bounding in SQL",
        "all",
        "each unit adds at most what is described to each number, whatever its rows are",
        (
            "engines/duckdb/bounding_sql.py",
            "transformations/row_sql.py",
            "engines/duckdb/contribution_limits.py",
            "engines/duckdb/ordering.py",
            "engines/duckdb/public_keys.py",
            "engines/duckdb/distinct_values.py::fill_matching_sizes",
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
        "an expression sees one row only, and has a value on every row without an error",
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
        ),
    ),
    Part(
        "Rows, sessions, errors",
        "all",
        "no row stops a query, appears in an error, or changes how another row is read",
        (
            "engines/duckdb/duckdb_engine.py",
            "engines/duckdb/source_reader.py",
            "engines/duckdb/connection.py",
            "engines/duckdb/source.py",
            "engines/duckdb/sources.py",
            "engines/duckdb/parquet.py",
            "engines/duckdb/resources.py",
            "engines/duckdb/file_paths.py",
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
        "K-norm noise",
        K_NORM,
        "as for samplers",
        (
            "noise/centred_noise.py",
            "noise/k_norm/cones.py",
            "noise/k_norm/sampling.py",
            "noise/k_norm/cone_noise.py",
        ),
        ("tests/noise/k_norm/test_draws.py", "tests/engines/test_k_norm.py"),
    ),
    Part(
        "Distinct values",
        DISTINCT,
        "each unit contributes at most as many values as are described",
        (
            "transformations/statistics/distinct_values.py",
            "engines/duckdb/distinct_values.py",
        ),
        ("tests/engines/test_distinct.py", "tests/transformations/test_distinct.py"),
    ),
    Part(
        "Quantiles, largest groups",
        QUANTILES,
        "a choice among candidates follows the described law, whatever the counts are",
        (
            "transformations/statistics/quantile_counts.py",
            "transformations/quantile_lattice.py",
            "plan/quantile_candidates.py",
            "plan/top_measurement.py",
            "measurements/quantile_choice.py",
            "measurements/candidate_selection.py",
            "release/top_release.py::TopRelease.to_arrow",
            "release/top_release.py::TopRelease._draw",
            "release/top_release.py::TopRelease._drawn",
        ),
        ("tests/measurements/test_joint_quantiles.py", "tests/engines/test_top.py"),
    ),
    Part(
        "Totals, numbers over time",
        TOTALS,
        "each level and each time step gets the described noise",
        (
            "query/group_totals.py",
            "exact/rollup.py",
            "exact/time_trees.py",
            "noise/series_noise.py",
            "noise/level_noise.py",
        ),
        ("tests/plan/test_totals.py", "tests/plan/test_series.py"),
    ),
    Part(
        "Vectors, covariances, bins, weights",
        OTHER_NUMBERS,
        "as for statistics",
        (
            "transformations/statistics/cross_moments.py",
            "transformations/statistics/rows_in_bins.py",
            "transformations/statistics/vector_sum.py",
            "transformations/statistics/weighted_sum.py",
        ),
        ("tests/certificate/test_planned.py", "tests/engines/test_statistics.py"),
    ),
    Part(
        "Tables made of tables",
        "joins, unions, windows, unit-local SQL, units of several columns",
        "each derived row belongs to the same unit as the rows that it comes from",
        (
            "query/tables/combined_tables.py",
            "query/tables/shaped_tables.py",
            "query/tables/table_part.py",
            "engines/duckdb/combinations.py",
            "engines/duckdb/combined_rows.py",
            "engines/duckdb/shaped.py",
            "engines/duckdb/unit_aggregates.py",
            "engines/duckdb/composite_units.py",
            *(
                f"engines/duckdb/duckdb_engine.py::{name}"
                for name in (
                    "DuckDBEngine._combined",
                    "DuckDBEngine._looked_alike",
                    "DuckDBEngine._part",
                    "DuckDBEngine.combined",
                    "DuckDBEngine.composite",
                    "DuckDBEngine.max_equal_rows",
                    "DuckDBEngine.named",
                    "DuckDBEngine.rows_after",
                    "_alike",
                    "_counted",
                    "_in_one_timezone",
                    "_in_timezone",
                    "_public",
                    "_taken",
                    "_zones",
                )
            ),
        ),
        (
            "tests/engines/test_combined.py",
            "tests/engines/test_composite_units.py",
            "tests/engines/test_unit_limit.py",
            "tests/dialect/test_inside.py",
        ),
    ),
    Part(
        "Text files, frames, streams",
        "rows of text files, data frames, relations, datasets and streams",
        "as for rows",
        (
            "engines/duckdb/text_files.py",
            "engines/duckdb/text_lines.py",
            "engines/duckdb/column_types.py",
            "engines/duckdb/arrow_sources.py",
            *(
                f"engines/duckdb/sources.py::{name}"
                for name in (
                    "from_pandas",
                    "_typed",
                    "_strings",
                    "_texts",
                    "_is_missing",
                    "_text",
                    "_collect_frame",
                    "_open_polars",
                    "_open_pandas",
                    "_object_note",
                    "_cast",
                )
            ),
        ),
        ("tests/engines/test_text_files.py", "tests/engines/test_hostile_files.py"),
    ),
    Part(
        "Databases, addresses",
        "rows of SQLite, PostgreSQL, DuckDB files, and files at an address",
        "as for rows",
        (
            "engines/duckdb/databases.py",
            *(
                f"engines/duckdb/file_paths.py::{name}"
                for name in (
                    "redact_address",
                    "fetch_files",
                    "_open_file_system",
                    "_matching",
                    "_copy_remote",
                    "_packing",
                    "_unreachable",
                )
            ),
            *(
                f"engines/duckdb/sources.py::{name}"
                for name in ("_well_named", "_open_database", "_attached", "_try_query")
            ),
        ),
        ("tests/engines/test_databases.py", "tests/engines/test_addresses.py"),
    ),
    Part(
        "Stages on many machines",
        "Spark and Beam",
        "parts add up to the same statistics, and a repeated task draws the same noise",
        (
            "engines/duckdb/stages.py",
            *(
                f"engines/duckdb/bounding_sql.py::{name}"
                for name in (
                    "BoundingSql._join_leaves",
                    "BoundingSql._joined_pairs",
                    "BoundingSql._joined_totals",
                    "BoundingSql._listed_by_pair",
                    "BoundingSql._sent",
                    "BoundingSql.collected",
                    "BoundingSql.joined_partials",
                    "BoundingSql.joined_totals",
                    "BoundingSql.merged",
                    "BoundingSql.partial_order",
                    "BoundingSql.partials",
                    "BoundingSql.total_order",
                    "BoundingSql.totals",
                    "_shard",
                    "_texts",
                )
            ),
            *(
                f"engines/duckdb/contribution_limits.py::{name}"
                for name in ("counted_rows", "first_pairs", "joined_counts", "written_out")
            ),
            *(
                f"engines/duckdb/distinct_values.py::{name}"
                for name in ("brought", "counted_of_lists", "join_lists")
            ),
            "engines/duckdb/ordering.py::cut_by",
            "transformations/row_sql.py::SqlPart.joined",
            "engines/duckdb/combined_stages.py",
            "engines/distributed_engine.py",
            "engines/worker_noise.py",
            "engines/worker_secret.py",
        ),
        (
            "tests/engines/test_work.py",
            "tests/engines/test_statistics_on_workers.py",
            "tests/engines/test_combined_on_workers.py",
        ),
    ),
    Part(
        "Spark",
        "Spark",
        "each shard reaches one task, whole; a release is computed once; no error quotes a row",
        ("engines/spark/*.py",),
        ("tests/engines/test_spark.py", "tests/engines/test_spark_releases.py"),
    ),
    Part(
        "Beam",
        "Beam",
        "each shard reaches one task, whole; no element stops another; a release is drawn once",
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
        "the sample is stratified as described, and its numbers get the described noise",
        ("measurements/stratified_survey.py", "transformations/stratified_design.py"),
        ("tests/measurements/test_stratified.py",),
    ),
)

APART = (
    Apart(
        "Post-processing: sees only noisy numbers, or laws of noise (outputs, error bars, files, receipts)",
        (
            "release/*.py",
            "engines/duckdb/post_processing.py",
            "query/error_bars.py",
            "plan/noisy_statistics.py",
            "plan/serialization.py",
            "query/group_totals.py",
            "release/table_digest.py",
            "release/canonical_form.py",
            "query/inferred_parameters.py",
            "query/linear_forms.py",
            "noise/noise_sums.py",
            "noise/form_laws.py",
            "noise/law_tails.py",
            "noise/level_tolerances.py",
            "noise/k_norm/marginals.py",
            "noise/k_norm/joint_marginals.py",
            "exact/root_finding.py",
            "exact/parameters.py",
        ),
        near=True,
    ),
    Apart(
        "Planning: chooses what is drawn, from the query alone. The certificate reads the objects that draw, "
        "so a mistake there is refused, or costs accuracy",
        (
            "plan/*.py",
            "query/query.py",
            "plan/required_statistics.py",
            "api/largest_groups.py",
            "engines/duckdb/nullability.py",
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
        "Reporting: passes values on unchanged (progress, logs, names in messages, rich display)",
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
        "SQL, the catalog and the Python API: build queries, which the base validates",
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
            "query/option_names.py",
            "plan/explanation.py",
            "query/tables/public_table.py",
            "query/tables/dummy_rows.py",
            "beam.py",
            "files.py",
        ),
        near=True,
    ),
    Apart(
        "Guidance and advice: derive further queries from a query, and see only their noisy answers",
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
        "Tools for the owner of the rows: show exact numbers, and refuse a table that is opened for analysts",
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
        "Dummy tables: make up rows, which are not private",
        ("engines/duckdb/dummy_source.py",),
        near=True,
    ),
    Apart(
        "Budgets over many releases, a separate promise: a mistake there overdraws a budget, but each table "
        "keeps the epsilon that it states",
        ("budget/*.py",),
        near=True,
    ),
    Apart(
        "Service, client and command line: have the promises of the [threat model](threat-model.md), and "
        "release through the base",
        ("service/*.py", "client/*.py", "cli/*.py", "certificate/*.py"),
    ),
    Apart(
        "Separate tools, which no release uses",
        (
            "audit/*.py",
            "testing/*.py",
            "snapping/*.py",
            "spark.py",
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

EXCLUDED = (
    Excluded(
        "Definitions of statistics in Python. Tests compare the SQL of every engine with them, and no "
        "release runs them",
        (
            "framework/contribution_bodies.py::*.holds",
            "transformations/grid.py::ValueGrid.centred",
            "transformations/grid.py::has_value",
            "transformations/grid.py::scaled_*",
            "transformations/grid.py::steps_half_away",
            "transformations/statistics/*.py::*.contribution",
            "transformations/statistics/statistic.py::per_group",
            "transformations/statistics/*.py::*.of_added",
            "transformations/statistics/*.py::*.row",
            "transformations/statistics/*.py::*.row_steps",
            "transformations/statistics/distinct_values.py::_places",
            "transformations/statistics/distinct_values.py::max_matched",
            "transformations/statistics/quantile_counts.py::*.nodes",
            "transformations/statistics/quantile_counts.py::Margin.by_group",
            "transformations/statistics/quantile_counts.py::Margin.total",
            "transformations/statistics/quantile_counts.py::QuantileTree.all_leaves",
            "transformations/statistics/quantile_counts.py::QuantileTree.leaf",
            "transformations/statistics/quantile_counts.py::QuantileTree.leaves",
            "transformations/statistics/rows_in_bins.py::*.place",
            "transformations/statistics/rows_in_bins.py::Listed._places",
            "transformations/statistics/vector_sum.py::is_vector",
            "transformations/statistics/vector_sum.py::shrink_into_ball",
            "transformations/statistics/weighted_sum.py::WeightGrid.steps",
        ),
    ),
    Excluded(
        "Privacy maps. The certificate computes the loss again with its own formulas, and refuses a "
        "smaller claim",
        (
            "framework/contribution_bodies.py::*.size",
            "framework/contribution_bodies.py::*.split",
            "framework/contribution_bodies.py::BallBody._longest",
            "framework/contribution_bodies.py::Product.of_parts",
            "framework/contribution_bodies.py::weigh_norm",
            "measurements/group_selection.py::*._log10_two_sided_tail",
            "measurements/group_selection.py::*._noise_loss",
            "measurements/group_selection.py::*.loss",
            "measurements/group_selection.py::*.loss_beside_noise",
            "measurements/group_selection.py::select_groups",
            "measurements/quantile_choice.py::joint_quantiles",
            "plan/group_measurement.py::GroupMeasurement._limit",
            "plan/group_measurement.py::GroupMeasurement._noise_loss",
            "plan/group_measurement.py::GroupMeasurement.charge",
            "plan/group_measurement.py::GroupMeasurement.choice_epsilon",
            "plan/group_measurement.py::GroupMeasurement.loss",
            "plan/group_measurement.py::GroupMeasurement.map",
            "plan/group_measurement.py::GroupMeasurement.metric",
            "plan/top_measurement.py::TopMeasurement.charge",
            "plan/top_measurement.py::TopMeasurement.loss",
            "plan/top_measurement.py::TopMeasurement.map",
            "transformations/statistics/*.py::*.size",
            "transformations/statistics/*.py::*.split",
            "transformations/statistics/cross_moments.py::square_share",
            "transformations/statistics/moments.py::MomentsBody.with_value",
        ),
    ),
    Excluded(
        "Planning: makes the objects that draw, or chooses among them, from the query alone. The certificate "
        "reads these objects",
        (
            "exact/outward_rounding.py::root_down",
            "exact/rollup.py::Rollup.squares",
            "exact/time_trees.py::Toeplitz.from_power",
            "exact/time_trees.py::Toeplitz.squared_sum",
            "exact/time_trees.py::Toeplitz.times",
            "exact/time_trees.py::Tree.best",
            "exact/time_trees.py::Tree.best_for_ranks",
            "exact/time_trees.py::Tree.error",
            "exact/time_trees.py::Tree.rank_error",
            "exact/time_trees.py::Tree.rank_variances",
            "exact/time_trees.py::Tree.shares",
            "exact/time_trees.py::Tree.totals",
            "exact/time_trees.py::Tree.variances",
            "exact/time_trees.py::_trees",
            "measurements/group_selection.py::*.chance",
            "measurements/group_selection.py::*.expected_threshold",
            "measurements/group_selection.py::*.probability",
            "measurements/group_selection.py::TruncatedGeometric._bits",
            "measurements/group_selection.py::TruncatedGeometric._ratio",
            "measurements/group_selection.py::TruncatedGeometric._table",
            "plan/group_measurement.py::GroupMeasurement.for_query",
            "plan/group_measurement.py::GroupMeasurement.independent",
            "plan/group_measurement.py::GroupMeasurement.kind",
            "plan/group_measurement.py::GroupMeasurement.from_query",
            "plan/group_measurement.py::GroupMeasurement.scales",
            "plan/quantile_candidates.py::Choice.deviation",
            "plan/quantile_candidates.py::Choice.with_margins",
            "plan/quantile_candidates.py::list_choices",
            "plan/quantile_candidates.py::read_selection_share",
            "plan/top_measurement.py::TopMeasurement.kind",
            "plan/top_measurement.py::TopMeasurement.largest",
            "plan/top_measurement.py::TopMeasurement.laws",
            "plan/top_measurement.py::TopMeasurement.names",
            "plan/top_measurement.py::TopMeasurement.statistics",
            "plan/top_measurement.py::TopMeasurement.step",
            "query/group_totals.py::GroupingSets",
            "query/group_totals.py::Series.groups",
            "query/group_totals.py::_series",
            "query/group_totals.py::grouping_sets",
            "query/group_totals.py::get_series",
            "query/group_totals.py::shown_keys",
            "query/group_totals.py::get_totals",
            "transformations/grid.py::Grid.for_noise",
            "transformations/grid.py::Grid.steps_at_*",
            "transformations/grid.py::ValueGrid.around",
            "transformations/grid.py::ValueGrid.bounds",
            "transformations/grid.py::get_exponent",
            "transformations/statistics/*.py::*.divisible",
            "transformations/statistics/*.py::*._limits",
            "transformations/statistics/*.py::*._value_column",
            "transformations/statistics/*.py::*._no_cone",
            "transformations/statistics/statistic.py::cone_of",
            "transformations/statistics/statistic.py::body_in_all",
            "transformations/statistics/statistic.py::_limits",
            "transformations/statistics/weighted_sum.py::WeightGrid.up_to",
        ),
    ),
    Excluded(
        "Tails, variances and tolerances of noise, for error bars and accuracy",
        (
            "exact/outward_rounding.py::log_tail",
            "noise/k_norm/sampling.py::upper_tail",
            "noise/laws.py::*.variance",
            "noise/laws.py::DiscreteLaplace._*",
            "noise/laws.py::Law.__repr__",
            "noise/laws.py::Law._in_messages",
            "noise/laws.py::RoundedNoise",
            "noise/laws.py::_laplace",
            "noise/laws.py::_log_sinhc",
            "noise/series_noise.py::TreeLaplace.deviation",
            "plan/quantile_candidates.py::Places.reach",
            "plan/quantile_candidates.py::_errors",
            "plan/top_measurement.py::TopMeasurement.half_width",
        ),
    ),
    Excluded(
        "Post-processing, which sees only noisy numbers",
        (
            "measurements/stratified_survey.py::ProportionLimits",
            "measurements/stratified_survey.py::StratifiedProportion.*",
            "measurements/stratified_survey.py::_variances",
            "measurements/stratified_survey.py::sampling_exponent",
            "measurements/stratified_survey.py::stratified_estimate",
            "query/group_totals.py::Totals.agreed",
            "query/group_totals.py::_divide_total",
        ),
    ),
    Excluded(
        "Explanations, receipts, logs and notes, which name and describe a release",
        (
            "certificate/certificate.py::Proof.__repr__",
            "certificate/certificate.py::_fields",
            "certificate/certificate.py::_rounded_up",
            "certificate/certificate.py::as_certified",
            "certificate/certificate.py::checked",
            "certificate/certificate.py::digest",
            "certificate/certificate.py::main",
            "certificate/certificate.py::report",
            "engines/beam/beam_release.py::PlannedRelease.compare",
            "engines/beam/beam_release.py::PlannedRelease.explain",
            "engines/beam/beam_release.py::PlannedRelease.receipt",
            "engines/beam/beam_release.py::PlannedRelease.share_of_total",
            "engines/beam/beam_release.py::PlannedRelease.spent",
            "engines/beam/beam_release.py::PlannedTop.explain",
            "engines/beam/beam_release.py::PlannedTop.half_width",
            "engines/distributed_engine.py::DistributedEngine.content",
            "engines/distributed_engine.py::DistributedEngine.reads_zone",
            "engines/distributed_engine.py::DistributedEngine.titled",
            "engines/distributed_engine.py::DistributedEngine.titles",
            "engines/duckdb/column_types.py::_quoted_format",
            "engines/duckdb/column_types.py::_word",
            "engines/duckdb/column_types.py::as_option",
            "engines/duckdb/column_types.py::as_python",
            "engines/duckdb/column_types.py::as_toml",
            "engines/duckdb/column_types.py::inferred_note",
            "engines/duckdb/duckdb_engine.py::DuckDBEngine.addresses",
            "engines/duckdb/duckdb_engine.py::DuckDBEngine.content",
            "engines/duckdb/duckdb_engine.py::DuckDBEngine.files",
            "engines/duckdb/duckdb_engine.py::DuckDBEngine.inferred_types",
            "engines/duckdb/duckdb_engine.py::DuckDBEngine.notes",
            "engines/duckdb/duckdb_engine.py::DuckDBEngine.progress",
            "engines/duckdb/duckdb_engine.py::DuckDBEngine.reads_zone",
            "engines/duckdb/duckdb_engine.py::DuckDBEngine.titled",
            "engines/duckdb/duckdb_engine.py::DuckDBEngine.titles",
            "engines/duckdb/source_reader.py::Reader.progress",
            "query/tables/combined_tables.py::*.notes",
            "query/tables/table_part.py::unit_note",
            "query/tables/shaped_tables.py::*.notes",
            "release/payment.py::journaled",
            "release/payment.py::log_answered",
            "release/payment.py::log_planned",
            "release/payment.py::question_key",
            "release/payment.py::without_log",
            "transformations/statistics/*.py::*.content",
            "transformations/statistics/*.py::*.each_of",
            "transformations/statistics/*.py::*.note",
            "transformations/statistics/*.py::*.per_unit",
        ),
    ),
    Excluded(
        "For the owner of the rows, who may see exact numbers, or for dummy rows",
        (
            "engines/distributed_engine.py::DistributedEngine.contributions",
            "engines/distributed_engine.py::DistributedEngine.dummy",
            "engines/distributed_engine.py::DistributedEngine.for_analysts",
            "engines/duckdb/duckdb_engine.py::DuckDBEngine.contributions",
            "engines/duckdb/duckdb_engine.py::DuckDBEngine.dummy",
            "engines/duckdb/duckdb_engine.py::DuckDBEngine.for_analysts",
            "engines/duckdb/duckdb_engine.py::DuckDBEngine.made_up",
            "engines/duckdb/duckdb_engine.py::DuckDBEngine.on",
            "engines/duckdb/duckdb_engine.py::DuckDBEngine.rows",
            "engines/duckdb/source_reader.py::Reader.contributions",
            "engines/duckdb/source_reader.py::Reader.rows",
        ),
    ),
    Excluded(
        "Protocols, which have no code to run",
        (
            "engines/duckdb/databases.py::Reader",
            "query/engine_protocol.py::Engine",
            "query/engine_protocol.py::Evaluator",
            "query/tables/table_part.py::Reader",
        ),
    ),
    Excluded(
        "Separate tools, which no release of a table uses",
        (
            "exact/outward_rounding.py::log_bounds",
            "exact/outward_rounding.py::log1p_up",
            "exact/outward_rounding.py::round_bits",
            "exact/outward_rounding.py::integer_root",
            "measurements/candidate_selection.py::_noisy_max",
            "measurements/candidate_selection.py::accept_or_reject",
            "measurements/candidate_selection.py::check_k",
            "measurements/candidate_selection.py::exp_minus",
            "measurements/candidate_selection.py::exponential_mechanism",
            "measurements/candidate_selection.py::flip_in_order",
            "measurements/candidate_selection.py::limited_top_k",
            "measurements/candidate_selection.py::margin_for",
            "measurements/candidate_selection.py::permute_and_flip",
            "measurements/candidate_selection.py::random_order",
            "measurements/candidate_selection.py::top_k",
            "noise/random_words.py::FixedWords",
            "noise/random_words.py::SeededWords",
            "noise/random_words.py::_read_words",
            "noise/random_words.py::bernoulli",
            "plan/group_measurement.py::SideBySide",
            "transformations/stratified_design.py::_estimator",
            "transformations/stratified_design.py::make_*",
        ),
    ),
    Excluded(
        "Parsing: reads or assembles a query, which the base validates",
        (
            "dialect/syntax_tree.py::_iter_children",
            "dialect/syntax_tree.py::aggregates",
            "dialect/syntax_tree.py::get_byte_offset",
            "dialect/syntax_tree.py::get_column_name",
            "dialect/syntax_tree.py::fresh",
            "dialect/syntax_tree.py::in_scope",
            "dialect/syntax_tree.py::is_aggregate",
            "dialect/syntax_tree.py::rewrite_tree",
            "dialect/syntax_tree.py::shape",
            "dialect/syntax_tree.py::unknown",
            "dialect/sql_tokens.py::Cursor",
            "dialect/sql_tokens.py::Literal",
            "dialect/sql_tokens.py::brackets",
            "dialect/sql_tokens.py::positive",
            "dialect/sql_tokens.py::statements",
            "dialect/sql_tokens.py::tokenize",
            "engines/distributed_engine.py::DistributedEngine.unit_local",
            "engines/duckdb/duckdb_engine.py::DuckDBEngine.unit_local",
            "engines/duckdb/file_paths.py::is_path",
            "engines/duckdb/resources.py::_folder",
            "engines/duckdb/resources.py::_memory_bytes",
            "engines/duckdb/resources.py::check_resources",
            "engines/duckdb/resources.py::refuse_resources",
            "engines/duckdb/sources.py::guesses",
            "engines/duckdb/sources.py::takes_types",
            "engines/duckdb/sources.py::empty_source",
            "query/schema.py::Column.entries",
            "query/schema.py::Column.length",
            "query/schema.py::Column.values",
            "query/schema.py::check_expression",
            "query/schema.py::match_name",
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
        ValueError: a module, or a definition, is in two parts.
    """
    whole: set[str] = set()
    found: dict[str, tuple[str, ...]] = {}
    for part in BASE:
        for module, names in of_part(part).items():
            if (module in whole and not names) or set(names) & set(found.get(module, ())):
                raise ValueError(f"{module} is in two parts")
            whole |= {module} if not names else set()
            found[module] = (*found.get(module, ()), *names)
    return found | dict.fromkeys(whole, ())


@cache
def definitions(module: str) -> dict[str, ast.AST]:
    """Return the definitions of a module, and those in its classes, by name."""
    found: dict[str, ast.AST] = {}

    def look(node: ast.AST, inside: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{inside}{child.name}"
                found[name] = child
                if isinstance(child, ast.ClassDef):
                    look(child, f"{name}.")
            elif isinstance(child, ast.If | ast.Try):
                look(child, inside)

    look(ast.parse((PACKAGE / module).read_text()), "")
    return found


@cache
def of_excluded(one: Excluded) -> tuple[tuple[str, str], ...]:
    """Return the definitions of a line of `EXCLUDED`: their modules and names.

    Raises:
        ValueError: a pattern has none in the base.
    """
    found: list[tuple[str, str]] = []
    for pattern in one.definitions:
        path, _, name = pattern.partition("::")
        paths = fnmatch.filter([module for module, names in base().items() if not names], path)
        new = [(module, d) for module in paths for d in fnmatch.filter(definitions(module), name)]
        if not new:
            raise ValueError(f"{one.why}: there is no {pattern}")
        found += new
    return tuple(found)


@cache
def excluded(module: str) -> frozenset[str]:
    """Return the definitions of a module of the base that do not count."""
    return frozenset(name for one in EXCLUDED for found, name in of_excluded(one) if found == module)


def counts(module: str, name: str) -> bool:
    """Return whether a definition, or what is in one, counts for the base."""
    if (taken := base().get(module)) is None:
        return False
    around = {name[:end] for end in (*(i for i, c in enumerate(name) if c == "."), len(name))}
    return not around & excluded(module) and (not taken or bool(around & set(taken)))


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
    """Count the lines of code of a part, without what other parts take by name and what is excluded."""
    counted = 0
    for module, names in of_part(part).items():
        if names:
            counted += code_lines(module, names)
            continue
        others = {name for other in BASE if other is not part for name in of_part(other).get(module, ())}
        less = tuple(sorted(others | excluded(module)))
        counted += code_lines(module) - (code_lines(module, less) if less else 0)
    return counted


def total(*used: str) -> int:
    """Count the lines of code of all parts, or of those that are used in these releases."""
    return sum(lines_of(part) for part in BASE if not used or part.used in used)


def largest() -> int:
    """Count the lines that the largest release of Parquet files or Arrow tables on one machine rests on.

    Noise is of one kind, so that K-norm noise and noise of totals are never in one release.
    """
    return max(total(*(use for use in ON_ONE_MACHINE if use != other)) for other in (TOTALS, K_NORM))


def table() -> str:
    """Return the tables of the page."""
    rows = ["| part | what must be right | runs in | files | lines | tests |", "|---|---|---|---|---|---|"]
    for part in BASE:
        files = "; ".join(_file(module, names) for module, names in of_part(part).items())
        tests = ", ".join(f"`{test}`" for test in part.tests)
        rows.append(f"| {part.name} | {part.right} | {part.used} | {files} | {lines_of(part):,} | {tests} |")
    rows += [f"| **all** | | | {len(base())} files | **{total():,}** | |", ""]
    plain = "counts, sums, means and variances, with Laplace or Gaussian noise,"
    rows.append(
        f"A release of Parquet files or Arrow tables on one machine rests on at most {largest():,} of these "
        "lines, because K-norm noise and noise of totals never occur together. "
        f"A release of {plain} rests on {total('all'):,}."
    )
    why = ["| not in the base | modules |", "|---|---|"]
    for one in APART:
        count = sum(m not in base() and apart(m) is one for m in modules())
        why.append(f"| {one.why} | {count:,} |")
    less = ["| in modules of the base, but not counted | definitions | lines |", "|---|---|---|"]
    for line in EXCLUDED:
        found = of_excluded(line)
        lines = sum(code_lines(m, tuple(n for o, n in found if o == m)) for m in {m for m, _ in found})
        less.append(f"| {line.why} | {len(found):,} | {lines:,} |")
    return "\n".join([*rows, "", *less, "", *why])


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
