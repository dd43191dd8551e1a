"""The request of advice: several queries of one table, how much each matters, and one budget for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

from sfumato.api.question import Question
from sfumato.budget.epsilon_delta import admissible_delta, admissible_epsilon
from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, QueryError, in_own_words, nearest, shown, with_article
from sfumato.exact import as_fraction, as_written
from sfumato.guidance.inferred_bounds import check_preliminary
from sfumato.noise import Words
from sfumato.plan.planning import make_plan
from sfumato.query.query import LARGEST_WEIGHT
from sfumato.query.tables.combined_tables import find_unit_sources

# The default part of epsilon for preliminary queries; measured in docs/accuracy.md.
SHARE = Fraction(1, 5)
MAX_QUESTIONS = 64
# Into how many equal parts the rest is divided, of which each question gets one at least.
PORTIONS = 64
_PORTIONS_EACH = 8


@dataclass(frozen=True)
class AdviceQuery:
    """One query of a request of advice, with its weight and delta.

    Args:
        name: of the query.
        question: as it was given.
        weight: how much it matters.
        delta: of its release.
    """

    name: str
    question: Question[Any]
    weight: Fraction
    delta: Fraction


@dataclass(frozen=True)
class AdviceRequest:
    """A checked request of advice: queries, and their common budget.

    Args:
        asked: the questions.
        epsilon, delta: of preliminary queries and of all releases together.
        preliminary: the part of epsilon for preliminary queries.
    """

    asked: tuple[AdviceQuery, ...]
    epsilon: Fraction
    delta: Fraction
    preliminary: Fraction

    @property
    def rest(self) -> Fraction:
        """The epsilon that preliminary queries leave for releases."""
        return self.epsilon - self.preliminary

    @property
    def portions(self) -> int:
        """The number of equal portions into which that epsilon is divided."""
        return max(PORTIONS, _PORTIONS_EACH * len(self.asked))

    @property
    def portion(self) -> Fraction:
        """The epsilon of one portion."""
        return self.rest / self.portions

    @property
    def equal(self) -> int:
        """The number of portions each query gets if all get the same."""
        return self.portions // len(self.asked)

    def list_portions(self, number: int) -> list[int]:
        """Return the numbers of portions for which errors are computed: a given one, all, powers of 2."""
        powers = (1 << i for i in range(self.portions.bit_length()))
        return sorted({number, *powers, self.portions})

    @property
    def least(self) -> list[int]:
        """The least number of portions of each query in the request: half of its part by weight."""
        weights = sum(one.weight for one in self.asked)
        return [max(1, int(self.portions * one.weight / weights / 2)) for one in self.asked]

    def check(self, words: Words | None) -> None:
        """Check that every query of the request has a plan with the least epsilon it may get.

        Raises:
            QueryError, ParameterError, BudgetError, RefusalError: as of its release.
        """
        if words is not None and not isinstance(words, Words):
            raise ParameterError("unsafe_words", words, "a Words of sfumato.noise, in tests alone")
        for one, least in zip(self.asked, self.least, strict=True):
            plan = make_plan(one.question.query, epsilon=self.portion * least, delta=one.delta)
            one.question.table._engine.check_release(plan, words)


def check_request(
    table: Any,
    questions: Any,
    epsilon: object,
    delta: object,
    share: object,
    weights: object,
) -> AdviceRequest:
    """Return a request of advice, or raise what is wrong with it.

    Args:
        table: whose questions they are; None where that was seen before.
        questions, epsilon, delta, share, weights: as of `advise`.
    """
    named = _named(questions)
    if table is not None:
        _check_table(table, named)
    for question in named.values():
        check_preliminary(question.table._engine)
        if question.query.brought_groups:
            raise QueryError(
                "advise: groups from a pipeline cannot be queried beforehand. Give keys= as a list"
            )
        if question.query.shared:
            raise QueryError(
                "advise: bound(groups='shared') has no numbers whose errors depend on epsilon. Leave it out"
            )
    total, all_delta = admissible_epsilon(epsilon), admissible_delta(delta)
    part = as_written(share, "share")
    if not Fraction(1, 1000) <= part <= Fraction(9, 10):
        raise ParameterError("share", share, "from 0.001 to 0.9, the part of epsilon for preliminary queries")
    weighed = _weights(weights, tuple(named))
    each = all_delta / len(named)
    asked = tuple(AdviceQuery(name, one, weighed[name], each) for name, one in named.items())
    return AdviceRequest(asked, total, all_delta, total * part)


def _named(questions: Any) -> dict[str, Question[Any]]:
    """Return the queries of a request by name; in a list, their names follow from what they ask."""
    if isinstance(questions, Question):
        questions = [questions]
    if isinstance(questions, (str, bytes)) or not isinstance(questions, Iterable):
        raise ParameterError("questions", questions, "a list of questions, or a dict of names and questions")
    given: Any = questions
    named = isinstance(given, Mapping)
    pairs: list[tuple[Any, Any]]
    with in_own_words(_missing_query_error, Exception):
        pairs = list(given.items()) if named else [(None, one) for one in given]
    if not 1 <= len(pairs) <= MAX_QUESTIONS:
        raise QueryError(f"advise: {len(pairs)} questions were given, but it takes from 1 to {MAX_QUESTIONS}")
    found: dict[str, Question[Any]] = {}
    for name, one in pairs:
        if not isinstance(one, Question):
            kind = type(one).__name__
            raise QueryError(
                f"advise: one of the questions is {with_article(kind)}, but must be a question that "
                "agg returns, not yet released: table.group_by(...).bound(...).agg(...)"
            )
        if name is not None and (not isinstance(name, str) or not name.isprintable() or not name.strip()):
            raise ParameterError("name of a question", name, "printable text, such as 'visits'")
        found[find_unused_name(one.query.title, found) if name is None else name] = one
    return found


def _missing_query_error(error: Exception) -> QueryError:
    return QueryError(
        f"advise: reading the questions failed with {with_article(type(error).__name__)}. Pass a list"
    )


def find_unused_name(name: str, taken: Mapping[str, object]) -> str:
    """Return a name for a query that no other query of the request has."""
    plain = "".join(c if c.isprintable() else "?" for c in name)
    numbered = plain
    i = 1
    while numbered in taken:
        i += 1
        numbered = f"{plain} ({i})"
    return numbered


def _check_table(table: Any, named: Mapping[str, Question[Any]]) -> None:
    engine = getattr(table, "_engine", None)
    if engine is None or not hasattr(table, "unit"):
        raise ParameterError("table", type(table).__name__, "a table that sf.scan has opened")
    known = find_unit_sources(engine, table.unit)
    for name, one in named.items():
        if known.isdisjoint(find_unit_sources(one.table._engine, one.table.unit)):
            raise QueryError(
                f"advise: {shown(name)} reads another table, whose rows and units may differ. Build "
                "all questions from the same table with filter, with_columns, group_by, join and the "
                "like"
            )


def _weights(given: Any, names: Sequence[str]) -> dict[str, Fraction]:
    found = dict.fromkeys(names, Fraction(1))
    if given is None:
        return found
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif isinstance(given, (list, tuple)) and len(given) == len(names):
        pairs = list(zip(names, given, strict=True))
    else:
        raise ParameterError("weights", given, "a dict of names and numbers, or a number for each question")
    for name, value in pairs:
        if name not in found:
            near = nearest(name, names) if isinstance(name, str) else None
            hint = f"; did you mean {near!r}?" if near else f". There are: {', '.join(names)}"
            raise QueryError(f"weights: there is no question {shown(name)}{hint}")
        weight = Fraction(0)
        with suppress(ParameterError):
            weight = as_fraction(value, "weight")
        if not Fraction(1, LARGEST_WEIGHT) <= weight <= LARGEST_WEIGHT:
            raise ParameterError(
                "weights", given, "numbers from 1/1000 to 1000. Leave out questions that matter less"
            )
        found[name] = weight
    return found
