"""Faults of sources: which rows are read, and as which values."""

from tests.faults.fault import Fault

ENGINE = "engines/duckdb/"
TESTS = "tests/engines/"
HOSTILE = TESTS + "test_hostile_sources.py"
PARQUET = TESTS + "test_broken_values.py"
TEXT = TESTS + "test_text_files.py"
FILES = TESTS + "test_hostile_files.py"
DATABASES = TESTS + "test_databases.py"
ZONES = TESTS + "test_timezones.py"

FAULTS: list[Fault] = [
    # Values that a type cannot hold.
    Fault("one text that is not UTF-8 makes all of its batch NULL", ENGINE + "sanitized_columns.py",
          "    elif len(column) == 1:\n        yield pa.nulls(1, column.type)", "    elif len(column):\n        yield pa.nulls(len(column), column.type)", f"{HOSTILE}::test_text_that_is_not_utf8"),
    Fault("infinite times in milliseconds are missing", ENGINE + "sanitized_columns.py",
          "infinite = (values == 2**63 - 1) | (values == 1 - 2**63) if is_time else", "infinite = values == 2**63 if is_time else", f"{PARQUET}::test_other_values_are_the_same_when_read_again"),
    Fault("dates of all calendars are read", ENGINE + "sanitized_columns.py",
          "{time} BETWEEN {span} OR NOT isfinite", "{time} IS NOT NULL OR NOT isfinite", f"{HOSTILE}::test_times_beyond_every_calendar"),
    Fault("times of day beyond the day are read", ENGINE + "sanitized_columns.py",
          "within = f\"{name} >= {kind} '00:00:00' AND {name} < {kind} '24:00:00'\"", 'within = "true"', HOSTILE),
    Fault("zeros of both signs are two keys of a map", ENGINE + "sanitized_columns.py",
          "        keys = pc.if_else(pc.equal(keys, 0), pa.scalar(0, keys.type), keys)\n", "", f"{HOSTILE}::test_a_map_with_a_key_twice"),
    # Parquet.
    Fault("values that a file does not show are counted as it says", ENGINE + "sanitized_columns.py",
          "elif not decoded and kind.startswith(_STOPPING):", "elif False:", f"{PARQUET}::test_one_more_unit_changes_one"),
    Fault("NaN passes conditions as a file says", ENGINE + "sanitized_columns.py",
          "return f\"CASE WHEN isnan({name}) THEN 'nan'::{kind} ELSE {name} END\"", "return None", f"{PARQUET}::test_a_row_passes_whatever_is_beside_it"),
    Fault("dictionaries of a file stop Arrow", ENGINE + "parquet.py",
          "if not any(map(_has_dictionary, schema.types)) or any(", "if True or any(", FILES),
    # CSV and JSON.
    Fault("one line of wrong bytes makes all of its block missing", ENGINE + "text_lines.py",
          "return pa.array(list(map(_valid, texts)), pa.large_string())", "return pa.nulls(len(texts), pa.large_string())", TEXT),
    Fault("a type is inferred from some values", ENGINE + "column_types.py",
          'return f"bool_and({read})', 'return f"bool_or({read})', f"{TEXT}::test_what_is_suggested_is_what_was_used"),
    # Frames, relations and streams.
    Fault("rows of a relation come twice after an interrupt", ENGINE + "arrow_sources.py",
          '        cursor.execute(f"TRUNCATE {ROWS}")\n', "", TESTS + "test_ownership.py::test_rows_of_a_relation_come_once_however_often_it_is_begun"),
    Fault("a stream that broke off is whole", ENGINE + "arrow_sources.py",
          "return waiting.pop()", "return waiting[0]", TESTS + "test_sources.py::test_a_stream_that_breaks_off_is_not_taken_for_whole"),
    # Databases, paths and addresses.
    Fault("a text in a column of numbers stops SQLite's rows", ENGINE + "databases.py",
          "\"CASE typeof({0}) WHEN 'integer' THEN {0} END\"", '"{0}"', f"{DATABASES}::test_a_release_reads_what_it_needs"),
    Fault("tables of a database are of several moments", ENGINE + "source.py",
          "token = _open.set(readers)", "token = _open.set(None)", f"{DATABASES}::test_all_tables_of_a_question_are_of_one_moment"),
    Fault("a message has the password of a database", ENGINE + "databases.py",
          'shown = f"postgresql://{host}/{unquote(database)}"', 'shown = f"postgresql://{unquote(place)}/{unquote(database)}"', f"{DATABASES}::test_no_error_has_the_password"),
    Fault("a text may have a password with a space", "engines/sql.py",
          'part.partition("://")[2])', 'part.partition("://")[2].partition(" ")[0])', f"{DATABASES}::test_texts_with_a_user_in_an_address_are_refused"),
    Fault("a message has the options of an address", ENGINE + "file_paths.py",
          "{parts.netloc.rpartition('@')[2]}{parts.path}\"", "{parts.netloc}{parts.path}?{parts.query}\"", TESTS + "test_addresses.py::test_a_server_that_refuses"),
    Fault("a file and a link to it are two files", ENGINE + "file_paths.py",
          "        if os.path.realpath(file) in seen:\n            raise", "        if file in seen:\n            raise", f"{FILES}::test_links_in_a_folder"),
    Fault("files are those of where the process is later", ENGINE + "file_paths.py",
          "    files = tuple(map(os.path.abspath, files))\n", "", f"{FILES}::test_a_process_that_goes_elsewhere_reads_the_same_files"),
    # Time zones, keys and order.
    Fault("sessions read times in another zone", ENGINE + "source.py",
          '                one.execute(f"SET SESSION TimeZone = {literal(zone)}")\n', "", ZONES),
    Fault("times are read in the zone of the machine", ENGINE + "connection.py",
          '    connection.execute(f"SET GLOBAL TimeZone = {literal(timezone)}")\n    return', "    return", ZONES),
    Fault("public keys that do not fit are missing ones", ENGINE + "public_keys.py",
          "    return changed\n", '    return "false"\n', TESTS + "test_public_keys.py::test_keys_that_do_not_fit"),
    Fault("rows without a value that a catalog declares are kept", "engines/declared_tables.py",
          'return (Filter(" AND ".join(kept)),) if kept else ()', "return ()", "tests/catalogs/test_declared_table.py::test_rows_that_lack_a_value_where_the_catalog_says_that_none_does_are_dropped"),
    # Databases of DuckDB that several use, and folders.
    Fault("what a session leaves is there for the next", ENGINE + "connection.py",
          "return not left and not os.path.lexists(place)", "return True", TESTS + "test_connection.py::test_a_database_in_which_something_is_left_is_closed"),
    Fault("folders of other users are swept", ENGINE + "resources.py",
          "            if _is_process_local(os.fstat(opened)):\n", "            if True:\n", TESTS + "test_resources.py::test_nothing_else_is_swept"),
    Fault("others may enter the folder of spilled rows", ENGINE + "resources.py",
          "        if stat.S_IMODE(found.st_mode) != stat.S_IRWXU:\n", "        if False:\n", TESTS + "test_resources.py"),
    Fault("a link to a source is written over", "files.py",
          "        return path.samefile(file)\n", "        return str(path) == str(file)\n", TESTS + "test_files.py::test_a_source_is_not_written_over"),
    Fault("a pipe is replaced", "files.py",
          "return not stat.S_ISREG(found) and not stat.S_ISLNK(found)", "return False", TESTS + "test_files.py::test_what_is_no_place_for_a_file_costs_nothing"),
    # Declarations and dummy rows.
    Fault("bounds are those of a column of the same name", "catalogs/declared_table.py",
          "bounds = self.declared.bounds(column) if self._is_declared(column) else None", "bounds = self.declared.bounds(column)", "tests/catalogs/test_declared_table.py"),
    Fault("a limit of all groups is beyond the catalog's", "catalogs/declared_table.py",
          "and given > limit:\n                raise", "and given > limit and name != 'total_rows':\n                raise", "tests/catalogs/test_declared_table.py"),
    Fault("limits of a table that is joined do not hold", "catalogs/declared_table.py",
          "return replace(joined, declared=joined.declared.joined_with([other.declared]), origins=origins)", "return replace(joined, origins=origins)", "tests/catalogs/test_declared_table.py"),
    Fault("a domain is that of a column that is replaced", "catalogs/declared_table.py",
          "all(isinstance(c, str) and c in self.schema and self._is_declared(c) for c in columns)", "all(isinstance(c, str) and c in self.schema for c in columns)", "tests/catalogs/test_declared_table.py"),
    Fault("an error of a row that says so is an interrupt", "errors.py",
          "return called and _INTERRUPTED.fullmatch(str(error)) is not None", 'return called and "KeyboardInterrupt" in str(error)',
          "tests/test_error_chain.py::test_an_interrupt_is_known_by_the_whole_text_alone"),
    Fault("real rows beside made-up ones are free", ENGINE + "dummy_source.py",
          "    if any(parts) and not all(parts):\n", "    if False:\n", TESTS + "test_dummy.py::test_made_up_rows_and_real_ones_do_not_meet"),
]  # fmt: skip
