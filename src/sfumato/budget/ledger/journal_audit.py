"""Questions that a person should look at: about one unit, nearly the same as others, or many of the same.

Nothing here is a verdict, and nothing is computed of rows: a budget holds whatever is asked. Source:
Desfontaines 2020, "Lowering the cost of anonymization", section 4.2.6, which asks that queries be logged and
audited, beside all that an engine refuses.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from sfumato.budget.ledger.journal_lines import Line
from sfumato.budget.ledger.journal_verify import listed
from sfumato.budget.ledger.ledger_accounts import LedgerAccount
from sfumato.dataclass import dataclass
from sfumato.display.cards import TextCard
from sfumato.exact.parameters import canonical_bytes

# A text of SQL, a name in quotes, a number, a name. DuckDB has written them, so that there is one spelling.
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|[^\W\d]\w*")
# A column that is one value: compared with a literal.
_EQUAL = re.compile(r"(?<![<>!])=|\bIN\b|\bIS NOT DISTINCT FROM\b", re.IGNORECASE)


@dataclass(frozen=True)
class Question:
    """One private SELECT of a journaled query, as the audit reads it.

    Args:
        entry: of the ledger.
        dataset: whose budget paid.
        analyst: who asked; None for the owner.
        epsilon: what all of the question cost.
        plan: its canonical form.
        answered: whether an answer is known to have come.
    """

    entry: int
    dataset: str
    analyst: str | None
    epsilon: Fraction
    plan: Mapping[str, Any]
    answered: bool

    @cached_property
    def unit(self) -> frozenset[str]:
        """The privacy unit's column for the audit, with columns that it is made of or that are made of it."""
        parts = self._table.get("unit_of", []) if isinstance(self._table, Mapping) else []
        found = {str(self.plan.get("privacy_unit"))}.union(*map(names, parts))
        before: set[str] = set()
        while before != found:
            before = set(found)
            found |= {name for name, of in _made(self._table) if found & names(of)}
        return frozenset(found)

    @cached_property
    def conditions(self) -> tuple[str, ...]:
        """The conditions on rows of an audited query, also those inside subqueries."""
        own = [
            *self.plan.get("where", ()),
            *(one for one in self.plan.get("steps", ()) if isinstance(one, str)),
        ]
        return (*own, *_within(self.plan.get("table")))

    @cached_property
    def _table(self) -> Any:
        """The tables of an audited query without their conditions."""
        return _without(self.plan.get("table"))

    @cached_property
    def expressions(self) -> tuple[str, ...]:
        """The row expressions that an audited query counts, sums or groups by."""
        keys = [key[1] for key in self.plan.get("group_by", ())]
        steps = [one[1] for one in self.plan.get("steps", ()) if not isinstance(one, str)]
        return (*keys, *steps, *(text for one in self.outputs for text in _columns(one)))

    @cached_property
    def outputs(self) -> tuple[Mapping[str, Any], ...]:
        """The outputs of an audited query, without their names."""
        if self.plan.get("asks") == "largest groups":
            return ({"kind": "largest", "by": self.plan.get("by")},)
        return tuple(one[1] for one in self.plan.get("outputs", ()))

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns in the outputs of an audited query."""
        return frozenset(name for one in self.outputs for text in _columns(one) for name in names(text))

    def measured(self) -> Iterator[str]:
        """Yield, for each output of an audited query, all but its conditions: table, groups and output."""
        base = {name: self.plan.get(name) for name in ("privacy_unit", "group_by", "groups")}
        base["table"] = self._table
        for one in self.outputs:
            yield canonical_bytes({**base, "dataset": self.dataset, "output": one}).decode()

    @cached_property
    def but_for_budget(self) -> str:
        """All of an audited query but names and budget: equal for repeated queries."""
        kept = {name: one for name, one in self.plan.items() if name not in _OF_BUDGET}
        if "outputs" in kept:
            called = {str(one[0]): i for i, one in enumerate(kept["outputs"])}
            kept["outputs"] = [_number_outputs(one[1], called) for one in kept["outputs"]]
        return canonical_bytes({"dataset": self.dataset, "plan": kept}).decode()


_OF_BUDGET = ("budget", "noise", "selection", "diagnostics", "weights", "found")
_OF_OTHERS = ("first", "second")  # in which an output names another one


def _number_outputs(one: Mapping[str, Any], called: Mapping[str, int]) -> dict[str, Any]:
    """Return an output for the audit in which other outputs are named by position."""
    return {n: called.get(v, v) if n in _OF_OTHERS and isinstance(v, str) else v for n, v in one.items()}


def questions(lines: Iterable[Line]) -> list[Question]:
    """Return all paid private SELECTs of a journal for the audit, in order."""
    found: list[Question] = []
    lines = list(lines)
    came = {line.entry: line for line in lines if line.kind == "answered"}
    for line in lines:
        if line.kind != "asked" or line.entry is None:
            continue
        answer = came.get(line.entry)
        # Where bounds were found first, the plan is known with the answer.
        plan = (answer.detail.get("plan") if answer else None) or line.detail.get("plan")
        epsilon = Fraction(line.detail["entered"]["epsilon"])
        for one in parts(plan):
            made = Question(line.entry, line.dataset, line.analyst, epsilon, one, answer is not None)
            found.append(made)
    return found


def parts(plan: object) -> Iterator[Mapping[str, Any]]:
    """Yield each plan of an audited query that has several."""
    if not isinstance(plan, Mapping):
        return
    if "releases" in plan:
        for one in plan["releases"]:
            yield from parts(one)
    else:
        yield plan


def names(text: str) -> set[str]:
    """Return the names in an audited expression: columns, functions and SQL words.

    >>> sorted(names("((id = 4217) OR (town = 'id x'))"))
    ['OR', 'id', 'town']
    """
    found = {one for one in _TOKEN.findall(text) if not one.startswith("'") and not one[0].isdigit()}
    return {one[1:-1].replace('""', '"') if one.startswith('"') else one for one in found}


def template(text: str) -> str:
    """Return an audited expression without its literals.

    >>> template("((age < 50) AND (town = 'Ulm''s'))")
    '((age < ?) AND (town = ?))'
    """
    return _TOKEN.sub(lambda m: "?" if m[0][0] == "'" or m[0][0].isdigit() else m[0], text)


def _within(table: object) -> Iterator[str]:
    """Yield the conditions of subqueries in an audited table."""
    if isinstance(table, Mapping):
        yield from (one for one in table.get("where", ()) if isinstance(one, str))
        for name, value in table.items():
            if name != "where":
                yield from _within(value)
    elif isinstance(table, list):
        for one in table:
            yield from _within(one)


def _made(table: object) -> Iterator[tuple[str, str]]:
    """Yield each derived column of an audited table with its expression."""
    if isinstance(table, Mapping):
        for name, value in table.items():
            if name == "columns" and isinstance(value, Mapping):
                yield from ((str(column), str(of)) for column, of in value.items())
            else:
                yield from _made(value)
    elif isinstance(table, list):
        if len(table) == 2 and all(isinstance(one, str) for one in table):
            yield table[1], table[0]  # a column that is called otherwise
            yield table[0], table[1]  # an aggregate of one unit's rows
        for one in table:
            yield from _made(one)


def _without(table: object) -> object:
    """Return an audited table without its conditions."""
    if isinstance(table, Mapping):
        return {name: _without(value) for name, value in table.items() if name != "where"}
    return [_without(one) for one in table] if isinstance(table, list) else table


def equalities(conditions: Sequence[str]) -> int:
    """Return how many audited conditions require one value of a column."""
    return sum(len(_EQUAL.findall(template(one))) for one in conditions if " OR " not in one)


def _columns(output: Mapping[str, Any]) -> Iterator[str]:
    """Yield the column expressions in an output of an audited query."""
    for name, value in output.items():
        if isinstance(value, Mapping):
            yield from _columns(value)
        elif isinstance(value, str) and name not in ("kind", "lower", "upper", "per", "noise"):
            yield value
        elif isinstance(value, list):
            yield from (one for one in value if isinstance(one, str))


MANY = 10  # answers about the same columns
_LISTED = 20  # who were refused, of whom the text tells
_EQUALITIES = 3  # conditions that each ask for one value


@dataclass(frozen=True, repr=False)
class Finding(TextCard):
    """One finding of a journal audit: queries to review, and why.

    Args:
        kind: "one unit", "few rows", "part", "literal", "again", "many" or "refused".
        dataset: the dataset that the queries are about.
        entries: numbers of ledger entries or, for refused queries, of journal lines.
        analysts: the analysts who asked; None for the owner.
        words: what is unusual about the queries.

    Made by `Journal.audit`.
    """

    kind: str
    dataset: str
    entries: tuple[int, ...]
    analysts: tuple[str | None, ...]
    words: str

    def __str__(self) -> str:
        who = ", ".join(sorted("the owner" if one is None else one for one in self.analysts))
        what = "lines" if self.kind == "refused" else "entries"
        return f"[{self.kind}] {self.dataset}, {who}, {what} {listed(list(self.entries))}: {self.words}"


@dataclass(frozen=True, repr=False)
class Loss(TextCard):
    """The total privacy loss to one analyst, or to all together, on a dataset in a journal audit.

    Args:
        dataset, analyst: their names; analyst None for all together.
        epsilon, delta: a bound on the loss of all answers ever, rounded up.

    Made by `Journal.audit`.
    """

    dataset: str
    analyst: str | None
    epsilon: float
    delta: float

    def __str__(self) -> str:
        who = "all together" if self.analyst is None else self.analyst
        return f"{self.dataset}, {who}: epsilon {self.epsilon:g}, delta {self.delta:g}"


@dataclass(frozen=True, repr=False)
class Refused(TextCard):
    """The refused queries of one analyst in a journal audit, which cost nothing.

    Args:
        dataset: the dataset that the queries are about.
        analyst: the analyst who asked; None for the owner.
        kinds: the number of each kind of error, most frequent first.
        lines: the numbers of the first and the last journal line.
        last: the last refused query, as far as it is known: its text or its parameters.
        more: whether there were more in one day than are written.

    Made by `Journal.audit`.
    """

    dataset: str
    analyst: str | None
    kinds: tuple[tuple[str, int], ...]
    lines: tuple[int, int]
    last: str
    more: bool

    @property
    def count(self) -> int:
        """The number of the analyst's refused queries."""
        return sum(count for _, count in self.kinds)

    def __str__(self) -> str:
        who = "the owner" if self.analyst is None else self.analyst
        why = ", ".join(f"{count:,} {kind}" for kind, count in self.kinds)
        many = "1 question" if self.count == 1 else f"{self.count:,} questions"
        more = ", and more than are written" if self.more else ""
        first, last = self.lines
        where = f"line {last}" if first == last else f"lines {first} to {last}"
        said = f"; the last: {_quote_conditions([self.last])}" if self.last else ""
        return f"{self.dataset}, {who}: {many}{more} ({why}), {where}{said}"


@dataclass(frozen=True, repr=False)
class Audit(TextCard):
    """The result of a journal audit, for a person to judge.

    Args:
        asked: the number of queries.
        findings: the queries to review.
        losses: the composed loss to each analyst and to all together, over all time.
        refused: the refused queries of each analyst, most frequent first.

    Made by `Journal.audit`.

    >>> import tempfile
    >>> import sfumato as sf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = sf.Ledger(f"{folder}/budget.db")
    ...     ledger.create("hospital", epsilon=3)
    ...     _ = ledger.budget("hospital").spend("0.25", what="patients by year")
    ...     audit = ledger.journal.audit()
    >>> audit.asked, audit.findings, audit.losses[0].epsilon
    (1, (), 0.25)
    """

    asked: int
    findings: tuple[Finding, ...]
    losses: tuple[Loss, ...]
    refused: tuple[Refused, ...] = ()

    def __str__(self) -> str:
        many = "1 question was" if self.asked == 1 else f"{self.asked:,} questions were"
        listed = "1 finding" if len(self.findings) == 1 else f"{len(self.findings):,} findings"
        said = [f"{many} asked, with {listed} for a person to judge:"]
        said += [f"- {one}" for one in self.findings] or ["- nothing"]
        if self.refused:
            said.append("Refused queries, at no charge:")
            said += [f"- {one}" for one in self.refused[:_LISTED]]
            if (more := len(self.refused) - _LISTED) > 0:
                said.append(f"- and those of {more:,} more analysts")
        said += ["Privacy loss over all time:"]
        return "\n".join([*said, *(f"- {one}" for one in self.losses)])


def audited(lines: Sequence[Line], accounts: Iterable[LedgerAccount]) -> Audit:
    """Return the audit of a journal: queries to look at, total losses and refusals.

    Args:
        lines: in order.
        accounts: of the ledger, for the loss of each.
    """
    asked = questions(lines)
    refused = _refusals(lines)
    findings = [
        *_single(asked),
        *_parts(asked),
        *_literals(asked),
        *_again(asked),
        *_many(asked),
        *_often(lines),
    ]
    losses = [Loss(kept.dataset, kept.analyst, *kept.lifetime.spent) for kept in accounts]
    return Audit(sum(line.kind == "asked" for line in lines), tuple(findings), tuple(losses), refused)


def _single(questions: Sequence[Question]) -> Iterator[Finding]:
    """Yield audit findings of queries about one privacy unit or few rows."""
    for one in questions:
        texts = [*one.conditions, *one.expressions]
        about = [text for text in texts if one.unit & names(text)]
        if about:
            words = f"the privacy unit, {', '.join(sorted(one.unit))}, is used: {_quote_conditions(about)}"
            yield _finding("one unit", [one], words)
        elif (count := equalities(one.conditions)) >= _EQUALITIES:
            words = f"{count} conditions each select one value, so that few units may be left: "
            yield _finding("few rows", [one], words + _quote_conditions(one.conditions))


def _parts(questions: Sequence[Question]) -> Iterator[Finding]:
    """Yield audit findings of query pairs that differ by one condition: total minus part is the rest."""
    found: dict[tuple[str, frozenset[str]], list[Question]] = defaultdict(list)
    for one in questions:
        for measured in one.measured():
            found[measured, frozenset(one.conditions)].append(one)
    seen = set()
    for (measured, conditions), parts in found.items():
        for condition in sorted(conditions):
            whole = found.get((measured, conditions - {condition}), [])
            if not whole:
                continue
            group = _unique([*whole, *parts])
            known = (tuple(one.entry for one in group), condition)
            if known not in seen:
                seen.add(known)
                less, more = (listed([one.entry for one in _unique(each)]) for each in (whole, parts))
                words = f"one more condition in {more} than in {less}: {_quote_conditions([condition])}; "
                yield _finding("part", group, f"{words}the difference is about the other rows")


def _literals(questions: Sequence[Question]) -> Iterator[Finding]:
    """Yield audit findings of queries that differ only by a literal in one condition."""
    found: dict[tuple[str, frozenset[str], str], dict[str, list[Question]]] = defaultdict(dict)
    for one in questions:
        conditions = frozenset(one.conditions)
        for measured in one.measured():
            for condition in conditions:
                same = found[measured, conditions - {condition}, template(condition)]
                same.setdefault(condition, []).append(one)
    seen = set()
    for (_, _, shape), by_condition in found.items():
        if len(by_condition) < 2:
            continue
        group = _unique([one for each in by_condition.values() for one in each])
        known = (tuple(one.entry for one in group), shape)
        if known not in seen:
            seen.add(known)
            words = f"they differ only in a value of one condition: {_quote_conditions(list(by_condition))}"
            yield _finding("literal", group, words)


def _again(questions: Sequence[Question]) -> Iterator[Finding]:
    """Yield audit findings of repeated queries, whose mean is more accurate than each."""
    found: dict[str, list[Question]] = defaultdict(list)
    for one in questions:
        found[one.but_for_budget].append(one)
    for same in found.values():
        group = _unique(same)
        if len(group) > 1:
            words = f"the same query {len(group)} times, for {_together(group)}; their mean is more exact"
            yield _finding("again", group, words)


def _many(questions: Sequence[Question]) -> Iterator[Finding]:
    """Yield audit findings of many queries about the same columns."""
    found: dict[tuple[str, frozenset[str]], list[Question]] = defaultdict(list)
    for one in questions:
        if one.columns:
            found[one.dataset, one.columns].append(one)
    for (_, columns), same in found.items():
        group = _unique(same)
        if len(group) >= MANY:
            words = f"{len(group)} answers about {', '.join(sorted(columns))}, for {_together(group)}"
            yield _finding("many", group, words)


def _often(lines: Sequence[Line]) -> Iterator[Finding]:
    """Yield audit findings of analysts with many refused queries."""
    for (dataset, analyst), own in _refused_lines(lines).items():
        if len(own) >= MANY:
            words = f"{len(own)} queries were refused"
            yield Finding("refused", dataset, tuple(line.number for line in own), (analyst,), words)


def _refusals(lines: Sequence[Line]) -> tuple[Refused, ...]:
    """Return the refused queries of each analyst for the journal audit, most refused first."""
    found = []
    for (dataset, analyst), own in _refused_lines(lines).items():
        kinds = Counter(str(line.detail.get("why")) for line in own).most_common()
        more = any("more" in line.detail for line in own)
        texts = [str(line.detail.get("text") or line.detail.get("what") or "") for line in own]
        last = next((text for text in reversed(texts) if text), "")
        found.append(Refused(dataset, analyst, tuple(kinds), (own[0].number, own[-1].number), last, more))
    return tuple(sorted(found, key=lambda one: -one.count))


def _refused_lines(lines: Sequence[Line]) -> dict[tuple[str, str | None], list[Line]]:
    found: dict[tuple[str, str | None], list[Line]] = defaultdict(list)
    for line in lines:
        if line.kind == "refused":
            found[line.dataset, line.analyst].append(line)
    return found


def _finding(kind: str, group: Sequence[Question], words: str) -> Finding:
    entries = tuple(sorted({one.entry for one in group}))
    analysts = tuple(sorted({one.analyst for one in group}, key=lambda name: name or ""))
    return Finding(kind, group[0].dataset, entries, analysts, words)


def _unique(group: Iterable[Question]) -> list[Question]:
    return sorted({one.entry: one for one in group}.values(), key=lambda one: one.entry)


def _together(group: Sequence[Question]) -> str:
    total = sum((one.epsilon for one in group), Fraction(0))
    return f"epsilons that add up to {float(total):g}"


def _quote_conditions(texts: Sequence[str], limit: int = 3, longest: int = 120) -> str:
    """Return conditions for an audit finding on one line of printable text."""
    plain = [
        "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: longest + 1])
        for text in texts[:limit]
    ]
    shown = [text if len(text) <= longest else f"{text[:longest]}..." for text in plain]
    return "; ".join(shown) + (f"; and {len(texts) - limit} more" if len(texts) > limit else "")
