"""What a stratified proportion is told of its sample: the stratum of a row, and sizes of each stratum."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.dialect.cursor import Cursor
from sfumato.dialect.syntax import Expression, Literal, Sample, positive
from sfumato.dialect.words import Place
from sfumato.errors import ParameterError, SqlError
from sfumato.query import aggregates as ask
from sfumato.query.aggregates import Aggregate

STRATUM = "stratum"
LISTS = ("strata", "asked", "population")
ARGUMENTS = (STRATUM, *LISTS, "confidence")
FORM = (
    "write STRATIFIED_PROPORTION(award, stratum => school, strata => ['E', 'H'], asked => [400, 200], "
    "population => [4421, 755])"
)


def read_sample(words: Cursor, found: Sample | None, column: Callable[[Cursor, str], Expression]) -> Sample:
    """Read one named argument of a sample, and add it to those that were read."""
    start, name = words.token.start, words.token.text.lower()
    given = {} if found is None else dict(found.given)
    if name in given:
        raise words.refuse(f"{name} is given twice; keep one")
    words.at += 2
    if name == STRATUM:
        given[name] = column(words, f"{FORM}, with the name of a column as stratum")
    elif name in LISTS:
        given[name] = _list(words, name)
    else:
        given[name] = words.number(name)
    return Sample(given, Place(start if found is None else found.place.start, words.before.stop))


def _list(words: Cursor, name: str) -> tuple[Literal, ...]:
    if not words.take("["):
        raise words.refuse(f"{name} is a list: {FORM}")
    entries = [_entry(words, name)]
    while words.take(","):
        entries.append(_entry(words, name))
    if not words.take("]"):
        raise words.refuse(f"a comma or ] is missing in {name}")
    return tuple(entries)


def _entry(words: Cursor, name: str) -> Literal:
    if name != "strata":
        return words.number(f"a size in {name}")
    if words.token.kind == "text":
        return words.literal("text")
    if words.token.word in ("TRUE", "FALSE"):
        return words.literal("truth")
    if words.token.word == "DATE" and words.after.kind == "text":
        words.at += 1
        return words.literal("date")
    return words.number("a stratum, where it is no text, TRUE, FALSE or DATE '...',")


@dataclass(frozen=True)
class Strata:
    """What follows of the arguments of a call.

    Args:
        text: of the statement.
        sample: the arguments; None where there are none.
        place: of the function's name.
        refuse: makes an error with a place.
    """

    text: str
    sample: Sample | None
    place: Place
    refuse: Callable[[Place, str], SqlError]

    def proportion(self, answer: str, stratum_of: Callable[[Expression], str]) -> Aggregate:
        """Return the aggregate.

        Args:
            answer: the column of answers.
            stratum_of: gives the name of the column that an expression is.
        Raises:
            SqlError: an argument is missing or out of range.
        """
        given = {} if self.sample is None else self.sample.given
        missing = [name for name in (STRATUM, *LISTS) if name not in given]
        if missing:
            raise self.refuse(self.place, f"{' and '.join(missing)} missing: {FORM}")
        strata = [self._value(one) for one in given["strata"]]
        sizes: list[dict[Any, int]] = []
        for name in LISTS[1:]:
            entries = given[name]
            if len(entries) != len(strata):
                place = Place(entries[0].place.start, entries[-1].place.stop)
                raise self.refuse(place, f"{name} has {len(entries)} sizes, strata has {len(strata)} entries")
            whole = [positive(self.text, entry, f"a size in {name}") for entry in entries]
            sizes.append(dict(zip(strata, whole, strict=True)))
        if len(sizes[0]) < len(strata):
            raise self.refuse(given["strata"][0].place, "strata: each is there once")
        more = {"confidence": given["confidence"].text} if "confidence" in given else {}
        try:
            return ask.proportion(
                answer, stratum=stratum_of(given[STRATUM]), asked=sizes[0], population=sizes[1], **more
            )
        except ParameterError as error:
            raise self.refuse(given["strata"][0].place, str(error)) from None

    def _value(self, entry: Literal) -> Any:
        if entry.kind == "text":
            return entry.text
        if entry.kind == "truth":
            return entry.text.upper() == "TRUE"
        try:
            return date.fromisoformat(entry.text) if entry.kind == "date" else int(entry.text)
        except ValueError:
            what = "a date, such as DATE '2024-01-31'" if entry.kind == "date" else "a whole number"
            raise self.refuse(entry.place, f"a stratum that is no text is {what}") from None
