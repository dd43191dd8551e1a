"""Names that newcomers bring along, from other libraries and from SQL, and what stands here in their place.

Data alone. A name is not made an alias: one thing has one name, and the message teaches it.
"""

from __future__ import annotations

from collections.abc import Mapping


def said(entries: Mapping[str, str]) -> dict[str, str]:
    """Return advice by each name, of advice by names in one line; that by none is for all others."""
    return {name: advice for names, advice in entries.items() for name in names.split() or [""]}


# What others call our aggregates: pandas, Polars, NumPy, Spark, SQL, OpenDP, Tumult, PipelineDP, ...
AGGREGATES: dict[str, str] = said(
    {
        "len length size n_rows nrow num_rows row_count count_rows Count COUNT dp_count": "count",
        "countif countIf count_where sum_if": "count_if",
        "privacy_id_count PrivacyIdCount count_users count_user count_people count_persons count_ids "
        "num_users distinct_users unique_users": "count_units",
        "nunique n_unique count_unique distinct_count countDistinct approx_count_distinct "
        "approx_n_unique": "count_distinct",
        "total Sum SUM dp_sum add_up": "sum",
        "avg average Mean AVG nanmean dp_mean": "mean",
        "var Variance VAR var_pop var_samp nanvar": "variance",
        "std stdev std_dev standard_deviation StdDev STDDEV stddev_pop stddev_samp nanstd": "stddev",
        "percentile percentile_cont percentile_approx approx_percentile approx_quantile nanquantile": (
            "quantile"
        ),
        "percentiles Percentile approx_quantiles describe": "quantiles",
        "Median nanmedian": "median",
        "minimum": "min",
        "maximum": "max",
        "hist hist2d histogramdd bins cut": "histogram",
        "freq frequencies crosstab counts_by_value": "value_counts",
        "share percent rate": "proportion",
        "cov covar covar_pop": "covariance",
        "corr corrcoef pearson": "correlation",
        "LinearRegression linreg regression ols lm regr_slope": "linear_regression",
        "cumsum cum_sum running_total": "cumulative",
        "VectorSum": "vector_sum",
    }
)
# Those of which an example tells more than the name.
_EXAMPLES = {
    "count": "count()",
    "count_if": 'count_if("employed")',
    "count_units": "count_units()",
    "count_distinct": 'count_distinct("town", values=3)  # at most 3 values of a unit in each group',
    "quantile": 'quantile("age", 0.9, lower=0, upper=100)',
    "quantiles": 'quantiles("age", [0.25, 0.75], lower=0, upper=100)',
    "histogram": 'histogram("age", [0, 18, 65, 120])',
    "value_counts": 'value_counts("town", ["A", "B"])',
    "proportion": 'proportion("employed")',
    "covariance": 'covariance("age", "wage", bounds={"age": (0, 100), "wage": (0, 9000)})',
    "correlation": 'correlation("age", "wage", bounds={"age": (0, 100), "wage": (0, 9000)})',
    "linear_regression": 'linear_regression("wage", ["age"], bounds={"age": (0, 100), "wage": (0, 9000)})',
    "cumulative": 'cumulative(sf.count(), over="week")',
    "vector_sum": 'vector_sum("steps", length=7, bound=1)',
}
_OF_A_COLUMN = ("sum", "mean", "median", "variance", "stddev", "min", "max")


def example(aggregate: str) -> str:
    """Return a call of one of our aggregates, as an example.

    >>> example("mean")
    'sf.mean("age", lower=0, upper=100)'
    """
    return "sf." + _EXAMPLES.get(aggregate, f'{aggregate}("age", lower=0, upper=100)')


_NO_OTHERS = {
    "mode": "there is no private mode; the largest groups are asked for by top",
    "first last any_value arg_max arg_min idxmax idxmin nlargest nsmallest array_agg string_agg "
    "group_concat collect_list implode": "it shows the values of single rows, and has no private form",
    "skew skewness kurt kurtosis": "there is no private form of it here; mean and variance have one",
}
NO_AGGREGATES: dict[str, str] = said(_NO_OTHERS)

_SCAN = 'write sf.scan("visits.csv", privacy_unit="id")'
MODULE = (
    {name: f"write {example(ours)}" for name, ours in AGGREGATES.items()}
    | NO_AGGREGATES
    | said(
        {
            (
                "read_csv read_parquet read_json read_excel read_table read_ndjson read_database "
                "scan_csv scan_parquet scan_ndjson scan_delta from_pandas from_polars from_arrow "
                "from_dataframe from_df from_dict open load load_csv read read_file table"
            ): _SCAN,
            "DataFrame LazyFrame Dataset Frame PrivateReader PrivateTable Context context compositor": _SCAN,
            "Session from_dataframes": f"{_SCAN}, or sf.catalog for many tables",
            "QueryBuilder Query DPEngine dp_engine": (
                'begin with a table: sf.scan("visits.csv", '
                'privacy_unit="id").group_by("town").bound(groups=1, rows=1).agg(n=sf.count())'
            ),
            "AggregateParams Metrics": (
                "what is asked are arguments here: agg(n=sf.count()), and bound(groups=..., rows=...)"
            ),
            "DataExtractors": "columns are named as text, and derived with with_columns",
            "KeySet keyset public_partitions": 'write group_by("town", keys=["A", "B"])',
            "MaxRowsPerID MaxGroupsPerID MaxRowsPerGroupPerID Constraint": (
                "write bound(groups=..., rows=...)"
            ),
            "AddRowsWithID AddOneRow AddMaxRows PrivacyUnit privacy_unit_of unit_of Privacy": "write "
            'sf.scan(source, privacy_unit="id"), with the column that tells whose a row is',
            (
                "PureDPBudget ApproxDPBudget RhoZCDPBudget NaiveBudgetAccountant PLDBudgetAccountant "
                "BudgetAccountant Accountant PrivacyAccountant loss_of privacy_loss"
            ): "write sf.Budget(epsilon=3, delta=1e-6)",
            (
                "Laplace Gaussian LaplaceMechanism GaussianMechanism laplace_mechanism "
                "gaussian_mechanism make_laplace make_gaussian then_laplace then_gaussian laplace "
                "gaussian NoiseKind"
            ): 'noise is chosen in release(epsilon=1, noise="laplace"); '
            "its laws are in sfumato.noise, its mechanisms in sfumato.measurements",
            "mechanisms Mechanism meas measurement": "mechanisms are in sfumato.measurements",
            "trans transformation": "transformations are in sfumato.transformations",
            "enable_features": "nothing needs to be enabled here",
            "col lit expr F when": (
                'expressions are SQL, as text: filter("age >= 25"), with_columns(decade="age // 10")'
            ),
            "read_sql read_sql_query query execute sql_query": (
                'write sf.sql("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (...) ...")'
            ),
            "": (
                "tables are opened by scan, sql and catalog, and asked with count, sum, mean and "
                "others: dir(sfumato)"
            ),
            (
                "noise testing audit snapping transformations measurements framework client errors beam spark"
            ): ("it is a module of its own: write import sfumato.noise, sfumato.testing, ..."),
            "connect": "a service is asked by sfumato.client.connect; a table is opened by sf.scan",
            "audit_mechanism": "write sfumato.audit.audit(...)",
            "to_csv save export": "a release writes itself: .release(epsilon=1).write('table.csv')",
        }
    )
)

_ROWS_SHOWN = (
    "rows of a private table are not shown; ask with agg(...) and release(epsilon=...), "
    "and see names and types of its columns in .schema"
)
_GROUPED = 'write group_by("town")'
_DERIVED = 'write with_columns(decade="age // 10")'
_LIMITS = "write bound(groups=3, rows=1)"
_LATER = "sort, and cut, the table that is released: release(...).to_pandas()"
TABLE = said(
    {
        "where query filter_rows loc WHERE": 'write filter("age >= 25")',
        "having": "groups are released with noise; take those that matter from the released table",
        "groupby groupBy group partition_by groupby_public_source group_by_partition GROUP_BY by "
        "group_by_dynamic": _GROUPED,
        "pivot pivot_table crosstab unstack rollup cube": 'write group_by("town", "year"), with totals() for '
        "totals, and pivot the released table",
        "keyset": 'write group_by("town", keys=["A", "B"])',
        "with_column withColumn assign mutate map apply map_rows transform eval add_column set insert "
        "rename withColumnRenamed rename_columns astype cast fillna fill_null replace": _DERIVED,
        "select project drop loc_columns": (
            "columns need not be chosen: agg(...) reads those that it names; new ones are made by "
            'with_columns(decade="age // 10")'
        ),
        "dropna drop_nulls drop_nans": (
            'write filter("age IS NOT NULL"); rows without a value count in no sum'
        ),
        "isin between str dt": "write it in an expression of SQL: filter(\"town IN ('A', 'B')\")",
        "aggregate aggregation summarize summarise aggregate_by": "write agg(n=sf.count())",
        "enforce bounds limits limit_contributions bound_contributions clip_contributions "
        "truncate_per_group contribution_bounds max_contributions constrain": _LIMITS,
        "clamp clip clamping_bounds": 'bounds of values are arguments of an aggregate: agg(m=sf.mean("age", '
        "lower=0, upper=100))",
        (
            "head tail show display first last take limit_rows collect to_pandas toPandas "
            "to_polars to_arrow to_dict to_list tolist to_numpy to_csv write write_csv "
            "write_parquet save fetch fetchall fetchone iloc at iat values info shape "
            "columns_values glimpse print itertuples iterrows rows_of iter_rows df pl arrow"
        ): _ROWS_SHOWN,
        "columns dtypes types column_names printSchema collect_schema": "names and types of columns are in "
        ".schema",
        "sort sort_values order_by orderBy arrange limit nlargest nsmallest ORDER_BY reset_index": _LATER,
        "sample tablesample": "rows are bounded per privacy unit, not sampled",
        "distinct unique drop_duplicates dedup": "write per_unit(rows='count(*)') for one row of each "
        'privacy unit, or ask sf.count_distinct("town", values=3)',
        "merge left_join inner_join join_public join_private cross_join": 'write join(other, on="id")',
        "concat union_all unionAll append vstack extend": "write union(other)",
        "release evaluate execute run compute": (
            "say first what is asked: agg(n=sf.count()).release(epsilon=1)"
        ),
        "laplace gaussian add_noise noise": 'noise is added by release(epsilon=1, noise="laplace")',
        "epsilon delta budget privacy privacy_budget": "it is said in release(epsilon=1, delta=1e-6)",
        "preview explain plan": "say first what is asked: agg(n=sf.count()).preview(epsilon=1)",
        "alias": "names are given in agg(n=sf.count())",
        "": "it has filter, with_columns, join, union, per_unit, group_by, bound, agg and top",
    }
)
# Aggregates that are asked of a table as of a frame.
ASKED = NO_AGGREGATES | {
    name: f"it is asked in agg, and answered with noise: agg(x={example(ours)}).release(epsilon=1)"
    for name, ours in (AGGREGATES | {name: name for name in (*_EXAMPLES, *_OF_A_COLUMN)}).items()
}
INDEXED = (
    'a table is asked, and not looked into: rows are chosen by filter("age >= 25"), and a '
    'column is asked of by agg(m=sf.mean("age", lower=0, upper=100))'
)
_RELEASED = (
    "release(epsilon=1) comes first; what it gives has to_pandas(), to_polars(), to_arrow() and write(path)"
)
QUESTION = said(
    {
        "": (
            "release(epsilon=1) gives the answer, preview(epsilon=1) what to expect, plan(epsilon=1) the cost"
        ),
        "agg aggregate": "all aggregates stand in one agg(n=sf.count(), m=...)",
        "filter where group_by groupby bound with_columns join": (
            "it comes before agg(...), which ends a question"
        ),
        "having order_by sort limit head sort_values": _LATER,
        "collect run execute evaluate compute fetch answer result results get go": "write release(epsilon=1)",
        "to_pandas to_polars to_arrow to_csv write show head toPandas errors receipt": _RELEASED,
        "summarize summarise summary explain cost price describe accuracy error": (
            "write preview(epsilon=1), which says what to expect, or plan(epsilon=1), which says "
            "what it costs"
        ),
        "laplace gaussian noise": 'write release(epsilon=1, noise="laplace")',
        "epsilon delta budget": "it is said in release(epsilon=1, delta=1e-6)",
    }
)
RELEASE = said(
    {
        "": "numbers are in to_pandas(), to_polars() and to_arrow(), their error bars in errors()",
        "to_df to_dataframe df toPandas pandas collect show head tail display data values result table rows "
        "fetchall compute": "write to_pandas(), to_polars() or to_arrow()",
        "to_csv to_parquet to_json write_csv write_parquet save export to_excel": (
            "a file is made by write('table.csv'), or .parquet, .json or .xlsx"
        ),
        "filter where group_by groupby sort sort_values order_by join select agg": (
            "compute with what to_pandas() gives: it is noisy already, and costs nothing more"
        ),
        "error accuracy confidence_interval confidence_intervals intervals ci std stderr": "write "
        "errors(confidence=0.95)",
        "epsilon delta cost budget loss privacy_loss": "what it cost is in .spent",
        "summary describe info summarize": "write explain()",
        "exact true raw unnoised without_noise exact_values": "exact numbers are not shown by any release",
        "release": "this is a release; its numbers are in to_pandas()",
    }
)
BUDGET = said(
    {
        "": "it has total, spent, remaining, history and spend(epsilon, delta)",
        "left balance available rest remaining_budget": "what is left is in .remaining",
        "epsilon delta limit cap": "all of it is in .total, what is left in .remaining",
        "used consumed spent_budget": "what is spent is in .spent",
        "charge pay consume deduct use withdraw": "release(epsilon=..., budget=budget) pays by itself; other "
        "losses are entered by spend(epsilon, delta)",
        "log entries ledger queries": "what was paid is in .history",
    }
)
AGGREGATE = said({"alias name rename": "names are given in agg(n=sf.count())"})

# Names of arguments: what they are here. Of several, those that a function has.
ARGUMENTS: Mapping[str, str] = said(
    {
        "eps privacy_budget epsilon_budget total_epsilon eps_ privacy_loss": "epsilon",
        "rho mu zcdp": "epsilon and delta",
        "total_delta": "delta",
        "lower upper": "bounds",
        "privacy_id privacy_id_column privacy_unit_column unit id id_column user_id userid uid user person "
        "privacy_key row_id owner privacy_unit_id anonymization_userid_column": "privacy_unit",
        (
            "group max_groups max_groups_contributed max_partitions_contributed max_partitions "
            "partitions l0 max_groups_per_id max_num_partitions kappa influenced_by "
            "max_contributions group_limit num_groups"
        ): ("groups"),
        "row max_rows max_rows_per_group max_contributions_per_partition per_group max_rows_per_id linf "
        "contributions_per_group row_limit": "rows",
        "max_rows_contributed max_contributions_total": "total_rows",
        "bounds bound clamp clamping_bounds clip range limits interval min_max contribution_bounds "
        "contribution_bounds_per_row contribution_bounds_per_group domain": "lower and upper",
        "low lo min minimum min_value lower_bound lb a lower_limit": "lower",
        "high hi max maximum max_value upper_bound ub b upper_limit": "upper",
        "q p percentile quantile level alpha prob": "rank",
        "qs percentiles quantiles alphas levels": "ranks",
        "bins buckets breaks breakpoints": "edges",
        "categories domain_values choices public_values": "values",
        "keyset key public_keys public_partitions domains groups_list": "keys",
        "mechanism noise_kind noise_type noise_mechanism mech": "noise",
        "selection partition_selection partition_selection_strategy group_selection_strategy": (
            "group_selection"
        ),
        "accountant ledger privacy_accountant budget_accountant": "budget",
        "k_threshold threshold min_count min_privacy_units_per_group": "pre_threshold",
        "weights w sample_weight": "weight",
        "schema dtypes dtype schema_overrides": "types",
        "col name field": "column",
        "path file filename filepath data df frame table": "source",
        "left_on right_on by using": "on",
        "level_of_confidence conf ci confidence_level": "confidence",
    }
)
OF_RELEASE = ("epsilon", "delta", "noise", "budget", "share", "group_selection", "diagnostics")
# Arguments that belong elsewhere, or nowhere.
ELSEWHERE = said(
    {
        " ".join(OF_RELEASE): "it is an argument of release(epsilon=1, delta=1e-6), in SQL an option",
        "lower upper bounds": (
            'bounds of values are arguments of an aggregate: sf.mean("age", lower=0, upper=100)'
        ),
        "groups rows total_rows": "limits are arguments of bound(groups=3, rows=1)",
        "privacy_unit": "it is an argument of scan",
        "keys": 'they are an argument of group_by("town", keys=["A", "B"])',
        "seed random_state rng random_seed": "noise is drawn from a secure source, and has no seed",
        "ddof": "the divisor is the count, not the count less one",
        "as_index sort dropna observed": "the released table has the groups as columns, in order",
        "distinct": "different values are counted by sf.count_distinct(column, values=...)",
        "condition where if_ filter": (
            "rows are chosen by filter before, or a column is derived by with_columns"
        ),
        "sensitivity l1_sensitivity l2_sensitivity scale sigma": "it follows from bounds, limits and epsilon",
        "index_col header sep delimiter usecols": "files of CSV are read as they are; types={...} says types",
    }
)
# Functions of columns, of which one is made where it is used elsewhere.
NAMED_FIRST = {
    "group_by": 'an expression is named first, with_columns(decade="age // 10"), and grouped by as "decade"'
}

# How a function is called: an example where it has one.
FORMS = {name: example(name) for name in (*_EXAMPLES, *_OF_A_COLUMN)} | {
    "filter": 'filter("age >= 25")',
    "with_columns": 'with_columns(decade="age // 10")',
    "group_by": 'group_by("town", "year")',
    "bound": "bound(groups=3, rows=1)",
    "agg": "agg(n=sf.count())",
    "top": 'top("town", k=10)',
    "per_unit": 'per_unit(spent="sum(price)")',
    "join": 'join(other, on="id")',
    "union": "union(other)",
    "release": "release(epsilon=1, delta=1e-6)",
    "plan": "plan(epsilon=1, delta=1e-6)",
    "preview": "preview(epsilon=[0.5, 1], units=1000)",
    "epsilon_for": "epsilon_for(n=10, units=1000)",
    "scan": 'sf.scan("visits.csv", privacy_unit="id")',
    "public": 'sf.public("towns.csv")',
    "sql": 'sf.sql("SELECT WITH DIFFERENTIAL_PRIVACY ...", tables={"visits": visits})',
    "catalog": 'sf.catalog("catalog.toml")',
    "Budget": "sf.Budget(epsilon=3, delta=1e-6)",
    "Ledger": 'sf.Ledger("budget.db")',
}

# Commands and options of the command line.
COMMAND_LINE = said(
    {
        "query run ask select execute release": 'write sfumato sql "SELECT ..."',
        "preview dry-run plan cost": 'write sfumato sql --preview "SELECT ..."',
        "explain": 'write sfumato sql --explain "SELECT ..."',
        "server start": "write sfumato serve catalog.toml",
        "ledger": "write sfumato budget",
        ("--epsilon --eps --delta --privacy-unit --unit --noise --groups"): (
            "it is an option of the question: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = "
            "1, delta = 1e-6, privacy_unit_column = id)"
        ),
        ("--input --source --data --csv --from --db"): (
            "the source stands in the question, FROM 'file.parquet', or is named by --table NAME=PATH"
        ),
        ("--out --save --export --format --csv-out --to"): (
            "write --output table.csv, or .parquet, .json or .xlsx"
        ),
        "--query --sql --text": "the SQL is given by itself, or by --file query.sql",
        "--seed": "noise is drawn from a secure source, and has no seed",
        "--budget": "write --ledger budget.db --dataset NAME",
    }
)
