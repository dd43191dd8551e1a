"""Faults of workers, on Spark, on Beam and anywhere: shards that come apart, rows read twice, noise drawn twice, secrets."""

from __future__ import annotations

from tests.faults.fault import Fault

HERE = "tests/engines/"
TABLES = f"{HERE}test_statistics_on_workers.py::test_tables_made_of_tables_are_those_of_one_machine"
EVERYTHING = f"{TABLES}[everything-0]"
ALL = f"{HERE}test_statistics_on_workers.py::test_all_statistics_are_those_of_one_machine"
SPARK = f"{HERE}test_statistics_on_workers.py::test_one_job_of_spark_releases_what_is_released_here[few]"
BEAM = f"{HERE}test_statistics_on_workers.py::test_one_pipeline_of_beam_releases_what_is_released_here[few]"
AGAIN = f"{HERE}test_statistics_on_workers.py::test_what_is_computed_again_from_parts_in_another_order_is_the_same"
TOGETHER = f"{HERE}test_combined_on_workers.py::test_tables_that_cannot_be_combined_on_workers_are_refused"
RETRIED = f"{HERE}test_beam.py::test_bundles_that_are_retried_or_cut_anew_draw_the_same_noise"
ROWS, SECRETS, KEYS, ONCE = (f"{HERE}test_beam_{name}.py::" for name in ("rows", "secrets", "keys", "once"))
TOP = f"{HERE}test_top_on_workers.py::"
STAGES, COMBINED, ENGINE = (
    "engines/duckdb/stages.py",
    "engines/duckdb/combined_stages.py",
    "engines/distributed_engine.py",
)
NOISE, SECRET = "engines/worker_noise.py", "engines/worker_secret.py"
RELEASE, ROWS_OF, ELEMENTS = (f"engines/beam/beam_{name}.py" for name in ("release", "rows", "elements"))
TASKS, ON_SPARK = "engines/spark/spark_tasks.py", "engines/spark/spark_engine.py"

FAULTS = [
    # Shards, and the SQL of stages.
    Fault("each shard shows all public groups", STAGES,
          "if shard is not None else", "if False else", BEAM),
    Fault("workers with another DuckDB are not noticed", STAGES,
          "if duckdb.__version__ != self.version:", "if False:", f"{HERE}test_spark.py::test_a_worker_with_another_duckdb_says_so"),
    Fault("a key that is brought twice counts twice", STAGES,
          "(SELECT DISTINCT * FROM brought_keys)", "(SELECT * FROM brought_keys)", f"{KEYS}test_statistics_are_those_of_a_list"),
    Fault("keys that a column cannot hold become keys without a value", STAGES,
          'kept = " AND ".join(f"({n} IS NULL) = ({value} IS NULL)"', 'kept = " AND ".join(f"({n} IS NULL) = ({n} IS NULL)"',
          f"{KEYS}test_groups_are_those_that_were_brought"),
    Fault("shards of foreign keys go by how a key is written", STAGES,
          "hash(CAST({comparable_sql(column, schema)} AS", "hash(CAST({identifier(column)} AS", f"{HERE}test_combined_on_workers.py::test_a_foreign_key_meets_its_owner_on_one_worker_though_zero_has_two_signs"),
    Fault("Spark's workers spill where nobody removes it", TASKS,
          "        spill_beside_blocks()\n        yield", "        yield", f"{HERE}test_resources.py::test_a_worker_of_spark_spills_where_spark_removes_it"),
    Fault("totals have no order", STAGES,
          "sql.totals(self.group_shards), order=sql.total_order)", "sql.totals(self.group_shards))", f"{AGAIN}[False]"),
    Fault("what a foreign-key join gives has no order", COMBINED,
          "order = self._sql.partial_order if self._is_from_key_join(number) else ()", "order = ()", f"{AGAIN}[True]"),
    Fault("a part of a stage is loaded twice", STAGES,
          "batches = _Counted(batch for data in payloads if data for batch in pa.ipc.open_stream(data))",
          "batches = _Counted(batch for data in payloads if data for batch in [*pa.ipc.open_stream(data)] * 2)", f"{ALL}[private]"),
    # Tables made of tables.
    Fault("rows are combined where they are if one table allows it", ENGINE,
          "tuple(leaves.values()), all(by_rows)", "tuple(leaves.values()), any(by_rows)", EVERYTHING),
    Fault("a unit whose values are equal goes to two workers", COMBINED,
          'canonical(unit, schema)} AS VARCHAR', 'identifier(unit)} AS VARCHAR', EVERYTHING),
    Fault("columns that were not sent are missing values", COMBINED,
          "CAST(error('not sent') AS {kind})", "CAST(NULL AS {kind})", f"{HERE}test_combined_on_workers.py::test_a_column_that_was_not_sent_stops_the_worker"),
    Fault("private rows without a unit are taken for public ones", ENGINE,
          "            self.name,\n            part.unit is None,\n        )", "            self.name,\n            engine._public,\n        )", TOGETHER),
    # The noise of workers.
    Fault("the one draw goes by the order in which shards arrive", NOISE,
          "for _, data in sorted(gathered) for batch", "for _, data in gathered for batch", "tests/engines/test_k_norm.py"),
    Fault("a batch of groups is cut as its parts come", NOISE,
          "return regular(self.stages.merged(shard, payloads, rows), rows)", "return self.stages.merged(shard, payloads, rows)", "tests/engines/test_work.py"),
    Fault("a worker that stops quotes rows", NOISE,
          'f"a worker failed with {with_article(kind)} (its text is left out, as it may quote rows)"', 'f"a worker failed with {kind}: {error}"', f"{HERE}test_spark.py::test_what_workers_say_before_a_row_is_told_and_nothing_else"),
    Fault("the noise of the largest groups does not follow from them", NOISE,
          "drawn = self.measurement.draw(exact, self._words(batch))\n            yield from", "drawn = self.measurement.draw(exact, self._words(batch.slice(0, 0)))\n            yield from",
          f"{TOP}test_workers_draw_what_one_machine_draws"),
    Fault("a shard sends one of its largest groups less", "engines/duckdb/bounding_sql.py",
          'ctes["largest"] = self._largest("sums")', 'ctes["largest"] = self._largest("sums") + " - 1"', f"{TOP}test_no_shard_sends_more_groups_than_may_be_shown_and_one"),
    # Spark.
    Fault("shards of units come apart on Spark", ON_SPARK,
          'parts.values()).repartitionById(shards, "shard")', "parts.values()).repartition(shards)", SPARK),
    Fault("a shard that came apart is taken for two", TASKS,
          "if shard in seen:", "if False:", f"{HERE}test_spark.py::test_parts_of_one_shard_that_came_apart_are_refused"),
    Fault("a release on Spark is computed at each look", ON_SPARK,
          "kept = frame.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY if alone else StorageLevel.DISK_ONLY_2)", "kept = frame",
          f"{HERE}test_spark_releases.py::test_a_release_runs_no_second_time"),
    Fault("shards of groups are as many as rows ask for", ON_SPARK,
          "return min(_shuffle_partitions(session), GROUP_SHARDS)", "return self._unit_shards()", f"{HERE}test_spark_releases.py::test_shards_are_a_setting"),
    Fault("a session that does not notice changed rows is taken", ON_SPARK,
          'if str(session.conf.get(name, None)).lower() == "false"]', 'if str(session.conf.get(name, None)) == "no"]',
          f"{HERE}test_spark_releases.py::test_a_session_that_does_not_notice_is_refused"),
    Fault("an error of Spark's quotes rows", ON_SPARK,
          'kind = type(error).__name__ + (f" ({condition})" if condition else "")', 'kind = f"{type(error).__name__} {error}"',
          f"{HERE}test_spark.py::test_what_workers_say_before_a_row_is_told_and_nothing_else"),
    Fault("the secret is in py4j's log", TASKS,
          "        logger.addFilter(others)", "        logger.filters", f"{HERE}test_spark.py::test_the_secret_is_in_no_log_of_what_is_sent_to_java"),
    Fault("Spark's workers draw all shards as the first one", TASKS,
          "yield from map(_for_spark, work.released(shard, parts))", "yield from map(_for_spark, work.released(0, parts))", SPARK, elsewhere=True),
    Fault("an attempt on Spark draws noise of its own", NOISE,
          "return KeyedWords(key, digest(batch))", "return KeyedWords(secrets.token_bytes(32), digest(batch))", SPARK, elsewhere=True),
    # Beam.
    Fault("an attempt on Beam draws noise of its own", NOISE,
          "return KeyedWords(key, digest(batch))", "return KeyedWords(secrets.token_bytes(32), digest(batch))", RETRIED),
    Fault("a bundle that failed leaves rows to the next", RELEASE,
          "self._batches: list[pa.RecordBatch] = []", 'self._batches: list[pa.RecordBatch] = getattr(self, "_batches", [])', f"{HERE}test_beam.py::test_a_bundle_that_failed_leaves_no_rows_to_the_next"),
    Fault("parts that are merged twice count twice", RELEASE,
          "merged = [joined, fresh, [*held]]", "merged = [joined, fresh, held]", f"{HERE}test_beam.py::test_an_accumulator_that_is_merged_twice_counts_once_in_each"),
    Fault("a part is lost where parts are added up", RELEASE,
          "            return self._added_up(held)\n", "            return self._added_up(held[1:])\n", RETRIED),
    Fault("a release on Beam is applied twice", RELEASE,
          "            self._done = True", "            self._done = False", f"{ONCE}test_a_copy_of_a_release_is_the_release_and_is_sent_nowhere"),
    Fault("a fork applies the release too", RELEASE,
          "            self._made_in != process()\n        ):", "            False\n        ):", f"{ONCE}test_a_fork_applies_no_release_and_spends_no_budget"),
    Fault("a collection with a trigger is released at each pane", ELEMENTS,
          "if not rows.windowing.is_default() or not rows.is_bounded:", "if not rows.is_bounded:", f"{ONCE}test_windows_and_triggers_are_refused_and_the_release_is_not_used_up"),
    Fault("groups come as their shards are ready", RELEASE,
          '"Shards of groups" >> beam.Create(range(work.places))', '"Shards of groups" >> beam.Create([0])', BEAM),
    Fault("a release on Beam is not paid for", "engines/beam/beam_engine.py",
          "return engine.release(plan, confidence=confidence, shards=shards, secret=secret, pay=pay)", "return engine.release(plan, confidence=confidence, shards=shards, secret=secret)",
          f"{HERE}test_beam.py::test_a_budget_is_not_overspent_and_a_refusal_spends_nothing"),
    Fault("public keys are brought by private rows", "engines/beam/beam_engine.py",
          "if there.collection in names:", "if False:", f"{KEYS}test_what_is_no_collection_of_public_keys_is_refused"),
    Fault("a value that does not fit takes its neighbours along", ROWS_OF,
          "return [attempted(pa.nulls(1, kind), pa.array, [value], kind) for value in values]", "return [pa.nulls(len(values), kind)]", f"{ROWS}test_what_does_not_fit_is_null_and_changes_nothing_else"),
    Fault("a row that leaves by sys.exit stops a pipeline", ROWS_OF,
          "except BaseException:  # parsers", "except Exception:  # parsers", f"{HERE}test_beam_elements.py::test_an_element_on_which_the_function_leaves_has_no_rows"),
    # Secrets.
    Fault("all releases with a secret have one key", SECRET,
          'hmac.digest(secret, b"sfumato release " + release, "sha256")', 'hmac.digest(secret, b"sfumato release ", "sha256")', f"{SECRETS}test_each_release_has_a_key_of_its_own_and_repeats_its_noise"),
    Fault("a worker with another secret draws other noise", SECRET,
          "if _mark(secret) != self.fingerprint:", "if False:", f"{SECRETS}test_who_may_not_read_the_secret_gives_its_fingerprint"),
    Fault("a secret may be a text", SECRET,
          "return _is_text(secret) or min", "return min", f"{SECRETS}test_what_is_no_secret_is_refused_when_the_release_is_made"),
    Fault("a secret is given as its own fingerprint", SECRET,
          're.compile("fingerprint:[0-9a-f]{64}")', 're.compile("(fingerprint:)?[0-9a-f]{64}")', f"{SECRETS}test_a_fingerprint_that_is_none_is_refused_where_nothing_else_tells"),
    Fault("a secret is staged with its function", SECRET,
          'return any(text.rstrip(b"=") in data for text in texts)', "return False", f"{SECRETS}test_a_function_that_carries_the_secret_is_refused"),
    Fault("a file of secrets may be read by everybody", SECRET,
          "        check_private(status, self.place)\n", "", f"{SECRETS}test_a_file_that_others_may_read_or_change_is_refused"),
    Fault("what a key service said stays behind the error", SECRET,
          "            raised = type(error).__name__\n", '            raise EngineError(f"{self.place}: it raised {type(error).__name__}") from error\n        raised = ""\n',
          f"{SECRETS}test_nothing_of_a_secret_stays_behind_an_error"),
    Fault("a secret in the place of its name is taken", SECRET,
          'if len(_digits(text) or b"") >= BYTES or _BASE64.fullmatch(text):', "if False:", f"{SECRETS}test_a_secret_in_the_place_of_its_place_is_not_quoted"),
]  # fmt: skip
