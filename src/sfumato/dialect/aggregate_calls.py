"""Parse calls of private aggregates: argument, ranks, bounds, named arguments and FILTER, as tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.dialect.keywords import (
    BOUNDS,
    COLUMN,
    CUMULATIVE,
    FORM,
    LARGEST,
    NUMBER,
    NUMBERS,
    OPERATORS,
    PRIVATE,
    STRATA,
    TRUTH,
    VALUES,
    named_arguments,
    takes,
)
from sfumato.dialect.select_statement import Bounds, Expression, Truth, WrittenAggregate
from sfumato.dialect.sql_tokens import Cursor, Literal, Place, refusal
from sfumato.errors import nearest
from sfumato.names import foreign_names

_BOUNDS_FORM = f"write bounds as {BOUNDS[1]} => (lower, upper)"
_CLAMPED = "write CLAMPED BETWEEN lower AND upper"
# Lists of quantiles, and the function that gives one of them.
_IN_PLACES = {"APPROX_QUANTILES": "PERCENTILE_CONT", "ANON_QUANTILES": "ANON_PERCENTILE_CONT"}


@dataclass(frozen=True)
class CallForm:
    """A parsed call of a private aggregate, and which tokens it has.

    Args:
        call: what is written.
        span: all of its words.
        argument: those of its argument.
        private: those that no other SQL has, such as ranks and bounds.
        condition: those of FILTER (WHERE condition), where it has one.
    """

    call: WrittenAggregate
    span: range
    argument: range
    private: tuple[range, ...]
    condition: range | None = None

    @property
    def expressions(self) -> tuple[range, ...]:
        """The tokens of the call's argument and of its FILTER condition."""
        argument = (self.argument,) if self.call.argument is not None else ()
        return argument if self.condition is None else (*argument, self.condition)


def is_call(words: Cursor, i: int) -> bool:
    """Whether a token is called as a function."""
    return words.tokens[i].kind == "word" and i + 1 in words.closing and words.tokens[i + 1].word == "("


def is_window(words: Cursor, i: int) -> bool:
    """Whether a call is followed by OVER, so that it is a window function and no aggregate call."""
    tokens, after = words.tokens, words.closing[i + 1] + 1
    if tokens[after].word == "FILTER" and after + 1 in words.closing:
        after = words.closing[after + 1] + 1
    while tokens[after].word in ("IGNORE", "RESPECT", "NULLS"):
        after += 1
    return tokens[after].word == "OVER"


def read_calls(words: Cursor, span: range) -> list[CallForm]:
    """Parse the calls of private aggregates among some tokens, without calls nested in others."""
    found: list[CallForm] = []
    i = span.start
    while i < span.stop:
        word = words.tokens[i].word
        if is_call(words, i) and word in (*CUMULATIVE, *LARGEST) and is_window(words, i):
            raise words.refuse(f"{word} takes no OVER. Leave it out", words.tokens[i])
        if is_call(words, i) and word in PRIVATE and not is_window(words, i):
            found.append(_with_place(words, _call(words, i)))
            i = found[-1].span.stop - 1
        i += 1
    return found


def _call(words: Cursor, name: int) -> CallForm:
    """Parse one call of a private aggregate, from its name to the closing bracket or FILTER."""
    token, stop = words.tokens[name], words.closing[name + 1]
    function = token.word
    words.at = name + 2
    if words.at == stop:
        counts = function.endswith("COUNT") and function not in LARGEST
        example = f"{function}(*)" if counts else f"{function}(column, ...)"
        raise words.refuse(f"{function} of nothing; write {example}")
    distinct, first = words.take("DISTINCT"), words.at
    start, star = _read_argument(words, function, stop, distinct)
    argument = range(start, words.at)
    others = _others(words, function) if function == LARGEST[1] or takes(function, "bounds") else ()
    ranks: list[Literal] = []
    listed, bounds = False, None
    named: dict[str, Any] = {}
    places: dict[str, Place] = {}
    while words.at < stop:
        if words.take("CLAMPED"):
            given = _parse_clamped(words)
        elif not words.take(","):
            raise words.refuse(f"a comma or ) is missing in {function}(...)")
        elif words.after.word == "=>" and _named(words, function, named, places):
            continue
        elif words.after.word == "=>":
            given = _parse_bounds(words, function)
        elif bounds or ranks:
            raise words.refuse(f"{function} takes no further argument; {_BOUNDS_FORM}")
        else:
            listed = words.take("[")
            ranks = _ranks(words, function) if listed else [_rank(words, function)]
            continue
        if bounds:
            raise refusal(words.text, given.place, f"{function} has bounds twice; keep one")
        bounds = given
    ordered = _ordered(words, stop + 1)
    if ordered is not None:
        ranks, argument = [_rank_of(words, function, argument, ranks, ordered)], ordered
        first, start, stop = min(first, start), ordered.start, words.closing[ordered.start - 3]
    expression = None if star else Expression(tuple(words.tokens[argument.start : argument.stop]))
    condition = _condition(words, function, stop + 1)
    filtered = (
        None if condition is None else Expression(tuple(words.tokens[condition.start : condition.stop]))
    )
    end = stop + 1 if condition is None else condition.stop + 1
    call = WrittenAggregate(
        function,
        expression,
        distinct,
        tuple(ranks),
        listed,
        bounds,
        name_place=token.place,
        others=others,
        named=named,
        places=places,
        condition=filtered,
    )
    private = range(first, start), range(argument.stop, stop)
    return CallForm(call, range(name, end), argument, private, condition)


def _condition(words: Cursor, function: str, behind: int) -> range | None:
    """Return the tokens of the condition in FILTER (WHERE condition) behind an aggregate call."""
    tokens, opening = words.tokens, behind + 1
    if tokens[behind].word != "FILTER" or opening not in words.closing:
        return None
    found = range(opening + 2, words.closing[opening])
    if tokens[opening + 1].word != "WHERE" or not found:
        raise words.refuse(f"write {function}(...) FILTER (WHERE condition)", tokens[opening])
    if function in (*LARGEST, "STRATIFIED_PROPORTION"):
        raise words.refuse(f"{function} takes no FILTER. Write its condition in WHERE", tokens[behind])
    return found


def _read_argument(words: Cursor, function: str, stop: int, distinct: bool) -> tuple[int, bool]:
    """Parse the first argument of an aggregate call; return where it begins, and whether it is a star."""
    if not distinct and words.after.word != "(":  # which ALL (SELECT ...) has
        words.take("ALL")
    start, star = words.at, words.take("*")
    if not star:
        words.at = _end_of_argument(words, stop)
        if words.at == start:
            raise words.refuse(f"an expression is missing in {function}(...)")
    return start, star


def _with_place(words: Cursor, form: CallForm) -> CallForm:
    """Return a call of APPROX_QUANTILES with the [OFFSET(i)] behind it, as a call for one rank."""
    call, behind = form.call, form.span.stop
    if call.function not in _IN_PLACES or call.listed or words.tokens[behind].word != "[":
        return form
    place = range(behind, words.closing[behind] + 1)
    rank = _rank_of_place(words, call, place)
    if rank is None:
        return form
    call = replace(call, function=_IN_PLACES[call.function], ranks=(rank,))
    return replace(form, call=call, span=range(form.span.start, place.stop), private=(*form.private, place))


def _rank_of_place(words: Cursor, call: WrittenAggregate, place: range) -> Literal | None:
    """Return the rank that [OFFSET(i)] behind APPROX_QUANTILES takes; None for other subscripts."""
    opening = words.tokens[place.start + 1]
    first = {"OFFSET": 0, "ORDINAL": 1}.get(opening.word.removeprefix("SAFE_"))
    if first is None or len(place) != 6 or not call.ranks or not call.ranks[0].text.isdigit():
        return None
    written, pieces = words.tokens[place.start + 3], int(call.ranks[0].text)
    if not written.text.isdigit() or not 0 <= int(written.text) - first <= pieces or not pieces:
        raise words.refuse(
            f"{call.function} has {pieces + 1} values. Write {opening.word}({first}) to "
            f"{opening.word}({pieces + first})",
            written,
        )
    return Literal(repr((int(written.text) - first) / pieces), "number", written.place)


def _ordered(words: Cursor, behind: int) -> range | None:
    """Return the tokens of x in WITHIN GROUP (ORDER BY x) behind an aggregate call, with ASC or DESC."""
    tokens, opening = words.tokens, behind + 2
    if [token.word for token in tokens[behind : behind + 2]] != ["WITHIN", "GROUP"]:
        return None
    found = range(opening + 3, words.closing.get(opening, opening))
    if not found or [token.word for token in tokens[opening + 1 : opening + 3]] != ["ORDER", "BY"]:
        raise words.refuse("write WITHIN GROUP (ORDER BY x)", tokens[behind])
    return found


def _rank_of(words: Cursor, function: str, argument: range, ranks: list[Literal], ordered: range) -> Literal:
    """Return the rank of PERCENTILE_CONT(rank) WITHIN GROUP (ORDER BY x)."""
    tokens, last = words.tokens, words.tokens[ordered.stop - 1]
    if function not in ("PERCENTILE_CONT", "ANON_PERCENTILE_CONT") or ranks:
        raise words.refuse(
            "WITHIN GROUP is for PERCENTILE_CONT(0.5). Leave it out", tokens[ordered.start - 5]
        )
    if last.word in ("ASC", "DESC") or any(tokens[i].word == "," for i in words.outer(ordered)):
        raise words.refuse("write ORDER BY with one column, without ASC or DESC", last)
    at, words.at = words.at, argument.start
    found = words.number("the rank")
    words.at = at
    return found


def _end_of_argument(words: Cursor, stop: int) -> int:
    """Return the token at which an aggregate's argument ends: a comma or CLAMPED outside of brackets."""
    i = words.at
    while i < stop:
        token, before = words.tokens[i], words.tokens[i - 1]
        ended = before.word not in OPERATORS and (
            before.kind != "sign" or before.word in (")", "]", "}", "?")
        )
        if token.word == "," or (token.word == "CLAMPED" and i > words.at and ended):
            return i
        i = words.closing.get(i, i) + 1
    return stop


def _rank(words: Cursor, function: str) -> Literal:
    """Parse the number behind an aggregate's argument, such as the rank of PERCENTILE_CONT."""
    if function == "VALUE_COUNTS":
        raise words.refuse("write VALUE_COUNTS(x, ['a', 'b']), with the values to count")
    if words.after.word == "=":
        raise words.refuse(f"write => instead of = after {words.token.text}", words.after)
    return words.number(f"{function}'s second argument")


def _ranks(words: Cursor, function: str) -> list[Literal]:
    """Parse the list in brackets behind an aggregate's argument: ranks, edges or values."""
    if function == "VALUE_COUNTS":
        return _list(words, f"the values of {function}", _value)
    what = "an edge" if function == "HISTOGRAM" else "a rank"
    return _list(words, f"the {what.split()[1]}s of {function}", lambda words: words.number(what))


def _list(words: Cursor, what: str, entry: Callable[[Cursor], Literal]) -> list[Literal]:
    """Parse the entries of a bracketed list in an aggregate call."""
    found = [entry(words)]
    while words.take(","):
        found.append(entry(words))
    if not words.take("]"):
        raise words.refuse(f"a comma or ] is missing in {what}")
    return found


def _value(words: Cursor) -> Literal:
    """Parse one entry of a list of values in an aggregate call: text, integer, truth value or date."""
    token = words.token
    if token.kind == "text":
        return words.literal("text")
    if token.word in ("TRUE", "FALSE"):
        return words.literal("word")
    if token.word == "DATE" and words.after.kind == "text":
        words.at += 1
        return words.literal("date")
    if token.kind != "number" and token.word not in ("-", "+"):
        raise words.refuse("write a value as 'text', 3, TRUE, FALSE or DATE '2020-12-31'")
    return words.number("a value")


def _named(words: Cursor, function: str, found: dict[str, Any], places: dict[str, Place]) -> bool:
    """Parse a named argument of an aggregate call other than bounds; False where there is none."""
    start, name = words.token.start, words.token.text.lower()
    kind = {**STRATA, **named_arguments(function)}.get(name)
    if kind is None:
        return False
    if name in found:
        raise words.refuse(f"{name} is given twice; keep one")
    words.at += 2
    found[name] = _read_named(words, name, kind)
    places[name] = Place(start, words.before.stop)
    return True


def _read_named(words: Cursor, name: str, kind: str | tuple[str, ...]) -> Any:
    """Parse the value of a named argument of an aggregate call, of the kind that its name takes."""
    if kind == NUMBER:
        return words.number(name)
    if kind == TRUTH:
        start, value = words.before.start, words.take("TRUE")
        if not value and not words.take("FALSE"):
            raise words.refuse(f"write {name} => TRUE or {name} => FALSE")
        return Truth(value, Place(start, words.before.stop))
    if kind == COLUMN:
        form = (
            f"{FORM}, with the name of a column as stratum"
            if name == "stratum"
            else (f"write {name} => column, with the name of a {'group key' if name == 'over' else 'column'}")
        )
        return _column(words, form)
    if kind in (NUMBERS, VALUES):
        if not words.take("["):
            raise words.refuse(f"{name} is a list: {FORM}")
        entry = _value if kind == VALUES else lambda words: words.number(f"a size in {name}")
        return tuple(_list(words, name, entry))
    if words.token.kind == "text" and words.token.text in kind:
        return words.literal("text")
    raise words.refuse("write " + " or ".join(f"{name} => '{one}'" for one in kind))


def _parse_clamped(words: Cursor) -> Bounds:
    """Parse CLAMPED BETWEEN lower AND upper in an aggregate call."""
    start = words.before.start
    if not words.take("BETWEEN"):
        raise words.refuse(_CLAMPED)
    lower = words.number("a bound")
    if not words.take("AND"):
        raise words.refuse(_CLAMPED)
    upper = words.number("a bound")
    return Bounds("clamped", lower, upper, Place(start, words.before.stop))


def _others(words: Cursor, function: str) -> tuple[Expression, ...]:
    """Parse the further columns of an aggregate call of several columns."""
    form = f"write {function}(y, x, {BOUNDS[1]} => ((lower, upper), (lower, upper))), with two columns"
    if function in LARGEST:
        form = f"write {function}(x, y, 10, {BOUNDS[0]} => (lower, upper)), where y is the column to add up"
    if not words.take(","):
        raise words.refuse(form)
    found = [_column(words, form)]
    while words.token.word == "," and words.after.kind in ("word", "name"):
        if words.tokens[words.at + 2].word == "=>":
            break
        words.take(",")
        found.append(_column(words, form))
    return tuple(found)


def _column(words: Cursor, form: str) -> Expression:
    """Parse an argument of an aggregate call that must be a column, perhaps qualified by its table."""
    start = words.at
    while words.token.kind in ("word", "name"):
        words.at += 1
        if words.at - start > 1 or not words.take("."):
            break
    found = words.tokens[start : words.at]
    if len(found) not in (1, 3) or words.token.word not in (",", ")", "CLAMPED"):
        words.at = start
        raise words.refuse(form)
    return Expression(tuple(found))


def _parse_bounds(words: Cursor, function: str) -> Bounds:
    """Parse contribution_bounds_per_row or contribution_bounds_per_group => (lower, upper)."""
    token, name = words.token, words.token.text.lower()
    if name not in BOUNDS:
        known = (*BOUNDS, *named_arguments(function))
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
        of_bounds = foreign_names.ARGUMENTS.get(name, name) in ("lower and upper", "bounds", "lower", "upper")
        raise words.refuse(f"there is no argument {token.text}; {_BOUNDS_FORM if of_bounds else hint}")
    words.at += 2
    more: list[tuple[Literal, Literal]] = []
    if words.token.word == "(" and words.after.word == "(":
        each = f"write {name} => ((lower, upper), (lower, upper)), with two numbers for each column"
        words.take("(")
        first = _pair(words, each)
        while words.take(","):
            more.append(_pair(words, each))
        if not more or not words.take(")"):
            raise words.refuse(each)
    else:
        first = _pair(words, f"write {name} => (lower, upper), with two numbers")
    return Bounds(name, *first, Place(token.start, words.before.stop), tuple(more))


def _pair(words: Cursor, form: str) -> tuple[Literal, Literal]:
    """Parse (lower, upper) in an aggregate call."""
    numbers: list[Literal] = []
    for sign in "(,":
        if not words.take(sign):
            raise words.refuse(form)
        numbers.append(words.number("a bound"))
    if not words.take(")"):
        raise words.refuse(form)
    return numbers[0], numbers[1]
