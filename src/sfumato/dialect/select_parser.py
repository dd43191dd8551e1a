"""Parse one private SELECT: tokens to clauses, and DuckDB's syntax tree of the plain SELECT.

The privacy clause, bounds and ranks are BigQuery's and ZetaSQL's. The parser reads them as tokens and cuts
them out. What is left is a plain SELECT for DuckDB's parser. Expressions of one row stay as written.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection

from sfumato.dialect.aggregate_calls import CallForm, is_call, is_window, read_calls
from sfumato.dialect.from_clause import CommonTables, From, NotJoined, Written, conditions_moved, read_from
from sfumato.dialect.group_keys import is_grouping, read_grouping_sets, spans_of_keys
from sfumato.dialect.keywords import AFTER, GROUPINGS, INTERVALS, NO_FORM, PRIVATE, STRATEGY, meant, refusals
from sfumato.dialect.options_clause import read_clause
from sfumato.dialect.overloads import functions
from sfumato.dialect.private_selects import NotUnderstood, PlainSelect, is_query, select_list
from sfumato.dialect.public_groups import PublicGroups, public_groups
from sfumato.dialect.select_statement import Computed, Expression, Item, Statement
from sfumato.dialect.sql_tokens import Cursor, Place, refusal, with_slip
from sfumato.dialect.syntax_tree import Node, aggregates, descendants
from sfumato.errors import SqlError, nearest

_WINDOW = (
    "window functions are not private here. Compute with the released table: SELECT ... FROM (SELECT "
    "WITH ...)"
)
_INSTEAD = ". Join its table on the privacy unit in FROM; for NOT EXISTS write LEFT JOIN ... WHERE x IS NULL"

_OF_ROWS = ("ANY", "ALL", "SOME")


def check_words(words: Cursor, span: range, where: str) -> None:
    """Refuse subqueries, windows and aggregates among the tokens of a clause that sees single rows."""
    inner = span.start
    for i in span:
        word, before = words.tokens[i].word, words.tokens[i - 1].word
        if (
            where == "WHERE"
            and word == "("
            and before not in _OF_ROWS
            and words.tokens[i + 1].word in ("SELECT", "WITH")
        ):
            inner = max(inner, words.closing[i])
        if i < inner:
            continue
        if (word == "SELECT" and before != ".") or (word == "WITH" and before == "("):
            raise words.refuse(f"a subquery in {where} is not private{_INSTEAD}", words.tokens[i])
        if word == "OVER" and before != ".":
            raise words.refuse(_WINDOW, words.tokens[i])
        if (word in PRIVATE or word in refusals("aggregates")) and is_call(words, i):
            raise words.refuse(_misplaced_message(word, where), words.tokens[i])


def check_after(words: Cursor, span: range, calls: Collection[range], where: str) -> None:
    """Refuse functions that a clause with private aggregates cannot parse, outside of these."""
    starts = {call.start: call.stop for call in calls}
    i = span.start
    while i < span.stop:
        word, before = words.tokens[i].word, words.tokens[i - 1].word
        if i in starts:
            i = starts[i]
            continue
        if (word == "SELECT" and before != ".") or (word == "WITH" and before == "("):
            message = (
                f"a subquery in {where} is not supported. Write it around the private SELECT, with that "
                "in brackets"
            )
            raise words.refuse(message, words.tokens[i])
        known = word in refusals("aggregates") and word not in GROUPINGS
        if known and is_call(words, i) and not is_window(words, i):
            message = f"{word} is not a private aggregate: {refusals('aggregates')[word]}"
            raise words.refuse(message, words.tokens[i])
        if word.lower() in aggregates() and is_call(words, i) and not is_window(words, i):
            near = meant(word)
            message = f"write {near}" if near else NO_FORM
            raise words.refuse(f"{word} is not a private aggregate: {message}", words.tokens[i])
        i += 1


def check_tree(text: str, place: Place, tree: Node, where: str) -> None:
    """Refuse what only the syntax tree of a parsed clause shows: aggregates, stars, parameters."""
    for node in descendants(tree):
        message = {
            "FUNCTION": "",
            "WINDOW": _WINDOW,
            "SUBQUERY": f"a subquery in {where} is not private{_INSTEAD}",
            "STAR": f"a * in {where}: name the column",
            "PARAMETER": "parameters are not supported. Write the value itself",
        }.get(node["class"])
        known = node["class"] == "SUBQUERY" and node["subquery_type"] in ("ANY", "SCALAR", "EXISTS")
        if known and where == "WHERE":
            message = None
        if message == "" and node["function_name"].lower() in aggregates():
            message = f"an expression of {where} can use only the columns of its row, and no aggregate"
            near = meant(node["function_name"]) if where == "the SELECT list" else None
            message += f"; the private aggregate is {near}" if near else ""
        if message:
            raise refusal(text, place, message)


def _misplaced_message(name: str, where: str) -> str:
    """Return the message about an aggregate in a clause that sees single rows."""
    if where in ("WHERE", "GROUP BY", "FILTER"):
        return f"{name} in {where}: {where} sees single rows, before they are grouped"
    if where.endswith("(...)"):
        return f"{name} inside {where}: an aggregate takes an expression of one row"
    return f"{name} inside a larger expression: compute it alone, and compute with the result outside"


_NO_FROM = "FROM is missing. Write FROM 'file.parquet' or FROM table after the columns"
_NO_SOURCE = "name a file or a table here: FROM 'file.parquet' or FROM table"
_SLIPS_OF_FROM = ("FORM", "FRM", "FROMM", "FRON", "FRMO")
_END = "the query should end here"
_CLAUSES = ("DESC", "ASC", "ORDER BY", "LIMIT", "GROUP BY", "HAVING")
_OTHER_CLAUSES = {"TOP": "LIMIT", "SORT": "ORDER BY", "FILTER": "WHERE"}
_NEAR = 40  # characters around a word, in which what is wrong with it may stand
_NO_ALIAS = "a name is missing after AS"
_BEFORE_BRACKETS = ("USING", "ON", "AND", "OR", "NOT")
_MAX_KEYS = 2000  # DuckDB's parser compares each with each
_ITEMS, _KEYS, _BEHIND = "the SELECT list", "GROUP BY", "the clauses after GROUP BY"


def read(words: Cursor, names: CommonTables) -> tuple[Statement, PublicGroups | None]:
    """Parse one SELECT WITH DIFFERENTIAL_PRIVACY or WITH ANONYMIZATION.

    Args:
        words: the tokens of the SQL text.
        names: the WITH tables that it may read.
    Returns:
        Its syntax tree, and the groups of a public table, where it asks for those.
    Raises:
        SqlError: it has another form; the text says where and what to write instead.
    """
    reader = _SelectParser(words, names)
    return reader.statement(), reader.groups


class _SelectParser:
    """Parses one private SELECT: first the tokens of each clause, then DuckDB's syntax tree."""

    def __init__(self, words: Cursor, names: CommonTables) -> None:
        words = _without_any_value(words)
        self.words, self.names = words, names
        if not words.take("SELECT"):
            raise words.refuse("a query must begin with SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (...)")
        self.clause = read_clause(words)
        distinct = None if words.take("ALL") or words.token.word != "DISTINCT" else words.token
        self.distinct = words.take("DISTINCT")
        self.dropped = [range(1, words.at)]
        if words.token.word == "AS":
            raise words.refuse("SELECT AS is not supported. Leave AS out")
        self.parts = self._parts()
        self.groups = self._public_groups()
        self.items = self._list(self.parts["SELECT"], _ITEMS)
        self.calls: dict[int, CallForm] = {}  # by the index of the name
        self.grouping = False
        self._check_items()
        if distinct is not None and (self.calls or "GROUP" in self.parts):
            raise words.refuse("SELECT DISTINCT takes group keys alone. Leave DISTINCT out", distinct)
        self._check_source()
        self.where, self.keys = self._rows()
        self._check_after()

    # By words: where the parts stand, in the order in which they are written.

    def _parts(self) -> dict[str, range]:
        """Return the tokens of each clause of the SELECT, by the keyword that opens it."""
        words, starts = self.words, [("SELECT", self.words.at, self.words.at)]
        for i in self.words.outer(range(words.at, len(words.tokens) - 1)):
            word, more = words.tokens[i].word, 1
            if word in ("GROUP", "ORDER"):
                more = 2 if words.tokens[i + 1].word == "BY" else 0
            if words.tokens[i - 1].word in (".", "AS") or (
                word == "FROM" and words.tokens[i - 1].word == "DISTINCT"
            ):
                continue
            if word == ";":
                raise words.refuse("there are several statements. Run one at a time", words.tokens[i])
            if more and word in ("FROM", "WHERE", "GROUP", "HAVING"):
                starts.append((word, i, i + more))
            elif more and word in AFTER:
                # DuckDB's parser knows their order, and their own forms.
                starts.append(("AFTER", i, i))
                break
        stops = [*(start for _, start, _ in starts[1:]), len(words.tokens) - 1]
        self._check_order(starts)
        return {name: range(first, stop) for (name, _, first), stop in zip(starts, stops, strict=True)}

    def _check_order(self, starts: list[tuple[str, int, int]]) -> None:
        """Refuse clauses of a SELECT in a wrong order, and a missing FROM."""
        order = ["SELECT", "FROM", "WHERE", "GROUP", "HAVING", "AFTER"]
        for (name, _, _), (after, start, first) in zip(starts, [*starts[1:], ("", -1, 0)], strict=True):
            place = Place(self.words.tokens[start].start, self.words.tokens[first - 1].stop)
            if name == "SELECT" and after != "FROM":
                for token in self.words.tokens:
                    if token.word in _SLIPS_OF_FROM:
                        raise self.words.refuse(
                            f"FROM is missing. Write FROM in place of {token.word}", token
                        )
                raise refusal(self.words.text, place, _NO_FROM)
            if after and order.index(after) <= order.index(name):
                message = (
                    "WHERE must come before GROUP BY" if after == "WHERE" else "the query should end here"
                )
                raise refusal(self.words.text, place, message)

    def _public_groups(self) -> PublicGroups | None:
        """Parse PUBLIC_GROUPS, and leave the public table's tokens out of FROM."""
        for name, value in self.clause[2]:
            if name.text == "group_selection_strategy" and value.text.upper() == STRATEGY:
                span = self.parts["FROM"]
                private, groups = public_groups(self.words, span, value.place, self.names)
                self.parts["FROM"] = private
                self.dropped += [range(span.start, private.start), range(private.stop, span.stop)]
                return groups
        return None

    def _list(self, span: range, where: str) -> list[range]:
        """Split a clause's tokens at its commas."""
        commas = [i for i in self.words.outer(span) if self.words.tokens[i].word == ","]
        if where == _ITEMS and commas and commas[-1] == span.stop - 1:
            span = range(span.start, commas.pop())  # BigQuery and DuckDB both allow a last comma there
        found = [
            range(start, stop)
            for start, stop in zip([span.start, *(i + 1 for i in commas)], [*commas, span.stop], strict=True)
        ]
        for one in found:
            if not one:
                raise self._missing(one, where)
        return found

    def _check_items(self) -> None:
        """Parse the aggregate calls in the SELECT list, and refuse items that are not private."""
        words = self.words
        for item in self.items:
            first = words.tokens[item.start]
            if self._refused(item.start):
                raise words.refuse(
                    f"{first.word} is not a private aggregate: {refusals('aggregates')[first.word]}", first
                )
            if first.word == "*":
                raise words.refuse("SELECT * is not private. List the group keys and the aggregates", first)
            for i in self.words.outer(item):
                named = i + 1 < item.stop and words.tokens[i + 1].kind in ("word", "name")
                if words.tokens[i].word == "AS" and not named:
                    raise words.refuse(_NO_ALIAS, words.tokens[i + 1])
            found = self._read_calls(item)
            if not found and not any(self._is_post_processing(i) for i in item):
                check_words(words, item, _ITEMS)
            else:
                check_after(words, item, [form.span for form in found], _ITEMS)

    def _refused(self, i: int) -> bool:
        """Whether a token calls an aggregate without a private form."""
        word = self.words.tokens[i].word
        called = word in refusals("aggregates") and word not in GROUPINGS and is_call(self.words, i)
        return called and not is_window(self.words, i)

    def _read_calls(self, span: range) -> list[CallForm]:
        """Parse the aggregate calls in a clause, and check their arguments."""
        found = read_calls(self.words, span)
        self.calls |= {form.span.start: form for form in found}
        for form in found:
            check_words(self.words, form.argument, f"{form.call.function}(...)")
            if form.condition is not None:
                check_words(self.words, form.condition, "FILTER")
        return found

    def _is_post_processing(self, i: int) -> bool:
        """Whether a token calls a function of released groups: a window, GROUPING or an interval."""
        known = self.words.tokens[i].word in (*INTERVALS, *GROUPINGS)
        return is_call(self.words, i) and (known or is_window(self.words, i))

    def _check_after(self) -> None:
        """Parse the aggregate calls in HAVING, QUALIFY, ORDER BY and LIMIT."""
        for name in ("HAVING", "AFTER"):
            span = self.parts.get(name)
            if span is not None:
                if not span:
                    raise self._missing(span, name)
                found = self._read_calls(span)
                where = name if name == "HAVING" else self.words.tokens[span.start].word
                check_after(self.words, span, [form.span for form in found], where)
                self._check_arguments(span)

    def _check_source(self) -> None:
        """Refuse tokens in the FROM clause of a private SELECT that name no table or subquery."""
        words, span = self.words, self.parts["FROM"]
        first = words.tokens[span.start]
        if first.word == "(":
            self._check_subquery(span.start)
        elif not span or first.kind not in ("word", "name", "text"):
            raise words.refuse(_NO_SOURCE, first)
        elif not first.text.strip():
            raise words.refuse("the name of the file or table is missing", first)
        condition, refused = (
            False,
            refusals("words_of_from"),
        )  # behind ON, where a bracket or a dash is of an expression
        for i in self.words.outer(span):
            if i == span.start:
                continue
            token = words.tokens[i]
            condition = token.word == "ON" or (condition and token.word != "JOIN")
            before = words.tokens[i - 1]
            if token.word == "(" and before.word == "JOIN":
                self._check_subquery(i)
                continue
            called = before.kind in ("name", "word", "text") and before.word not in _BEFORE_BRACKETS
            behind = words.tokens[i - 3 if words.tokens[i - 2].word == "AS" else i - 2]
            called = called and behind.word != ")"  # names of columns: (SELECT ...) AS t(a, b)
            if token.word == "SAMPLE" and before.word == "USING":
                raise words.refuse(refused["TABLESAMPLE"], before)
            if condition and token.word in ("(", "-"):
                continue
            if token.word in refused and before.word != "." and (token.word != "(" or called):
                raise words.refuse(refused[token.word], token)

    def _check_subquery(self, i: int) -> None:
        """Refuse brackets behind FROM or JOIN that hold no SELECT."""
        inner = self.words.tokens[i + 1]
        if inner.word not in ("SELECT", "WITH", "VALUES", "("):
            message = (
                "joins in brackets are not supported. Write one JOIN after another, or a subquery, "
                "(SELECT ...) AS t"
            )
            raise self.words.refuse(message, inner)

    def _rows(self) -> tuple[range | None, list[range]]:
        """Return the tokens of WHERE, and of each key of GROUP BY."""
        words, where, group = self.words, self.parts.get("WHERE"), self.parts.get("GROUP")
        if where is not None:
            if not where:
                raise self._missing(where, "WHERE")
            check_words(words, where, "WHERE")
        every = group is not None and [words.tokens[i].word for i in group] == ["ALL"]
        self.all_keys = every or self.distinct
        if group is None or self.all_keys:
            return where, []
        keys = [key for part in self._list(group, _KEYS) for key in self._in_brackets(part)]
        self.grouping = any(is_grouping(words, key) for key in keys)
        if self.grouping:
            keys = spans_of_keys(words, keys, lambda span: self._list(span, _KEYS))
        if len(keys) > _MAX_KEYS:
            raise words.refuse(
                f"at most {_MAX_KEYS} group keys are supported", words.tokens[keys[_MAX_KEYS].start]
            )
        for key in keys:
            check_words(words, key, _KEYS)
        return where, keys

    def _in_brackets(self, key: range) -> list[range]:
        """Return the group keys inside brackets: (a) and (a, b) are a, and a and b; () is none."""
        if self.words.closing.get(key.start) != key.stop - 1:
            return [key]
        if len(key) == 2:
            return []
        inner = self._list(range(key.start + 1, key.stop - 1), _KEYS)
        return [one for part in inner for one in self._in_brackets(part)]

    # By DuckDB's tree: what they are.

    def statement(self) -> Statement:
        """Return the parsed SELECT, after checks of DuckDB's syntax tree."""
        words, tree = self.words, self._tree()
        if len(tree.get("select_list", ())) != len(self.items):
            raise words.refuse(f"this cannot be parsed in {_ITEMS}", words.tokens[self.items[0].start])
        items = [self._item(span, node) for span, node in zip(self.items, tree["select_list"], strict=True)]
        if tree["where_clause"] is not None:
            place = self._place(self.parts["FROM"] if self.where is None else self.where)
            check_tree(words.text, place, tree["where_clause"], "WHERE")
        if self.grouping and len(self.keys) != len(tree["group_expressions"]):
            where = words.tokens[self.parts["GROUP"].start]
            raise words.refuse(f"{where.text}: write each key the same way everywhere", where)
        for key in tree["group_expressions"]:
            check_tree(words.text, self._place(self.parts["GROUP"]), key, _KEYS)
        tables = self._tables(tree)
        clause, place, options = self.clause
        return Statement(
            text=words.text,
            clause=clause,
            clause_place=place,
            options=options,
            items=tuple(items),
            tables=tables,
            source_place=words.tokens[self.parts["FROM"].start].place,
            where=None if self.where is None else self._expression(self.where),
            group_by=tuple(map(self._expression, self.keys)),
            group_sets=read_grouping_sets(tree) if self.grouping else None,
            group_by_all=self.all_keys,
            tree=tree,
            names=self.names,
            calls={
                words.tokens[form.span.start].start: (
                    words.tokens[form.span.stop - 1].stop,
                    self._expression(form.span),
                    form.call,
                )
                for form in self.calls.values()
            },
            having=self._part("HAVING"),
            after=self._part("AFTER"),
            moved=self.moved,
        )

    def _part(self, name: str) -> Expression | None:
        return self._expression(self.parts[name]) if name in self.parts else None

    def _tree(self) -> Node:
        """Return DuckDB's syntax tree of the SELECT without its private syntax."""
        forms = self.calls.values()
        wrapped = [span for form in forms for span in form.expressions]
        private = (span for form in forms for span in form.private)
        plain = PlainSelect(self.words, [*self.dropped, *private], wrapped)
        self.names = CommonTables(Written(self.words.text, plain.place), self.names)
        try:
            tree = plain.tree()
        except NotUnderstood as error:
            if error.at is None:
                raise self._somewhere(error.why) from None
            raise self._make_syntax_error(plain, error.at) from None
        moved = conditions_moved(tree)
        self.moved = moved is not tree
        return moved

    def _somewhere(self, why: str) -> SqlError:
        """Return a syntax error of DuckDB without a place, at the expression that causes it."""
        arguments = [span for form in self.calls.values() for span in form.expressions]
        items = [item for item in self.items if item.start not in self.calls]
        spans = [*items, *arguments, *filter(None, [self.where]), *self.keys]
        text, places = self.words.text, [self._place(span) for span in spans or self.items]
        written = [f"{text[place.start : place.stop]}\n" for place in places]
        refused = range(len(places))
        at = bisect_left(refused, True, key=lambda i: not is_query(f"SELECT {','.join(written[: i + 1])};"))
        deep = "depth" in why or "nested" in why
        message = "an expression is nested too deeply" if deep else f"not understood: {why}"
        return refusal(text, places[at if at < len(places) else 0], message)

    def _make_syntax_error(self, plain: PlainSelect, at: int) -> SqlError:
        """Return a syntax error at the token where DuckDB's parser stops, with what is missing there."""
        words, token, before = self.words, self.words.tokens[at], plain.before(at)
        part = next(name for name, span in reversed(self.parts.items()) if span.start <= at)
        for name, form in self.calls.items():
            if name < at < form.span.stop:
                where, more = f"{form.call.function}(...)", ")) FROM t"
                missing, inner = f"a comma or ) is missing in {where}", form.argument
                break
        else:
            where = {"SELECT": _ITEMS, "GROUP": _KEYS, "AFTER": _BEHIND}.get(part, part)
            more = " FROM t" if part == "SELECT" else ""
            missing, inner = ("a comma or FROM is missing" if more else _END), self.parts[part]
        if token.kind != "end" and at > inner.start and is_query(f"{before} {more}"):
            return words.refuse(
                missing + _go_on(token.word, words.tokens[at - 1].word) * (missing == _END), token
            )
        if where == "FROM" and token.kind == "word" and at == inner.start:
            quote = f'{token.text} is a word of SQL. As the name of a table write FROM "{token.text}"'
            return words.refuse(quote, token)
        if where == "FROM":
            return words.refuse(_NO_SOURCE, token)
        why = f"this is not an expression in {where}"
        near = words.text[max(0, token.start - _NEAR) : token.stop + _NEAR]
        return words.refuse(with_slip(why, near), token)

    def _item(self, span: range, node: Node) -> Item:
        """Parse an item of the SELECT list: an aggregate, a group key, or an expression of both."""
        words, tokens, stop = self.words, self.words.tokens, span.stop
        alias, alias_place = node["alias"] or None, self._place(span)
        if alias is not None:
            last = tokens[stop - 1]
            if last.kind not in ("word", "name") or last.text != alias or len(span) < 2:
                raise words.refuse("write the name after AS: ... AS name", tokens[span.start])
            if not alias.strip():
                raise words.refuse("an empty name", last)
            stop -= 2 if tokens[stop - 2].word == "AS" else 1
            alias_place = last.place
        form = self.calls.get(span.start)
        if form is None or form.span.stop < stop:
            value = self._expression(range(span.start, stop))
            if any(i in self.calls or self._is_post_processing(i) for i in span):
                self._check_arguments(span)
                return Item(Computed(value), alias, value.place, alias_place)
            check_tree(words.text, value.place, node, _ITEMS)
            known = functions().enclosing
            constant = all(
                one["class"] != "COLUMN_REF" and one.get("function_name", "").lower() in {"", *known}
                for one in descendants(node)
            )
            return Item(Computed(value) if constant else value, alias, value.place, alias_place)
        for argument in node.get("arguments", ()):
            if form.call.argument is not None:
                where = f"{form.call.function}(...)"
                check_tree(words.text, form.call.argument.place, argument["expression"], where)
        if form.call.condition is not None:
            check_tree(words.text, form.call.condition.place, node["filter"], "FILTER")
        return Item(form.call, alias, self._place(form.span), alias_place)

    def _check_arguments(self, span: range) -> None:
        """Check the syntax trees of the arguments of aggregates inside larger expressions."""
        for form in (self.calls[i] for i in span if i in self.calls):
            argument, condition = form.call.argument, form.call.condition
            for written, where in ((argument, f"{form.call.function}(...)"), (condition, "FILTER")):
                if written is not None:
                    tree = select_list(self.words.text[written.place.start : written.place.stop])
                    check_tree(self.words.text, written.place, tree, where)

    def _tables(self, tree: Node) -> From:
        """Parse the FROM clause in DuckDB's syntax tree of the SELECT."""
        span = self.parts["FROM"]
        if tree["sample"]:
            raise self.words.refuse(_NO_SOURCE, self.words.tokens[span.start])
        try:
            return read_from(tree["from_table"], self.names, tree["where_clause"])
        except NotJoined as error:
            joins = tree["from_table"]["type"] == "JOIN"
            place = self._place(span) if joins else self.words.tokens[span.start].place
            raise refusal(self.words.text, place, str(error)) from None

    def _expression(self, span: range) -> Expression:
        return Expression(tuple(self.words.tokens[span.start : span.stop]))

    def _place(self, span: range) -> Place:
        return Place(self.words.tokens[span.start].start, self.words.tokens[span.stop - 1].stop)

    def _missing(self, span: range, where: str) -> SqlError:
        return self.words.refuse(f"an expression is missing in {where}", self.words.tokens[span.start])


def _without_any_value(words: Cursor) -> Cursor:
    """Return the tokens without ANY_VALUE around items of the SELECT list, which must be group keys."""
    found = []
    for i in words.outer(range(len(words.tokens) - 1)):
        if words.tokens[i].word == "FROM":
            break
        if words.tokens[i].word == "ANY_VALUE" and is_call(words, i) and not is_window(words, i):
            found.append(range(i, i + 1))
    return words.without(found) if found else words


def _go_on(word: str, before: str) -> str:
    """Suggest the keyword that a misspelled token behind a parsed SELECT may mean."""
    # A word behind a table may be its alias, and what is odd the word behind.
    meant = _OTHER_CLAUSES.get(word) or _OTHER_CLAUSES.get(before) or nearest(word, _CLAUSES)
    return f"; did you mean {meant}?" if meant else ""
