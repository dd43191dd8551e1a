"""Rewrite a private SELECT as plain SQL on its released table.

A private SELECT is released as keys and aggregates. Everything else in it, such as arithmetic with
aggregates, HAVING and ORDER BY, is computed from that table: an aggregate becomes its released column.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from sfumato.dialect.keywords import GROUPINGS, INTERVALS, OPERATORS
from sfumato.dialect.output_formulas import ONLY, FormulaParser, NotFormula
from sfumato.dialect.select_statement import (
    Computed,
    Expression,
    Item,
    Statement,
    StatementChecker,
    WrittenAggregate,
)
from sfumato.dialect.sql_tokens import Place, Token
from sfumato.errors import SqlError, nearest
from sfumato.query.aggregates import Aggregate
from sfumato.query.group_totals import GROUPING
from sfumato.query.schema import quote_name


class Pieces:
    """Released SQL in pieces, each with the place in the text that it comes from."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._starts: list[int] = []
        self._places: list[Place] = []
        self._bytes = 0

    def add(self, written: str, place: Place, gap: bool = True) -> None:
        """Add a piece of released SQL that stands for the tokens at a place."""
        piece = f" {written}" if gap else written
        self._starts.append(self._bytes)
        self._places.append(place)
        self._pieces.append(piece)
        self._bytes += len(piece.encode())

    def word(self, text: str, tokens: Sequence[Token], i: int) -> None:
        """Add a token to the released SQL as written."""
        token = tokens[i]
        gap = not i or tokens[i - 1].stop != token.start
        self.add(text[token.start : token.stop], token.place, gap)

    def extend(self, other: Pieces) -> None:
        """Add all pieces of other released SQL."""
        for piece, place in zip(other._pieces, other._places, strict=True):
            self.add(piece, place, gap=False)

    @property
    def text(self) -> str:
        """The released SQL as one text."""
        return "".join(self._pieces)

    def places(self) -> tuple[tuple[int, ...], tuple[Place, ...]]:
        """Return the byte at which each piece of released SQL begins, and its place in the text."""
        return tuple(self._starts), tuple(self._places)


def locate_byte(places: tuple[tuple[int, ...], tuple[Place, ...]], byte: int) -> Place:
    """Return the place in the text from which a byte of released SQL comes."""
    starts, found = places
    return found[max(0, bisect_right(starts, byte) - 1)]


class FreeNames:
    """Names that released SQL may use, because the text does not.

    Args:
        taken: those that it does, in lower case.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken: set[str] = set(taken)
        self._counts: dict[str, int] = {}

    def fresh(self, stem: str) -> str:
        """Return an unused name for released SQL, and reserve it."""
        name = stem
        while name.casefold() in self.taken:
            self._counts[stem] = self._counts.get(stem, 1) + 1
            name = f"{stem}_{self._counts[stem]}"
        self.taken.add(name.casefold())
        return name


# Between these stands a whole expression, and before an operand one of these or of OPERATORS.
_BOUNDARIES = frozenset(
    ("AS", "ASC", "BY", "CASE", "DESC", "ELSE", "END", "NULLS", "QUALIFY", "THEN", "WHEN")
)


class Keys:
    """Finds the group keys among the tokens of released SQL.

    Args:
        statement: the private SELECT.
        values: what each is, by the name of its released column.
    """

    def __init__(self, statement: Statement, values: Mapping[str, Expression]) -> None:
        self._statement = statement
        self._shapes = {statement.shape(value): name for name, value in values.items()}
        self._lengths = frozenset(map(len, self._shapes))

    def within(self, tokens: Sequence[Token]) -> dict[int, tuple[int, str]]:
        """Return where group keys begin among tokens, with the end and released column of each."""
        found: dict[int, tuple[int, str]] = {}
        for start, stop in (*_names(tokens), *_iter_key_expressions(tokens)):
            if stop - start in self._lengths:
                name = self._shapes.get(self._statement.shape(Expression(tuple(tokens[start:stop]))))
                if name is not None:
                    found[start] = max(found.get(start, (0, "")), (stop, name))
        return found


def _names(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield tokens that stand where released SQL may name a column."""
    for i, token in enumerate(tokens):
        before = tokens[i - 1] if i else None
        after = tokens[i + 1].word if i + 1 < len(tokens) else ""
        operand = (
            before is None
            or (before.kind == "sign" and before.word not in (")", "]", "."))
            or before.word in OPERATORS
            or before.word in _BOUNDARIES
        )
        if token.kind in ("word", "name") and operand and after not in ("(", ".", "BY"):
            yield i, i + 1


def _iter_key_expressions(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the whole expressions among tokens that may be group keys in released SQL."""
    starts = [0]
    for i, token in enumerate(tokens):
        if token.word in ("(", "[", "{"):
            starts.append(i + 1)
        elif token.word in (")", "]", "}"):
            start = starts.pop() if len(starts) > 1 else i
            yield start, i
            called = start > 1 and tokens[start - 2].kind == "word" and token.word == ")"
            if called and not (start > 2 and tokens[start - 3].word == "."):
                yield start - 2, i + 1
        elif token.word == "," or token.word in _BOUNDARIES:
            yield starts[-1], i
            starts[-1] = i + 1
    yield starts[0], len(tokens)


NO_INTERVAL = "write {}(name), with the name of an aggregate or of a formula of aggregates: {}"
Named = dict[str, tuple[Item, Aggregate]]
_BY, _CUTS, _DIGITS = ("ASC", "DESC", "NULLS"), ("LIMIT", "OFFSET", "FETCH"), 8


class Writer(StatementChecker):
    """Writes a private SELECT as plain SQL on its released table.

    Args:
        statement: the private SELECT.
        keys: the released keys, with their items.
        named: aggregates by the name that they are released under; those that are not selected are added.
        ask: makes the aggregate of a call, and its name, at a position of the SELECT list.
        free: the names that the text does not use.
    """

    def __init__(
        self,
        statement: Statement,
        keys: dict[str, Item],
        named: Named,
        ask: Callable[[WrittenAggregate, int], tuple[Aggregate, str]],
        free: FreeNames,
    ) -> None:
        self.statement = statement
        self.named = named
        self.ask = ask
        self.free = free
        self.names: dict[int, str] = {id(item): name for name, item in keys.items()}
        self.keys: Keys = Keys(statement, {name: item.value for name, item in keys.items()})  # type: ignore[misc]
        self.every_key: list[str] = list(keys)
        selected = set(map(id, statement.items))
        self.unselected: list[str] = [name for name, item in keys.items() if id(item) not in selected]
        free.taken.update(name.casefold() for name in (*keys, GROUPING))
        self.bare: dict[str, str] = {}  # the released name of each output, in lower case
        self.by_shape: dict[tuple[str, ...], str] = {}
        for name, (item, aggregate) in named.items():
            self.names[id(item)] = name
            free.taken.update(output.casefold() for output in aggregate.outputs(name))
            self.bare |= {output.casefold(): output for output in aggregate.outputs(name)}
            written = statement.calls[item.place.start][1]
            self.by_shape.setdefault(statement.shape(written), name)
        self.intervals: dict[
            str, tuple[str, bool, str]
        ] = {}  # output, whether the upper end, what it is called
        self.position: int = 0
        self.table: str = free.fresh("released")
        self.row: str = free.fresh("released_row")
        self.bits: str = free.fresh("released_grouping")  # GROUPING of all keys: no name that a text may mean

    @property
    def computing(self) -> bool:
        """Whether the private SELECT needs released SQL, because it computes with what is released."""
        statement = self.statement
        plain = all(id(item) in self.names for item in statement.items) and not self.unselected
        grouping = statement.group_sets is not None  # whose column is no part of the SELECT list
        return not plain or grouping or bool(statement.having or statement.after)

    @property
    def unnamed(self) -> tuple[str, ...]:
        """The columns of the released table that the text cannot name."""
        added = (name for name, (item, _) in self.named.items() if id(item) not in self.names)
        return (self.row, GROUPING, *self.unselected, *self.intervals, *added)

    def computes(self, value: Expression) -> bool:
        """Whether an expression without aggregates is made of released columns."""
        outputs = self.bare.keys() | {name.casefold() for name in self.names.values()}
        tokens = self.statement.unqualified(value)
        named = any(t.kind in ("word", "name") and t.text.casefold() in outputs for t in tokens)
        return named or bool(self.keys.within(tokens))

    def write(
        self, hidden: Iterable[str], whole: Pieces, bare: bool = False
    ) -> tuple[tuple[str, str | None], ...]:
        """Write the private SELECT as SQL on the released table; return its columns, and the released ones.

        Args:
            hidden: columns of the released table that it gives too.
            whole: the SQL that this is added to.
            bare: whether it needs brackets.
        Raises:
            SqlError: an output's name is used twice, or is that of no interval.
        """
        body, columns = self._private()
        place = self.statement.clause_place
        whole.add("(SELECT" if bare else "SELECT", place)
        whole.extend(self._list(columns, body, hidden))
        whole.add(f"FROM {self._source()}", place)
        if self.statement.having is not None:
            whole.add("WHERE (", place)
            self._write(self.statement.having.tokens, whole)
            whole.add(")", place)
        self._after(whole, columns)
        if bare:
            whole.add(")", place, gap=False)
        return tuple((name, released) for name, released, _ in columns)

    def _source(self) -> str:
        """Return the released table for FROM, with its column of grouping bits renamed."""
        if self.statement.group_sets is None:
            return quote_name(self.table)
        bits = f"{quote_name(GROUPING)} AS {quote_name(self.bits)}, * EXCLUDE ({quote_name(GROUPING)})"
        return f"(SELECT {bits} FROM {quote_name(self.table)})"

    def _private(self) -> tuple[list[Pieces], list[tuple[str, str | None, int]]]:
        """Return the SELECT list over the released table: expressions, names and positions."""
        body: list[Pieces] = []
        columns: list[tuple[str, str | None, int]] = []
        seen: set[str] = set()
        for position, item in enumerate(self.statement.items, 1):
            self.position = position
            for name, released, pieces in self._expand_item(item, position):
                if name.casefold() in seen:
                    raise self._twice(name, item)
                seen.add(name.casefold())
                body.append(pieces)
                columns.append((name, released, position))
        return body, columns

    def _expand_item(self, item: Item, position: int) -> list[tuple[str, str | None, Pieces]]:
        """Return the released columns that an item of the SELECT list becomes."""
        if id(item) in self.names:
            name = self.names[id(item)]
            asked = self.named.get(name)
            outputs = asked[1].outputs(name) if asked is not None and asked[0] is item else (name,)
            found: list[tuple[str, str | None, Pieces]] = []
            for output in outputs:
                pieces = Pieces()
                pieces.add(quote_name(output), item.place)
                found.append((output, output, pieces))
            return found
        value = item.value.expression if isinstance(item.value, Computed) else item.value
        assert isinstance(value, Expression)
        pieces = Pieces()
        self._write(value.tokens, pieces)
        name = item.alias or self._default(value, position)
        return [(name, self.formula(self.statement.unqualified(value), name), pieces)]

    def _default(self, value: Expression, position: int) -> str:
        """Return the output name of an expression of released columns without AS."""
        tokens = value.tokens
        if tokens[0].word in INTERVALS and len(tokens) == 4:
            return f"{tokens[2].text}_{'high' if tokens[0].word == INTERVALS[1] else 'low'}"
        return f"column_{position}"

    def _list(
        self, columns: list[tuple[str, str | None, int]], body: list[Pieces], hidden: Iterable[str]
    ) -> Pieces:
        """Write the SELECT list over the released table, with hidden columns behind it."""
        place = self.statement.clause_place
        whole = Pieces()
        for i, ((name, _, _), pieces) in enumerate(zip(columns, body, strict=True)):
            if i:
                whole.add(",", place, gap=False)
            whole.extend(pieces)
            whole.add(f"AS {quote_name(name)}", place)
        for name in hidden:
            whole.add(f", {quote_name(name)}", place, gap=False)
        return whole

    def _after(self, whole: Pieces, columns: list[tuple[str, str | None, int]]) -> None:
        """Write QUALIFY, ORDER BY and LIMIT over the released table, whose order is the default."""
        after = self.statement.after
        tokens = [] if after is None else self.statement.unqualified(after)
        depth, order, cut = 0, None, len(tokens)
        for i, token in enumerate(tokens):
            depth += (token.word in ("(", "[")) - (token.word in (")", "]"))
            if not depth and token.word == "ORDER" and tokens[i + 1].word == "BY":
                order = i
            if not depth and token.word in _CUTS and cut == len(tokens):
                cut = i
        place = self.statement.clause_place
        self._write(tokens[: cut if order is None else order], whole)
        if order is None:
            whole.add(f"ORDER BY {quote_name(self.row)}", place)
        else:
            whole.add("ORDER BY", tokens[order].place)
            self._terms(tokens[order + 2 : cut], whole, columns)
            if [token.word for token in tokens[order + 2 : order + 3]] != ["ALL"]:
                whole.add(f", {quote_name(self.row)}", place)
        self._write(tokens[cut:], whole)

    def _terms(self, tokens: list[Token], whole: Pieces, columns: list[tuple[str, str | None, int]]) -> None:
        """Write the terms of ORDER BY over the released table: positions and names are those of the list."""
        depth, start = 0, 0
        names = {name.casefold(): name for name, _, _ in columns}
        positions: dict[int, str] = {}
        for name, _, position in columns:
            positions.setdefault(position, name)
        for i in range(len(tokens) + 1):
            token = tokens[i] if i < len(tokens) else None
            if token is not None:
                depth += (token.word in ("(", "[")) - (token.word in (")", "]"))
            if token is not None and (depth or token.word != ","):
                continue
            term = tokens[start:i]
            alone = len(term) == 1 or (len(term) > 1 and term[1].word in _BY)
            if alone and term[0].kind == "number" and term[0].text.isdigit():
                at = int(term[0].text) if len(term[0].text) < _DIGITS else 0
                if at not in positions:
                    many = max(positions)
                    message = f"ORDER BY {term[0].text}: the SELECT list has only {many} entries"
                    raise self._refuse(term[0].place, message)
                whole.add(quote_name(positions[at]), term[0].place)
                term = term[1:]
            elif alone and term[0].kind in ("word", "name") and term[0].text.casefold() in names:
                whole.add(quote_name(names[term[0].text.casefold()]), term[0].place)
                term = term[1:]
            self._write(term, whole)
            if token is not None:
                whole.add(",", token.place, gap=False)
            start = i + 1

    def _write(self, words: Iterable[Token], whole: Pieces) -> None:
        """Write tokens with released columns in place of group keys and aggregates."""
        text, tokens = self.statement.text, self.statement.unqualified(Expression(tuple(words)))
        keys = self.keys.within(tokens)
        i = 0
        while i < len(tokens):
            token = tokens[i]
            gap = not i or tokens[i - 1].stop != token.start
            interval = self.interval(tokens, i)
            if token.start in self.statement.calls:
                stop, written, call = self.statement.calls[token.start]
                whole.add(quote_name(self._release_aggregate(written, call)), Place(token.start, stop), gap)
                while i < len(tokens) and tokens[i].start < stop:
                    i += 1
            elif token.word in GROUPINGS and i + 1 < len(tokens) and tokens[i + 1].word == "(":
                stop, bits = self._grouping(tokens, i, keys)
                whole.add(bits, Place(token.start, tokens[stop - 1].stop), gap)
                i = stop
            elif interval is not None:
                whole.add(quote_name(interval[1]), Place(token.start, tokens[interval[0] - 1].stop), gap)
                i = interval[0]
            elif i in keys:
                stop, name = keys[i]
                whole.add(quote_name(name), Place(token.start, tokens[stop - 1].stop), gap)
                i = stop
            else:
                whole.word(text, tokens, i)
                i += 1

    def _release_aggregate(self, written: Expression, call: WrittenAggregate) -> str:
        """Return the released column of an aggregate; calls written alike share one."""
        shape = self.statement.shape(written)
        if shape not in self.by_shape:
            aggregate, stem = self.ask(call, self.position)
            name = self.free.fresh(stem)
            item = Item(call, None, written.place, written.place)
            self.named[name] = (item, aggregate)
            self.by_shape[shape] = name
        name = self.by_shape[shape]
        outputs = self.named[name][1].outputs(name)
        if len(outputs) > 1:
            shown = f"{call.function}(...) AS x, and compute with {self.named[name][1].outputs('x')[0]}"
            if call.function in ("QUANTILES", "APPROX_QUANTILES", "ANON_QUANTILES"):
                shown = "PERCENTILE_CONT(x, 0.5, contribution_bounds_per_row => (lower, upper))"
            message = f"{call.function} gives {len(outputs)} columns, so it cannot be computed with. Write "
            raise self._refuse(written.place, message + shown)
        return outputs[0]

    def _grouping(
        self, tokens: Sequence[Token], i: int, keys: Mapping[int, tuple[int, str]]
    ) -> tuple[int, str]:
        """Return GROUPING(key, ...) as an expression of the released table's grouping bits."""
        token, at, bits, every = tokens[i], i + 2, list[str](), self.every_key
        if self.statement.group_sets is None:
            raise self._refuse(token.place, f"{token.word} is for GROUP BY ROLLUP, CUBE or GROUPING SETS")
        named = {name.casefold(): name for name in every}
        while (found := keys.get(at) or _named_key(tokens, at, named)) is not None:
            at, name = found
            bits.append(f"(({quote_name(self.bits)} >> {len(every) - 1 - every.index(name)}) & 1)")
            if at + 1 < len(tokens) and tokens[at].word == ",":
                at += 1
            else:
                break
        if not bits or at >= len(tokens) or tokens[at].word != ")":
            raise self._refuse(
                token.place, f"{token.word} takes group keys: {token.word}({', '.join(every)})"
            )
        added = (f"{bit} << {len(bits) - 1 - j}" for j, bit in enumerate(bits))
        return at + 1, f"({' | '.join(f'({one})' for one in added)})"

    # Error bars.

    def interval(self, tokens: list[Token], i: int) -> tuple[int, str] | None:
        """Return the released column of DP_INTERVAL_LOW(...) or DP_INTERVAL_HIGH(...), and the next token."""
        token = tokens[i]
        if token.word not in INTERVALS or i + 1 >= len(tokens) or tokens[i + 1].word != "(":
            return None
        at, output = self.combined(token, tokens, i + 2)
        if at >= len(tokens) or tokens[at].word != ")":
            raise self._refuse(token.place, NO_INTERVAL.format(token.word, ONLY))
        high = token.word == INTERVALS[1]
        for name, known in self.intervals.items():
            if known[:2] == (output, high):
                return at + 1, name
        name = self.free.fresh(f"{token.text.lower()}_{output}")
        self.intervals[name] = output, high, output
        return at + 1, name

    @property
    def entries(self) -> dict[str, str]:
        """The names in the SELECT list that have error bars: outputs and formulas of outputs."""
        items = (i for i in self.statement.items if i.alias and isinstance(i.value, Computed | Expression))
        computed = {i.alias.casefold(): i.alias for i in items if i.alias and id(i) not in self.names}
        return computed | self.bare

    def _find_formula(self, name: Token) -> list[Token] | None:
        """Return the tokens of the formula that a name of the SELECT list stands for; None for outputs."""
        if name.kind not in ("word", "name") or name.text.casefold() in self.bare:
            return None
        for item in self.statement.items:
            value = item.value.expression if isinstance(item.value, Computed) else item.value
            if isinstance(value, Expression) and (item.alias or "").casefold() == name.text.casefold():
                return self.statement.unqualified(value)
        return None

    def formula(self, tokens: Sequence[Token], name: str) -> str | None:
        """Return the column that is released for the error bar of a named expression; None if it has none."""
        if [token.word for token in tokens[:2]] == ["ROUND", "("] and tokens[-1].word == ")":
            places = len(tokens) > 4 and tokens[-3].word == "," and tokens[-2].kind == "number"
            tokens = tokens[2 : -3 if places else -1]
        with suppress(SqlError, IndexError):
            return self.combined(tokens[0], tokens, 0, name)[1]
        return None

    def combined(
        self, interval: Token, tokens: Sequence[Token], start: int, name: str = ""
    ) -> tuple[int, str]:
        """Parse a formula of outputs and return the column that is released for its error bar.

        Args:
            interval: the word that a refusal names.
            tokens, start: where the formula begins.
            name: what the text calls it, if it has to be all of them.
        """
        output = partial(self._output, interval)
        try:
            at, found = FormulaParser(tokens, output, self._find_formula).sum(start)
            if found.number is not None or (name and at < len(tokens)):
                raise NotFormula("a number has no error bar. Name an output")
            asked = found.aggregate()
        except NotFormula as error:
            raise self._refuse(interval.place, f"{interval.word}: {error}") from None
        except RecursionError:
            raise self._refuse(interval.place, "it is nested too deeply") from None
        if isinstance(asked, str):
            return at, asked
        written = tokens[start:at]
        return at, self._derive_column(asked, written, name or ("" if len(written) > 1 else written[0].text))

    def _derive_column(self, aggregate: Aggregate, written: Sequence[Token], called: str) -> str:
        """Return the released column of a formula of outputs; equal formulas share one."""
        for name, (_, known) in self.named.items():
            if known == aggregate:
                return name
        name = self.free.fresh(f"{called}_computed" if called else "computed")
        words = Expression(tuple(written))
        self.named[name] = Item(words, None, words.place, words.place), aggregate
        return name

    def _output(self, interval: Token, tokens: Sequence[Token], at: int) -> tuple[int, str]:
        """Return the released column of an output in a formula, and the next token."""
        if at < len(tokens) and tokens[at].start in self.statement.calls:
            stop, written, call = self.statement.calls[tokens[at].start]
            while at < len(tokens) and tokens[at].start < stop:
                at += 1
            return at, self._release_aggregate(written, call)
        asked = tokens[at] if at < len(tokens) else interval
        output = self.bare.get(asked.text.casefold(), "") if asked.kind in ("word", "name") else ""
        if not output:
            raise self._refuse(asked.place, no_output(interval, asked, self.bare))
        return at + 1, output


def _named_key(tokens: Sequence[Token], at: int, named: Mapping[str, str]) -> tuple[int, str] | None:
    """Return the released column of a group key that is named by its alias, and the next token."""
    token = tokens[at] if at < len(tokens) else None
    if token is None or token.kind not in ("word", "name") or token.text.casefold() not in named:
        return None
    return at + 1, named[token.text.casefold()]


def no_output(interval: Token, name: Token, outputs: Mapping[str, str]) -> str:
    """Return the message that DP_INTERVAL_LOW or DP_INTERVAL_HIGH needs the name of an output."""
    near = nearest(name.text.casefold(), outputs)
    listed = ", ".join(outputs.values()) or "none here"
    known = f"did you mean {outputs[near]}?" if near else f"they are: {listed}"
    return f"{interval.text} takes the name of an aggregate in the SELECT list; {known}"
