"""SQL text -> syntax tree: the clauses of a differentially private SELECT, each part with its place.

The clauses are BigQuery's and ZetaSQL's; they are read here. What stands between them, expressions of one
row, is DuckDB's SQL: sqlglot's DuckDB parser (pinned: its methods are not public) finds where each ends
and what is in it, and the text itself is kept as it was written. Nothing is ever generated from the tree
of sqlglot.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import SqlError, nearest
from sfumato.query.sql.syntax import Bounds, Call, Expression, Item, Literal, Place, Statement, refusal
from sfumato.query.sql.vocabulary import (
    BOUNDS,
    CLAUSES,
    CLOSING,
    END,
    NO_NUMBER,
    NOT_PRIVATE,
    OPENING,
    PRIVATE,
    REFUSED_CLAUSES,
)


def read(text: str) -> Statement:
    """Read one SELECT WITH DIFFERENTIAL_PRIVACY or WITH ANONYMIZATION.

    Args:
        text: the SQL text.
    Returns:
        Its syntax tree.
    Raises:
        SqlError: it has another form; the text says where and what to write instead.
    """
    try:
        tokens = _Tokenizer(dialect="duckdb").tokenize(text)
    except TokenError as error:
        opened = re.search(r":(\d+)$", str(error.__cause__))  # the quote's offset; a comment has none
        at = min(int(opened[1]) if opened else len(text), len(text))
        raise refusal(text, Place(at, at + 1), "a quote or comment is opened and does not end") from error
    _check_gaps(text, tokens)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    return _Parser(text, tokens).statement()


class _Tokenizer(DuckDB.Tokenizer):
    """DuckDB's words, and BigQuery's backticks (which DuckDB 2.0 knows too)."""

    IDENTIFIERS = ['"', "`"]  # noqa: RUF012  sqlglot's own way of declaring a dialect


def _check_gaps(text: str, tokens: Sequence[Token]) -> None:
    # sqlglot also skips Jinja comments, which DuckDB would read as code.
    stop = 0
    for token in [*tokens, None]:
        start = len(text) if token is None else token.start
        gap = text[stop:start]
        uncommented = re.sub(r"--[^\r\n]*|/\*.*?\*/", "", gap, flags=re.DOTALL)
        if gap.strip() and ("{#" in uncommented or not gap.lstrip().startswith(("--", "/*"))):
            at = stop + len(gap) - len(gap.lstrip())
            raise refusal(
                text, Place(at, at + 1), "unexpected text; comments are written -- ... or /* ... */"
            )
        if token is not None:
            stop = token.end + 1


class _Parser(DuckDBParser):
    """The clauses by hand, the expressions between them by sqlglot."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        super().__init__(dialect="duckdb")
        self.reset()
        self.sql = text
        self._tokens = tokens
        self._tokens_size = len(tokens)
        self._index = -1
        self._advance()

    # The parts of a statement, in the order in which they are written.

    def statement(self) -> Statement:
        if self._at(TokenType.WITH):
            raise self._refuse("WITH before SELECT: write the query on the table itself, or make a view")
        if not self._match(TokenType.SELECT):
            raise self._refuse("a question begins with SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (...)")
        clause, clause_place, options = self._privacy_clause()
        self._match(TokenType.ALL)
        if self._curr.token_type in (TokenType.DISTINCT, TokenType.ALIAS):
            raise self._refuse(f"SELECT {self._curr.text}: leave it out; groups are distinct already")
        items = [self._item()]
        while self._match(TokenType.COMMA) and not self._at(TokenType.FROM):
            items.append(self._item())
        source, alias = self._from()
        where = self._expression("WHERE") if self._match(TokenType.WHERE) else None
        keys, everything = self._group_by()
        if self._curr:
            raise self._refuse(self._what_ends_here())
        return Statement(
            self.sql,
            clause,
            clause_place,
            options,
            tuple(items),
            source,
            alias,
            where,
            tuple(keys),
            everything,
        )

    def _privacy_clause(self) -> tuple[str, Place, tuple[tuple[Literal, Literal], ...]]:
        if not self._match(TokenType.WITH):
            raise self._refuse(
                "the privacy clause is missing: write SELECT WITH DIFFERENTIAL_PRIVACY "
                "OPTIONS (epsilon = ..., delta = ..., privacy_unit_column = ...) before the columns"
            )
        clause, place = self._curr.text.upper(), self._place(self._curr)
        if clause not in CLAUSES:
            near = nearest(clause, CLAUSES)
            raise self._refuse(
                f"WITH {self._curr.text} is not a privacy clause; "
                + (f"did you mean {near}?" if near else "write WITH DIFFERENTIAL_PRIVACY OPTIONS (...)")
            )
        self._advance()
        if not (self._match_text_seq("OPTIONS") and self._match(TokenType.L_PAREN)):
            raise self._refuse(
                f"write OPTIONS (epsilon = ..., privacy_unit_column = ...) after WITH {clause}"
            )
        options: list[tuple[Literal, Literal]] = []
        while not self._at(TokenType.R_PAREN):
            if options and not self._match(TokenType.COMMA):
                raise self._refuse("a comma or ) is missing between options")
            name = Literal(self._curr.text.lower(), "name", self._place(self._curr))
            if not re.fullmatch(r"\w+", name.text):
                raise self._refuse("an option is written name = value, such as epsilon = 1")
            self._advance()
            if not self._match(TokenType.EQ):
                raise self._refuse(f"an option is written name = value, such as {name.text} = 1")
            options.append((name, self._option_value()))
        self._advance()
        return clause, place, tuple(options)

    def _option_value(self) -> Literal:
        token = self._curr
        if token.token_type in (TokenType.NUMBER, TokenType.DASH, TokenType.PLUS, TokenType.DOT):
            return self._number("an option")
        if not token or token.token_type in CLOSING or token.token_type == TokenType.COMMA:
            raise self._refuse("an option's value is missing")
        kind = {TokenType.STRING: "text", TokenType.IDENTIFIER: "name"}.get(token.token_type, "word")
        self._advance()
        last = token
        while self._match(TokenType.DOT):
            last, kind = self._curr, "name"
            self._advance()
        if not last:
            raise self._refuse("an option's value is missing")
        return Literal(last.text, kind, Place(token.start, last.end + 1))

    def _item(self) -> Item:
        start = self._curr
        name = start.text.upper()
        call = self._next.token_type == TokenType.L_PAREN and start.token_type not in self._quoted
        if call and name in NOT_PRIVATE:
            raise self._refuse(f"{name} is not a private aggregate: {NOT_PRIVATE[name]}")
        if start.token_type == TokenType.STAR:
            raise self._refuse("SELECT *: name the group keys and the aggregates one by one")
        value = self._call() if call and name in PRIVATE else self._expression("the SELECT list")
        if isinstance(value, Call):
            self._check_end_of_call(start)
        stop, alias = self._prev.end + 1, None
        alias_place = Place(start.start, stop)
        if self._match(TokenType.ALIAS) or self._curr.token_type in self._alias_tokens:
            alias, alias_place = self._curr.text, self._place(self._curr)
            if not self._match_set(self.ID_VAR_TOKENS | {TokenType.IDENTIFIER}):
                raise self._refuse("a name is missing after AS")
            if not alias.strip():
                raise refusal(self.sql, alias_place, "an empty name")
        return Item(value, alias, Place(start.start, stop), alias_place)

    def _call(self) -> Call:
        token = self._curr
        function, argument = token.text.upper(), None
        self._advance(2)
        if self._at(TokenType.R_PAREN):
            example = "COUNT(*)" if function.endswith("COUNT") else f"{function}(column, ...)"
            raise self._refuse(f"{function} of nothing; write {example}")
        distinct = self._match(TokenType.DISTINCT)
        if not self._match(TokenType.STAR):
            argument = self._expression(f"{function}(...)")
        ranks: list[Literal] = []
        listed, bounds = False, None
        while not self._at(TokenType.R_PAREN):
            if self._match_text_seq("CLAMPED"):
                given = self._clamped(self._prev)
            elif not self._match(TokenType.COMMA):
                raise self._refuse(f"a comma or ) is missing in {function}(...)")
            elif self._next.token_type == TokenType.FARROW:
                given = self._named_bounds()
            elif bounds or ranks:
                raise self._refuse(f"{function} takes no further argument here")
            else:
                listed = self._match(TokenType.L_BRACKET)
                ranks = self._ranks(function) if listed else [self._number(f"{function}'s second argument")]
                continue
            if bounds:
                raise refusal(self.sql, given.place, f"{function} has bounds twice; keep one")
            bounds = given
        self._advance()
        return Call(function, argument, distinct, tuple(ranks), listed, bounds, self._place(token))

    def _ranks(self, function: str) -> list[Literal]:
        ranks = [self._number("a rank")]
        while self._match(TokenType.COMMA):
            ranks.append(self._number("a rank"))
        if not self._match(TokenType.R_BRACKET):
            raise self._refuse(f"a comma or ] is missing in the ranks of {function}")
        return ranks

    def _clamped(self, token: Token) -> Bounds:
        if not self._match(TokenType.BETWEEN):
            raise self._refuse("write CLAMPED BETWEEN lower AND upper")
        lower = self._number("a bound")
        if not self._match(TokenType.AND):
            raise self._refuse("write CLAMPED BETWEEN lower AND upper")
        upper = self._number("a bound")
        return Bounds("clamped", lower, upper, Place(token.start, self._prev.end + 1))

    def _named_bounds(self) -> Bounds:
        token = self._curr
        name = token.text.lower()
        if name not in BOUNDS:
            near = nearest(name, BOUNDS)
            raise self._refuse(
                f"there is no argument {token.text}; "
                + (f"did you mean {near}?" if near else f"there are {' and '.join(BOUNDS)}")
            )
        self._advance(2)
        if not self._match(TokenType.L_PAREN):
            raise self._refuse(f"write {name} => (lower, upper), with two numbers")
        lower = self._number("a bound")
        if not self._match(TokenType.COMMA):
            raise self._refuse(f"write {name} => (lower, upper), with two numbers")
        upper = self._number("a bound")
        if not self._match(TokenType.R_PAREN):
            raise self._refuse(f"write {name} => (lower, upper), with two numbers")
        return Bounds(name, lower, upper, Place(token.start, self._prev.end + 1))

    def _number(self, what: str) -> Literal:
        start = self._curr
        sign = start.text if start.token_type in (TokenType.DASH, TokenType.PLUS) else ""
        if sign:
            self._advance()
        point = self._match(TokenType.DOT)
        glued = not point or self._prev.end + 1 == self._curr.start
        if not self._match(TokenType.NUMBER) or not glued:
            place = self._place(self._curr if sign and self._curr else start)
            raise refusal(self.sql, place, f"{what} {NO_NUMBER}")
        last = self._prev
        text = sign + ("." if point else "") + last.text
        place = Place(start.start, last.end + 1)
        exponent = re.search(r"e([+-]?\d+)$", text, re.IGNORECASE)
        if len(text) > 1000 or (exponent and (len(exponent[1]) > 5 or abs(int(exponent[1])) > 5000)):
            raise refusal(self.sql, place, f"{what} is out of all range")
        try:
            Fraction(text)
        except ValueError as error:
            raise refusal(self.sql, place, f"{what} {NO_NUMBER}") from error
        return Literal(text, "number", place)

    def _from(self) -> tuple[str, str | None]:
        if not self._match(TokenType.FROM):
            raise self._refuse("FROM is missing: write FROM 'file.parquet' or FROM table after the columns")
        token = self._curr
        if token.token_type == TokenType.L_PAREN:
            raise self._refuse("a subquery: write the query on the table itself, or make a view")
        if not self._match_set(self.ID_VAR_TOKENS | {TokenType.STRING, TokenType.IDENTIFIER}):
            raise self._refuse("name a file or a table here: FROM 'file.parquet' or FROM table")
        parts, implicit = [token.text], token.token_type != TokenType.STRING
        while implicit and self._match(TokenType.DOT):
            if not self._match_set(self.ID_VAR_TOKENS | {TokenType.IDENTIFIER}):
                raise self._refuse("a name is missing after the dot")
            parts.append(self._prev.text)
        if self._at(TokenType.L_PAREN):
            raise self._refuse("a table function: write the file's path itself, FROM 'file.parquet'")
        if self._at(TokenType.DASH):
            raise self._refuse("a name with a dash is written in quotes: FROM `my-project.table`")
        source = ".".join(parts)
        if not source.strip():
            raise refusal(self.sql, self._place(token), "the file or table has no name")
        alias = source.rsplit(".", 1)[-1] if implicit else None
        if self._match(TokenType.ALIAS) or self._curr.token_type in self._alias_tokens - set(REFUSED_CLAUSES):
            alias = self._curr.text
            if not self._match_set(self.TABLE_ALIAS_TOKENS | {TokenType.IDENTIFIER}):
                raise self._refuse("a name is missing after AS")
        return source, alias

    def _group_by(self) -> tuple[list[Expression], bool]:
        if not self._match(TokenType.GROUP_BY):
            return [], False
        if self._match(TokenType.ALL):
            return [], True
        if self._curr.text.upper() in ("ROLLUP", "CUBE", "GROUPING SETS", "GROUPING"):
            raise self._refuse(f"{self._curr.text.upper()}: ask each grouping by itself")
        keys = [self._expression("GROUP BY")]
        while self._match(TokenType.COMMA):
            keys.append(self._expression("GROUP BY"))
        return keys, False

    # Expressions of one row.

    def _expression(self, where: str) -> Expression:
        start, first = self._index, self._curr
        if not first:
            raise self._refuse(f"an expression is missing in {where}")
        self._scan(where)
        try:
            node = self._parse_disjunction()
        except RecursionError as error:
            raise refusal(self.sql, self._place(first), "an expression is nested too deeply") from error
        except Exception as error:  # whatever sqlglot stumbles over, the expression is not understood
            raise self._refuse(f"this is not understood as an expression in {where}") from error
        if node is None or self._index == start:
            raise self._refuse(f"an expression is missing in {where}")
        place = Place(first.start, self._prev.end + 1)
        self._check_row(node, place, where)
        tokens = tuple(self._tokens[start : self._index])
        return Expression(tokens, isinstance(node, exp.Column), place)

    def _scan(self, where: str) -> None:
        """Refuse what is never in an expression of one row, at its own place."""
        depth = 0
        for i in range(self._index, len(self._tokens)):
            token = self._tokens[i]
            kind, name = token.token_type, token.text.upper()
            depth += (kind in OPENING) - (kind in CLOSING)
            ends = kind == TokenType.COMMA or kind in END or kind == TokenType.FROM
            distinct_from = i > 0 and self._tokens[i - 1].token_type == TokenType.DISTINCT
            if depth < 0 or (depth == 0 and ends and not distinct_from):
                return
            if kind == TokenType.SELECT:
                raise refusal(self.sql, self._place(token), f"a subquery in {where}: not private here")
            called = i + 1 < len(self._tokens) and self._tokens[i + 1].token_type == TokenType.L_PAREN
            if called and kind not in self._quoted and (name in PRIVATE or name in NOT_PRIVATE):
                raise refusal(self.sql, self._place(token), _misplaced_aggregate(name, where))
            if kind == TokenType.OVER:
                raise refusal(self.sql, self._place(token), "a window function: not private here")

    def _check_row(self, node: exp.Expr, place: Place, where: str) -> None:
        for kinds, message in (
            ((exp.AggFunc,), f"an aggregate in an expression of {where}: only a row's own columns are known"),
            ((exp.Window,), "a window function: not private here"),
            ((exp.Query, exp.Subquery, exp.Exists), f"a subquery in {where}: not private here"),
            ((exp.Star, exp.Columns), f"a * in {where}: name the column"),
            ((exp.Placeholder, exp.Parameter), "a parameter: write the value itself"),
        ):
            if node.find(*kinds):
                raise refusal(self.sql, place, message)

    # What all parts share.

    _quoted = frozenset({TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.HEREDOC_STRING})
    _alias_tokens = frozenset({TokenType.VAR, TokenType.IDENTIFIER})

    def _check_end_of_call(self, start: Token) -> None:
        token = self._curr
        if token.token_type in (TokenType.COMMA, TokenType.FROM, TokenType.ALIAS, *self._alias_tokens):
            if token.token_type != TokenType.VAR or self._next.token_type != TokenType.L_PAREN:
                return
        elif not token or token.token_type in REFUSED_CLAUSES or token.token_type in END:
            return
        if token.token_type == TokenType.OVER:
            raise self._refuse("a window function: not private here")
        if token.token_type == TokenType.FILTER or token.text.upper() == "FILTER":
            raise self._refuse("FILTER: write the condition in WHERE, or COUNT(CASE WHEN ... THEN 1 END)")
        raise self._refuse(
            f"{start.text.upper()} inside a larger expression: ask for it alone, and compute with the result"
        )

    def _what_ends_here(self) -> str:
        kind = self._curr.token_type
        if kind in REFUSED_CLAUSES:
            return REFUSED_CLAUSES[kind]
        if kind == TokenType.WHERE:
            return "WHERE comes before GROUP BY"
        return "the question should end here"

    def _at(self, kind: TokenType) -> bool:
        return self._curr.token_type == kind

    def _refuse(self, message: str) -> SqlError:
        if self._curr:
            return refusal(self.sql, self._place(self._curr), message)
        stop = self._prev.end + 1 if self._prev else 0
        return refusal(self.sql, Place(stop, stop + 1), message)

    def _place(self, token: Token) -> Place:
        return Place(token.start, token.end + 1)


def _misplaced_aggregate(name: str, where: str) -> str:
    if where in ("WHERE", "GROUP BY"):
        return f"{name} in {where}: it sees single rows, before they are grouped"
    if where.endswith("(...)"):
        return f"{name} inside {where}: an aggregate takes an expression of one row"
    return f"{name} inside a larger expression: ask for it alone, and compute with the result"
