"""Faults of SQL: what a query asks for."""

from tests.faults.fault import Fault

HERE = "tests/dialect/"
JOINS, INSIDE, OUTSIDE, SQL, CATALOG = (
    f"{HERE}test_{name}.py" for name in ("joins", "inside", "outside", "sql", "sql_catalog")
)
LARGEST, SEVERAL, OVERLOADS = (f"{HERE}test_{name}.py" for name in ("largest", "several", "overloads"))
COMPUTED = f"{HERE}test_computed_bars.py"
COUNTED = f"{JOINS}::test_what_is_counted_is_what_duckdb_joins"
ROWS, UNIT_LOCAL = (
    f"{INSIDE}::test_rows_are_those_of_duckdb",
    f"{INSIDE}::test_what_is_not_unit_local_is_refused",
)
REFUSALS = f"{OUTSIDE}::test_refusals"
SAME, FLUENT = f"{CATALOG}::test_the_same_question", f"{SQL}::test_bigquery_equals_fluent"
LIMITS = f"{HERE}test_joins.py::test_every_join_of_a_text_has_its_limit"

SELECTED = "tests/dialect/test_selected_rows.py"
FAULTS = [
    # FROM: tables and joins.
    Fault("of several conditions of ON one counts", "dialect/from_clause.py",
          'for child in condition["children"] for', 'for child in condition["children"][:1] for', COUNTED),
    Fault("ON takes any comparison for equality", "dialect/from_clause.py",
          'if part["type"] != "COMPARE_EQUAL" or any(', "if any(", f"{JOINS}::test_what_is_refused"),
    Fault("a limit of joined rows is forgotten", "dialect/joined_tables.py",
          "how=one.how, unit_rows=joined_rows)", "how=one.how)", LIMITS),
    Fault("a column that only a join needs stays", "dialect/joined_tables.py",
          "    if not hidden:\n", "    if True:\n",
          f"{JOINS}::test_no_name_means_a_column_that_only_a_join_needs"),
    Fault("the owner's limit of joined rows is forgotten", "dialect/options_clause.py",
          "return most if number is None else number", "return number", LIMITS),
    # SELECTs inside: each row is of one unit.
    Fault("a column of two tables inside is the first one's", "dialect/subquery_columns.py",
          "if len(found) > 1 and name not in self.merged:", "if False:", UNIT_LOCAL),
    Fault("a unit is followed through a left join", "dialect/subquery_columns.py",
          '(mine.table or "").casefold() == table and one.how == "inner":', '(mine.table or "").casefold() == table:', UNIT_LOCAL),
    Fault("bounds of one SELECT of a union are those of all", "dialect/subquery_columns.py",
          "name=private.name, columns=())", "name=private.name)", f"{INSIDE}::test_what_is_declared_of_a_column_is_its_own_tables"),
    Fault("limits of joined private tables are forgotten", "dialect/subquery_columns.py",
          "return replace(found.joined_with(private), name=names", "return replace(found, name=names",
          f"{JOINS}::test_joins_of_a_catalog_know_the_bounds_domains_and_limits_of_all_tables"),
    Fault("LIMIT inside is left out", "dialect/subquery_select.py",
          'if one["type"].startswith("LIMIT"):', 'if one["type"].startswith("LIMIT"):\n                continue\n            if False:', UNIT_LOCAL),
    Fault("DISTINCT inside is left out", "dialect/subquery_select.py",
          "self.table = distinct_rows(self.table)", "pass", ROWS),
    Fault("a window inside sees rows of several units", "dialect/window_functions.py",
          '    if unit not in [get_column_name(part) for part in node["partitions"]]:\n', "    if False:\n", UNIT_LOCAL),
    Fault("NULLS FIRST of a window is left out", "dialect/window_functions.py",
          '_NULLS[one["null_order"]]', '" NULLS LAST"', ROWS),
    Fault("units of two types are cast", "dialect/subqueries.py",
          "    if name == table.unit:\n        raise query.refuse(", "    if False:\n        raise query.refuse(",
          f"{INSIDE}::test_a_unit_is_of_one_type_in_all_selects"),
    # The private SELECT: keys, filters, limits.
    Fault("WHERE is left out", "dialect/binder.py",
          "if statement.where is None or statement.has_condition_tree\n", "if True\n", FLUENT.replace("bigquery_equals_fluent", "whole_example")),
    Fault("WHERE with a subquery is left out", "dialect/sql_query.py",
          "table = subqueries.filtered(table, self.looked_up, self.names, self.tables)", "pass",
          f"{INSIDE}::test_a_private_select_of_them_answers_as_plain_sql"),
    Fault("tables that WHERE looks up are not named", "dialect/sql_query.py",
          "waiting += [source for _, source in iter_tables(self.looked_up, self.names)]", "pass", f"{INSIDE}::test_all_tables_that_are_read_are_named"),
    Fault("a unit is in ten groups unless told", "dialect/binder.py",
          "return groups or 1", "return groups or 10", f"{CATALOG}::test_notes_say_what_came_from_the_catalog"),
    Fault("a limit passes the owner's", "dialect/options_clause.py",
          "if self.declared is not None and limit is not None and number > limit:", "if False:", f"{CATALOG}::test_refused_with_its_place"),
    Fault("rows of all groups are limited by the owner's larger limit", "dialect/options_clause.py",
          "self.whole(key, min((limit", "self.whole(key, max((limit", f"{CATALOG}::test_refused_with_its_place"),
    Fault("a COUNT has more rows than the owner's limit", "dialect/aggregate_arguments.py",
          "declared.max_rows is not None and rows > declared.max_rows:", "declared.max_rows is not None and False:", f"{CATALOG}::test_refused_with_its_place"),
    Fault("a key hides the column that is aggregated", "dialect/sql_query.py",
          "            late.append((final, now))\n", "            early.append((final, now))\n", f"{SQL}::test_a_key_may_hide_a_source_column"),
    Fault("a public group of NULL has rows", "dialect/sql_query.py",
          "        if column.null_count:\n", "        if False:\n", f"{SEVERAL}::test_null_equals_nothing"),
    Fault("private groups need no delta", "dialect/binder.py",
          "if keys and private and not Fraction(options.delta or 0):", "if False:", f"{SQL}::test_refusals"),
    # Aggregates: which one, and what bounds mean.
    Fault("FILTER counts all rows", "dialect/aggregate_arguments.py",
          'THEN {value} END")', 'THEN {value} ELSE {value} END")', f"{OUTSIDE}::test_answers_are_those_of_plain_sql"),
    Fault("bounds of a row are those of a unit", "dialect/aggregate_arguments.py",
          'return low, high, "row" if bounds.kind == "contribution_bounds_per_row" else "unit"', 'return low, high, "unit"', FLUENT),
    Fault("bounds of a catalog are those of a unit", "dialect/aggregate_arguments.py",
          'return *known, "row"', 'return *known, "unit"', SAME),
    Fault("different values are counted as units", "dialect/aggregate_arguments.py",
          "if column is None or column.casefold() != self.unit.casefold():", "if column is None:", f"{SQL}::test_different_values"),
    Fault("units take away from sums of private groups", "dialect/top_groups.py",
          "if bounds is not None and Fraction(bounds.lower.text) < 0:", "if False:", f"{LARGEST}::test_wrong_calls_are_refused_in_words"),
    Fault("the largest groups are shown with numbers that are not wanted", "dialect/top_groups.py",
          "return Largest(k, number, shown,", "return Largest(k, number, True,", f"{LARGEST}::test_options_of_the_release"),
    # Outside: released tables, public ones, and nothing else.
    Fault("what is outside is not checked", "dialect/binder.py",
          "    if outside is not None:\n", "    if False:\n", REFUSALS),
    Fault("a name of WITH hides a table outside of its SELECT", "dialect/syntax_tree.py",
          "scope.subtract(one)", "pass", REFUSALS),
    Fault("other tables are read outside", "dialect/post_processing_sql.py",
          "    return f\"{name} is another table: {_WITHIN}. {f'Did you mean {near}?' if near else _DECLARED}\"", '    return ""', REFUSALS),
    Fault("any function is called outside", "dialect/post_processing_sql.py",
          " or name not in functions().enclosing:", ":", REFUSALS),
    Fault("functions that change between calls may be called", "dialect/overloads.py",
          'return self.stability == "CONSISTENT" or (', "return True or (", f"{OVERLOADS}::test_a_function_that_became_volatile_is_refused_by_name"),
    Fault("overloads that nobody tried may be called", "dialect/overloads.py",
          "and one.is_consistent and one.signature in tried[name]", "and one.is_consistent", f"{OVERLOADS}::test_a_new_overload_is_refused_by_name"),
    Fault("rows of SQL that adds up have the bars of one row", "dialect/post_processing_sql.py",
          " or (called and not known.known.get(name))", "", f"{COMPUTED}::test_rows_of_several_released_rows_have_no_bars"),
    Fault("bars are around the number before it is rounded", "release/processed_release.py",
          "_numbers(bar) + apart", "_numbers(bar)", f"{COMPUTED}::test_bars_of_a_formula_reach_both_ends"),
    Fault("sums over rows that noise selects have bars", "dialect/linear_columns.py",
          "if not all(map(scope.is_public, deciding)) or", "if", f"{COMPUTED}::test_rows_of_several_released_rows_have_no_bars"),
    Fault("a filter changes no weights", "dialect/linear_columns.py",
          '{"filter": kept}', '{"filter": known}', f"{COMPUTED}::test_sums_over_rows_have_the_law_of_their_noise"),
    Fault("sums over rows have equal weights", "release/linear_bars.py",
          "_add(whole, form, weights[place])", "_add(whole, form)", f"{COMPUTED}::test_sums_over_rows_have_the_law_of_their_noise"),
    # Words.
    Fault("a comment in a comment ends both", "dialect/sql_tokens.py",
          '(1 if found[0] == "/*" else -1)', '(1 if found[0] == "/*" and not depth else -1)', f"{HERE}test_words.py::test_words"),
    # Rows that noise selects.
    Fault("a limit by noisy numbers selects nothing", "engines/duckdb/post_processing.py",
          'deciding += [one["expression"] for one in modifiers.get("ORDER_MODIFIER", {}).get("orders", ())]', "pass", f"{SELECTED}::test_what_selects_rows_by_noise"),
    Fault("bars of selected rows hold one by one", "release/release.py",
          "if bars.simultaneous or bars.selected else 1", "if bars.simultaneous else 1", f"{SELECTED}::test_bars_of_selected_rows_hold_for_all_that_they_are_selected_from"),
    Fault("a qualified key is read as an alias", "dialect/group_keys.py",
          "for key in [shape] if len(expression.tokens) > 1 else [(False, name), shape, (True, name)]:",
          "for key in ((False, name), shape, (True, name)):", "tests/dialect/test_outside.py"),
]  # fmt: skip
