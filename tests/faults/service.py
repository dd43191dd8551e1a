"""Faults of the service and its client: who may ask what, what is charged, and what an answer or a log shows."""

from tests.faults.fault import Fault

HERE = "tests/service/"
APP = f"{HERE}test_http_app.py::"
TOKENS = f"{HERE}test_tokens.py::"
REPEATS = f"{HERE}test_repeats.py::"
CHAIN = f"{HERE}test_chain.py::"
HOSTILE = f"{HERE}test_hostile.py::"
TURNS = f"{HERE}test_turns.py::"
WORKER = f"{HERE}test_worker.py::"
CLIENT = f"{HERE}test_client.py::"
QUERY = "service/query_service.py"
HTTP = "service/http_app.py"

FAULTS: list[Fault] = [
    # Tokens.
    Fault("a revoked token is valid", "service/access_tokens.py",
          "valid = right and revoked is None and (", "valid = right and (", f"{TOKENS}test_revoked_and_expired"),
    Fault("an expired token is valid", "service/access_tokens.py",
          "(expires is None or time.time() < expires)", "True", f"{TOKENS}test_revoked_and_expired"),
    Fault("any secret of a known token is right", "service/access_tokens.py",
          "right = hmac.compare_digest(_hash(secret), kept)", "right = row is not None", f"{TOKENS}test_a_token_is_of_its_caller_and_every_character_matters"),
    Fault("tokens are kept as they are", "service/access_tokens.py",
          "return hashlib.sha256(secret.encode()).digest()", "return secret.encode()", f"{TOKENS}test_the_file_holds_no_token"),
    Fault("a mistyped file of tokens is made", "service/server.py",
          "tokens = Tokens(settings.tokens, make=False)", "tokens = Tokens(settings.tokens)", f"{TOKENS}test_a_mistyped_path_of_tokens_is_refused_and_no_file_is_made"),
    Fault("others may change the ledger of a service", "service/server.py",
          'if "://" not in place and os.path.exists(place):', "if False:", f"{TOKENS}test_files_that_others_can_read_or_change_are_refused"),
    Fault("tokens cross a network in the clear", "service/server.py",
          "not self.behind_proxy and not _is_local(self.host):", "not self.behind_proxy and False:", "tests/cli/test_serve_command.py::test_settings_that_are_refused"),
    Fault("a token that is revoked while its query waits is served", HTTP,
          "await self._caller(request)  # whose token may have been revoked meanwhile", "pass", f"{TURNS}test_a_token_that_is_revoked_while_its_question_waits_asks_nothing"),
    # Whose budget and history it is.
    Fault("no analyst has a cap of their own", "service/server.py",
          "return self.ledger.budget(self.dataset, analyst=analyst)", "return self.ledger.budget(self.dataset)", f"{APP}test_budgets_are_of_each_analyst_and_end"),
    Fault("analysts see what all have asked", QUERY,
          'analyst = None if job.everybody else job.analyst\n        budget = self.budgets.charged_by(analyst)\n        return _json({"analyst": analyst, "history"',
          'analyst = None\n        budget = self.budgets.charged_by(analyst)\n        return _json({"analyst": analyst, "history"', f"{APP}test_budgets_are_of_each_analyst_and_end"),
    Fault("analysts may ask for the history of all", HTTP,
          "if given and not caller.is_owner:", "if False:", f"{APP}test_budgets_are_of_each_analyst_and_end"),
    Fault("metrics are for everybody", HTTP,
          'if not caller.is_owner:\n            raise _Refused(403, RefusalError("metrics', 'if False:\n            raise _Refused(403, RefusalError("metrics', f"{APP}test_metrics_are_for_owners_and_name_nobody"),
    Fault("a query is charged to the budget of all alone", QUERY,
          "budget = self.budgets.charged_by(job.analyst)\n            if isinstance", "budget = self.budgets.charged_by(None)\n            if isinstance", f"{REPEATS}test_other_keys_queries_and_analysts_pay_for_themselves"),
    Fault("real rows are asked for free as dummy rows", QUERY,
          "catalog = self._dummy if job.dummy else self.catalog", "catalog = self.catalog", f"{APP}test_dummy_rows_are_not_charged_and_are_not_the_real_ones"),
    Fault("the cost that is told has no delta", QUERY,
          'cost = {"epsilon": epsilon, "delta": delta}', 'cost = {"epsilon": epsilon, "delta": 0.0}', f"{APP}test_a_query_costs_nothing_before_it_is_released"),
    # Answers that are given again.
    Fault("a request that is sent again is paid again", QUERY,
          "budget = budget._keyed(_digest(job))", "pass", f"{REPEATS}test_the_same_request_with_the_same_key_is_paid_once"),
    Fault("a key stands for any query", QUERY,
          "asks = [job.text, job.confidence, job.simultaneous]", "asks = []", f"{REPEATS}test_other_keys_queries_and_analysts_pay_for_themselves"),
    Fault("answers are for whoever knows their entry", QUERY,
          "found = budget._paid_answer(entry=job.entry) if", "found = self.budgets.charged_by('ann')._paid_answer(entry=job.entry) if", f"{REPEATS}test_an_answer_of_the_history_is_for_its_payer_alone"),
    Fault("a table is known by the name of its file", QUERY,
          "places = [os.path.abspath(table.source) for", "places = [os.path.basename(table.source) for", f"{REPEATS}test_other_data_is_another_query"),
    Fault("refusals are not in the journal", QUERY,
          "self.budgets.refused(job.analyst, job.written, error)", "pass", f"{REPEATS}test_a_refusal_charges_nothing_and_is_in_the_journal_once"),
    # What an answer, an error or the log shows.
    Fault("an error names the file of a source", QUERY,
          "if isinstance(error, _OF_OWNERS):", "if isinstance(error, CatalogError):", f"{APP}test_a_source_that_is_gone_is_named_to_the_owner_alone"),
    Fault("a message that names a source is sent", QUERY,
          "return any(name in text and name not in job.text for", "return any(name == text for", f"{HERE}test_source_names.py::test_the_net_below_all_messages"),
    Fault("rows are open to exact analyses", "service/analyst_catalog.py",
          "return replace(table, _engine=table._engine.for_analysts())", "return table", f"{APP}test_tables_are_open_for_releases_alone"),
    Fault("the log has what a fault says", HTTP,
          "fault = where(error)", "fault = repr(error)", f"{APP}test_a_fault_of_ours_is_reported_by_a_number"),
    Fault("a digest of a query in the log has no key", "service/monitoring.py",
          "return hmac.new(key, text", 'return hmac.new(b"", text', f"{APP}test_the_log_has_a_keyed_digest_of_the_query_and_no_words"),
    Fault("the log quotes what others log", "service/monitoring.py",
          'line["event"] = str(record.msg)', 'line["event"] = record.getMessage()', f"{APP}test_the_log_has_a_keyed_digest_of_the_query_and_no_words"),
    Fault("scripts in the markup of the page run", "service/page_files.py",
          """"script-src 'self'",""", """"script-src 'self' 'unsafe-inline'",""", f"{APP}test_the_policy_of_the_page_is_strict"),
    # Calls and values that are admitted.
    Fault("any method is called that a chain names", "service/analyst_catalog.py",
          "if name not in methods:", "if False:", f"{CHAIN}test_calls_that_are_not_admitted"),
    Fault("units of different kinds share a budget", "service/analyst_catalog.py",
          "if len(kinds) > 1:", "if len(kinds) > 9:", f"{APP}test_privacy_units_of_different_kinds_have_no_common_budget"),
    Fault("an analyst sets how many rows a unit joins", "service/analyst_catalog.py",
          "max_joined_rows=table.max_joined_rows or UNIT_ROWS)", "max_joined_rows=table.max_joined_rows)", f"{HOSTILE}test_nobody_raises_a_limit_that_the_owner_did_not_say"),
    Fault("a body without a length has any size", HTTP,
          "if len(found) > most:", "if False:", f"{HOSTILE}test_bodies"),
    # Whose turn it is.
    Fault("one analyst can take all places", HTTP,
          "self._places, self._most = places, max(1, places - 1)", "self._places, self._most = places, places", f"{TURNS}test_many_questions_of_one_make_nobody_else_wait"),
    Fault("an analyst can have any number of queries", HTTP,
          "if own >= self.limits.each:", "if False:", f"{TURNS}test_who_goes_away_before_their_turn_is_not_asked_for"),
    # Workers.
    Fault("what was stopped is said to cost nothing", "service/worker_processes.py",
          'costs = job.kind == "release" and not job.dummy', "costs = False", f"{WORKER}test_what_fails_is_replaced_stays_spent_and_comes_at_its_pace"),
    Fault("an answer is paced when it succeeds alone", "service/worker_processes.py",
          "        try:\n            return self._outcome(place, job, slot)\n        finally:\n            slot.wait()",
          "        found = self._outcome(place, job, slot)\n        slot.wait()\n        return found", f"{WORKER}test_a_fault_is_raised_at_its_pace_too"),
    # The client.
    Fault("a client is written to a file with its token", "client/client.py",
          "def __reduce_ex__(", "def _reduce_ex(", f"{CLIENT}test_a_token_is_in_no_error_file_or_copy"),
]  # fmt: skip
