"""The privacy clause's OPTIONS (...): parse names and values, check them, and return settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field, fields
from fractions import Fraction
from itertools import pairwise
from typing import Any

from sfumato.catalogs.declarations import TableDeclaration, exceeded_limit_message
from sfumato.dataclass import dataclass
from sfumato.dialect.keywords import CLAUSES, STRATEGY
from sfumato.dialect.select_statement import Statement
from sfumato.dialect.sql_tokens import Cursor, Literal, Place, Token, positive, refusal
from sfumato.display.formatting import Spelled
from sfumato.errors import ParameterError, QueryError, SqlError, nearest
from sfumato.names.foreign_names import ARGUMENTS, section
from sfumato.query.option_names import NOISE_CHOICES, SELECTION_CHOICES
from sfumato.query.tables.combined_tables import MAX_UNIT_ROWS
from sfumato.query.tables.table_part import check_parts, unit_name

_COMPUTING = ("(", "*", "/", "+", "-", "^")
_FORM = "write an option as name = value, such as {} = 1"


def read_clause(words: Cursor) -> tuple[str, Place, tuple[tuple[Literal, Literal], ...]]:
    """Parse WITH DIFFERENTIAL_PRIVACY OPTIONS (...): the clause's name and place, and its options."""
    if not words.take("WITH"):
        raise words.refuse(
            "the privacy clause is missing. Write SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon "
            "= ..., delta = ..., privacy_unit_column = ...) before the columns; with a catalog, "
            "leave privacy_unit_column out"
        )
    clause, place = words.token.word, words.token.place
    if clause not in CLAUSES:
        near = nearest(clause, CLAUSES)
        raise words.refuse(
            f"WITH {words.token.text} is not a privacy clause; "
            + (f"did you mean {near}?" if near else "write WITH DIFFERENTIAL_PRIVACY OPTIONS (...)")
        )
    words.at += 1
    if not (words.take("OPTIONS") and words.take("(")):
        raise words.refuse(f"write OPTIONS (epsilon = ..., privacy_unit_column = ...) after WITH {clause}")
    options: list[tuple[Literal, Literal]] = []
    while not words.take(")"):
        if options and not words.take(","):
            computed = words.token.word in _COMPUTING
            also = ". Write the number itself, as an option cannot be computed" if computed else ""
            raise words.refuse(f"a comma or ) is missing between options{also}")
        if not re.fullmatch(r"\w+", words.token.text):
            raise words.refuse(_FORM.format("epsilon"))
        name = words.literal("name")
        name = Literal(name.text.lower(), "name", name.place)
        if not words.take("="):
            raise words.refuse(_FORM.format(name.text))
        options.append((name, _value(words)))
    return clause, place, tuple(options)


def _value(words: Cursor) -> Literal:
    """Parse the value of an option: a number, text, word, qualified name or list."""
    token = words.token
    if token.kind == "number" or token.word in ("-", "+", "."):
        return words.number("an option")
    if token.kind == "end" or token.word in (",", ")", "]", "}"):
        raise words.refuse("the value of this option is missing")
    if token.word in ("[", "("):
        return _list(words)
    value = words.literal(token.kind if token.kind in ("text", "name") else "word")
    while words.take("."):
        value = words.literal("name")
    if not value.text and value.kind != "text":  # whose meaning is the option's
        raise words.refuse("the value of this option is missing")
    return Literal(value.text, value.kind, Place(token.start, words.before.stop))


def _list(words: Cursor) -> Literal:
    """Parse an option's value that is a list in brackets, as the tokens of each entry."""
    start, stop = words.at, words.closing[words.at]
    parts: list[tuple[Token, ...]] = []
    at = first = start + 1
    while at <= stop:
        if at == stop or words.tokens[at].word == ",":
            if at == first:
                raise words.refuse("an entry of this list is missing", words.tokens[at])
            parts.append(tuple(words.tokens[first:at]))
            first = at + 1
        at = words.closing.get(at, at) + 1
    words.at = stop + 1
    place = Place(words.tokens[start].start, words.before.stop)
    return Literal(words.text[place.start : place.stop], "list", place, tuple(parts))


_canonical = {
    "kappa": "max_groups_contributed",
    "noise_kind": "noise",
    "pre_threshold": "min_privacy_units_per_group",
    "group_selection_strategy": "group_selection",
}
OPTION_NAMES = (
    *("epsilon", "delta", "privacy_unit_column", "max_groups_contributed", "max_rows_per_group"),
    *("max_rows_contributed", "max_joined_rows", "noise"),
    *(
        "group_selection",
        "min_privacy_units_per_group",
        "weights",
        "types",
        "multiline",
        "encoding",
        "confidence",
        "sampling",
        "nonnegative",
        "timezone",
        "unit_timezone",
        "diagnostics",
        "auto_bounds",
        "auto_limits",
        "auto_share",
        *_canonical,
    ),
)
# By the names that they have in Python, of which foreign ones are known.
_OURS = {
    "epsilon": "epsilon",
    "delta": "delta",
    "privacy_unit": "privacy_unit_column",
    "groups": "max_groups_contributed",
    "rows": "max_rows_per_group",
    "total_rows": "max_rows_contributed",
    "unit_rows": "max_joined_rows",
    "noise": "noise",
    "group_selection": "group_selection",
    "pre_threshold": "min_privacy_units_per_group",
}
_of_release = (
    *("noise", "group_selection", "min_privacy_units_per_group", "diagnostics", "auto_share"),
    *("sampling", "nonnegative"),
)
TYPES_FORM = "'id BIGINT, amount DOUBLE, day DATE', each column once"
_WEIGHTS_FORM = "'mean_age 4, \"the total\" 2', each output once"
_TIMEZONE_FORM = (
    "must be the name of a time zone in quotes, such as 'Europe/Berlin', in which expressions and "
    "group keys read times"
)
_MAX_PARTS = 50
_refused = section("options")


# Numbers that options take, and what is said of others.
_RANGES: dict[str, tuple[Callable[[Fraction], bool], str]] = {
    "epsilon": (lambda x: x > 0, "must be greater than 0"),
    "delta": (lambda x: 0 <= x < 1, "must be at least 0 and below 1"),
    "confidence": (lambda x: 0 < float(x) < 1, "must be between 0 and 1, such as 0.95"),
    "diagnostics": (lambda x: 0 < x < 1, "must be a share of epsilon between 0 and 1, such as 0.05"),
    "auto_share": (
        lambda x: Fraction(1, 1000) <= x <= Fraction(9, 10),
        "must be a part of epsilon from 0.001 to 0.9, such as 0.3",
    ),
}


@dataclass(frozen=True, repr=False)
class Settings(Spelled):
    """The settings in OPTIONS that a query takes unchanged; None where an option is not given.

    Args:
        epsilon, delta: the budget, as written.
        privacy_unit_column: the column that tells whose a row is.
        unit_parts, unit_timezone: the columns and expressions that make a unit together, where it is no
            single column, and the time zone in which these read times, where the text names one; that column
            is called after them.
        timezone: in which all else reads times with a zone, where the text names one.
        total_rows: the limit of rows in all groups together, in the place of both other limits.
        joined_rows: the limit of joined rows of a unit, where the text or the catalog has one.
        noise, group_selection, pre_threshold: options of a release.
        types: of columns of a source that declares none, by name.
        multiline, encoding: how CSV is written.
        confidence: of the error bars that are named in SQL.
        sampling: whether error bars hold the sampling error too.
        nonnegative: whether counts below 0 are shown as 0.
        diagnostics: the share of epsilon that measures what limits and bounds changed, as written.
        auto_share: the part of epsilon that infers bounds and limits, as written.
    """

    epsilon: str
    delta: str | None
    privacy_unit_column: str
    unit_parts: tuple[str, ...] = ()
    unit_timezone: str | None = None
    timezone: str | None = None
    total_rows: int | None = None
    joined_rows: int | None = None
    noise: str | None = None
    group_selection: str | None = None
    pre_threshold: int | None = None
    types: dict[str, str] | None = None
    multiline: bool = True
    encoding: str | None = None
    confidence: float = 0.95
    sampling: bool = False
    nonnegative: bool = False
    diagnostics: str | None = None
    auto_share: str | None = None


@dataclass(frozen=True, repr=False)
class Options(Settings):
    """All that the OPTIONS clause of a private SELECT sets.

    Args:
        groups, rows: limits of contribution, at least 1.
        selecting: the place of an option that only matters where groups are selected.
        weights, weighing: the weight of each output, by name, as written; the place of the option.
        auto_bounds, auto_limits: whether missing bounds, and missing limits of groups and rows, are inferred.
    """

    groups: int | None = None
    rows: int | None = None
    selecting: Place | None = None
    weights: dict[str, str] = field(default_factory=dict)
    weighing: Place | None = None
    auto_bounds: bool = False
    auto_limits: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the OPTIONS clause that a query takes unchanged, by name."""
        taken = {one.name: getattr(self, one.name) for one in fields(Settings)}
        return taken | {"delta": self.delta or "0"}


@dataclass(frozen=True)
class Advised:
    """The budget that `sf.advise` sets in place of the options epsilon and delta.

    Args:
        epsilon, delta: of which each question gets a part, as written.
    """

    epsilon: str
    delta: str


def read_options(
    statement: Statement, declared: TableDeclaration | None = None, advised: Advised | None = None
) -> Options:
    """Check the options of a private SELECT and return what they set.

    Args:
        statement: the private SELECT.
        declared: the catalog's declaration of its table.
        advised: the budget from `sf.advise`, in place of the options epsilon and delta. Missing limits and
            bounds are then inferred, unless the options forbid it.
    Raises:
        SqlError: an option is unknown, given twice, missing or of no admissible value, or contradicts the
            catalog.
    """
    given = _OptionReader(statement, declared, advised)
    groups, rows = (declared.max_groups, declared.max_rows) if declared is not None else (None, None)
    return Options(
        privacy_unit_column=given.unit(),
        unit_parts=given.unit_parts(),
        unit_timezone=given.unit_timezone(),
        timezone=given.read_text("timezone", _TIMEZONE_FORM),
        epsilon=str(given.share("epsilon")) if advised is None else advised.epsilon,
        delta=given.share("delta") if advised is None else advised.delta,
        groups=given.whole("max_groups_contributed", groups),
        rows=given.whole("max_rows_per_group", rows),
        total_rows=given.total_rows(groups, rows),
        joined_rows=given.joined_rows(),
        noise=given.choice("noise", NOISE_CHOICES),
        group_selection=given.selection(),
        pre_threshold=given.whole("min_privacy_units_per_group"),
        selecting=given.place("group_selection") or given.place("min_privacy_units_per_group"),
        types=given.by_name("types", TYPES_FORM),
        multiline=given.choice("multiline", ("true", "false")) != "false",
        encoding=given.read_text("encoding", "must be a text in single quotes, such as encoding = 'latin-1'"),
        weights=given.by_name("weights", _WEIGHTS_FORM) or {},
        weighing=given.place("weights"),
        confidence=float(given.share("confidence") or 0.95),
        sampling=given.choice("sampling", ("true", "false")) == "true",
        nonnegative=given.choice("nonnegative", ("true", "false")) == "true",
        diagnostics=given.share("diagnostics"),
        auto_bounds=given.automatic("auto_bounds"),
        auto_limits=given.auto_limits(),
        auto_share=given.share("auto_share"),
    )


def parse_mapping(text: str) -> dict[str, str] | None:
    """Parse the text of options such as `types` or `weights`: a value for each name; None in another form.

    >>> parse_mapping('id BIGINT, "the amount" DECIMAL(10, 2), day DATE "%b %d, %Y"')
    {'id': 'BIGINT', 'the amount': 'DECIMAL(10, 2)', 'day': 'DATE "%b %d, %Y"'}
    """
    types: dict[str, str] = {}
    for entry in _entries(text):
        found = re.fullmatch(r'\s*("(?:[^"]|"")+"|\w+)\s+(\S.*?)\s*', entry)
        if found is None:
            return None
        quoted = found[1].startswith('"')
        name = found[1][1:-1].replace('""', '"') if quoted else found[1]
        if name in types:
            return None
        types[name] = found[2]
    return types


def _entries(text: str) -> Iterator[str]:
    """Yield the entries of an option's text: between commas outside of brackets and double quotes."""
    depth, entry = 0, ""
    for piece in re.findall(r'"(?:[^"]|"")*"|.', text, re.DOTALL):
        depth += (piece in "([") - (piece in ")]")
        if piece == "," and depth <= 0:
            yield entry
            entry = ""
        else:
            entry += piece
    yield entry


class _OptionReader:
    """The options of one OPTIONS clause by canonical name, with a check of each value."""

    def __init__(
        self, statement: Statement, declared: TableDeclaration | None, advised: Advised | None
    ) -> None:
        self.text, self.declared, self.tables = statement.text, declared, statement.tables
        self.advised = advised
        self.pairs: dict[str, tuple[Literal, Literal]] = {}
        for name, value in statement.options:
            self._add(name, value)
        for key, example in (("epsilon", "1"), ("privacy_unit_column", "id")):
            known = declared if key == "privacy_unit_column" else advised
            if key not in self.pairs and known is None:
                message = f"{key} is missing: write OPTIONS ({key} = {example}, ...)"
                raise self._refuse(statement.clause_place, message)

    def _add(self, name: Literal, value: Literal) -> None:
        """Add one option under its canonical name; refuse unknown and repeated ones, and the catalog's."""
        if name.text not in OPTION_NAMES:
            if name.text in _refused:
                raise self._refuse(name.place, f"{name.text} is not an option: {_refused[name.text]}")
            near = _OURS.get(ARGUMENTS.get(name.text, name.text)) or nearest(name.text, OPTION_NAMES)
            listed = ", ".join(n for n in OPTION_NAMES if n not in _canonical)
            hint = f"; did you mean {near}?" if near else "."
            raise self._refuse(name.place, f"there is no option {name.text}{hint} The options are: {listed}")
        key = _canonical.get(name.text, name.text)
        if self.advised is not None and key in _of_release and value.text.upper() != STRATEGY:
            raise self._refuse(
                name.place,
                f"{name.text} is an option of a release, and advise chooses what is best. Leave it out",
            )
        if self.declared is not None and key in ("types", "multiline", "encoding", "unit_timezone"):
            raise self._refuse(name.place, f"{key} is declared in {self.declared.where}. Leave it out")
        if key in self.pairs:
            other = self.pairs[key][0].text
            also = "" if name.text == other else f" ({name.text} is the same as {other})"
            raise self._refuse(name.place, f"{name.text} is given twice{also}. Keep one")
        self.pairs[key] = (name, value)

    def place(self, key: str) -> Place | None:
        """Return the place of an option's name, if the option is given."""
        return self.pairs[key][0].place if key in self.pairs else None

    def unit(self) -> str:
        """Return the option privacy_unit_column, or the catalog's privacy unit."""
        declared = self.declared
        if declared is not None and "privacy_unit_column" not in self.pairs:
            return declared.privacy_unit or ""
        value = self.pairs["privacy_unit_column"][1]
        text = unit_name(self._parts(value)) if value.kind == "list" else value.text
        if declared is not None and text.casefold() != (declared.privacy_unit or "").casefold():
            raise self._refuse(
                value.place,
                f"privacy_unit_column is declared as {declared.privacy_unit} in {declared.where}. "
                "Leave it out",
            )
        if value.kind == "number" or not text.strip():
            raise self._refuse(value.place, "privacy_unit_column must be the name of a column")
        return text if declared is None else declared.privacy_unit or ""

    def unit_parts(self) -> tuple[str, ...]:
        """Return the columns and expressions of a privacy_unit_column option that lists several."""
        value = self.pairs.get("privacy_unit_column", (None, None))[1]
        if self.declared is not None or value is None or value.kind != "list" or len(value.parts) < 2:
            return ()
        return self._parts(value)

    def _parts(self, value: Literal) -> tuple[str, ...]:
        """Return the entries of the privacy_unit_column option, without qualifying table names."""
        if len(value.parts) > _MAX_PARTS:
            raise self._refuse(value.place, f"a privacy unit can have at most {_MAX_PARTS} parts")
        aliases = {(self.tables.alias or "").casefold(), *self.tables.aliases} - {""}
        found = []
        for tokens in value.parts:
            kept = [
                token
                for i, token in enumerate(tokens)
                if not any(_qualifies(tokens, at, aliases) for at in (i, i - 1))
            ]
            found.append(self._format_entry(kept or list(tokens)))
        try:
            return check_parts(found)
        except (ParameterError, QueryError) as error:
            raise self._refuse(value.place, str(error)) from None

    def _format_entry(self, tokens: list[Token]) -> str:
        """Return an entry of a list option as written, on one line."""
        if len(tokens) == 1:
            return tokens[0].text
        pieces = [self.text[tokens[0].start : tokens[0].stop]]
        for before, token in pairwise(tokens):
            pieces.append(" " * (token.start > before.stop) + self.text[token.start : token.stop])
        return "".join(pieces)

    def unit_timezone(self) -> str | None:
        """Return the option unit_timezone, which needs a privacy unit of several parts."""
        if "unit_timezone" not in self.pairs:
            return None
        name, value = self.pairs["unit_timezone"]
        if value.kind != "text" or not self.unit_parts():
            raise self._refuse(
                name.place,
                "unit_timezone must be the name of a time zone, such as 'Europe/Berlin', in which "
                "expressions in privacy_unit_column, such as [id, date_trunc('week', ts)], read times",
            )
        return value.text

    def share(self, key: str) -> str | None:
        """Return a numeric option as written, after a check of its range."""
        if key not in self.pairs:
            return None
        value = self._number(key)
        is_within, expected = _RANGES[key]
        if not is_within(Fraction(value.text)):
            raise self._refuse(value.place, f"{key} {expected}")
        return value.text

    def automatic(self, key: str) -> bool:
        """Whether an auto_... option is on; without the option, whether advice sets the budget."""
        said = self.choice(key, ("true", "false"))
        return self.advised is not None if said is None else said == "true"

    def auto_limits(self) -> bool:
        """Whether limits left out of OPTIONS are inferred, which excludes max_rows_contributed."""
        wanted = self.automatic("auto_limits")
        if "max_rows_contributed" in self.pairs and "auto_limits" not in self.pairs:
            return False
        if wanted and "max_rows_contributed" in self.pairs:
            raise self._refuse(
                self.pairs["auto_limits"][0].place,
                "auto_limits chooses max_groups_contributed and max_rows_per_group, which "
                "max_rows_contributed replaces. Keep one of the two",
            )
        return wanted

    def _number(self, key: str) -> Literal:
        name, value = self.pairs[key]
        if value.kind != "number":
            raise self._refuse(value.place, f"{name.text} must be a number without quotes")
        return value

    def whole(self, key: str, limit: int | None = None) -> int | None:
        """Return an option that is an integer of at least 1 and within the catalog's limit."""
        if key not in self.pairs:
            return None
        name, value = self.pairs[key]
        if value.text.upper() == "NULL":
            raise self._refuse(
                value.place,
                f"{name.text} is NULL, but no amount of noise is enough without a limit. Write a "
                "whole number",
            )
        number = positive(self.text, value, name.text)
        if self.declared is not None and limit is not None and number > limit:
            raise self._refuse(value.place, exceeded_limit_message(self.declared, name.text, number, limit))
        return number

    def total_rows(self, *limits: int | None) -> int | None:
        """Return the option max_rows_contributed, which excludes the limits per group."""
        key = "max_rows_contributed"
        for other in ("max_groups_contributed", "max_rows_per_group"):
            if key in self.pairs and other in self.pairs:
                name = self.pairs[other][0]
                raise self._refuse(
                    name.place,
                    f"{key} limits a unit's rows over all groups, so it replaces {name.text}. "
                    "Keep one of the two",
                )
        # A unit's rows may all be in one group, or each in another.
        return self.whole(key, min((limit for limit in limits if limit is not None), default=None))

    def joined_rows(self) -> int | None:
        """Return the option max_joined_rows, or the catalog's limit."""
        key = "max_joined_rows"
        most = None if self.declared is None else self.declared.max_joined_rows
        number = self.whole(key, most)
        if number is not None and number > MAX_UNIT_ROWS:
            expected = f"{key} must be at most {MAX_UNIT_ROWS:,}, the most rows that one unit can make"
            raise self._refuse(self.pairs[key][1].place, expected)
        return most if number is None else number

    def choice(self, key: str, choices: tuple[str, ...]) -> str | None:
        """Return an option whose value is one of several words, in lower case."""
        if key not in self.pairs:
            return None
        name, value = self.pairs[key]
        choice = value.text.lower()
        if choice not in choices:
            near = nearest(choice, choices)
            hint = f"; did you mean {near}?" if near else ""
            raise self._refuse(value.place, f"{name.text} must be one of {', '.join(choices)}{hint}")
        return choice

    def selection(self) -> str | None:
        """Return the group selection that group_selection or group_selection_strategy asks for."""
        name, value = self.pairs.get("group_selection", (None, None))
        if name is None or value is None or name.text != "group_selection_strategy":
            return self.choice("group_selection", SELECTION_CHOICES)
        if value.text.upper() == STRATEGY:
            least = self.place("min_privacy_units_per_group")
            if least is not None:
                raise self._refuse(least, f"with {STRATEGY} all groups are shown. Leave this option out")
            return None
        if value.text.upper() != "LAPLACE_THRESHOLD":
            raise self._refuse(
                value.place,
                (
                    f"group_selection_strategy must be LAPLACE_THRESHOLD or {STRATEGY}. For another "
                    "rule write group_selection = "
                )
                + " | ".join(SELECTION_CHOICES),
            )
        return "laplace"

    def by_name(self, key: str, form: str) -> dict[str, str] | None:
        """Return an option whose text has a value for each of several names, such as types."""
        if key not in self.pairs:
            return None
        _, value = self.pairs[key]
        found = parse_mapping(value.text) if value.kind == "text" else None
        if found is None:
            raise self._refuse(value.place, f"{key} is written {key} = {form}")
        return found

    def read_text(self, key: str, form: str) -> str | None:
        """Return an option whose value must be a text in quotes."""
        if key not in self.pairs:
            return None
        _, value = self.pairs[key]
        if value.kind != "text":
            raise self._refuse(value.place, f"{key} {form}")
        return value.text

    def _refuse(self, place: Place, message: str) -> SqlError:
        return refusal(self.text, place, message)


def _qualifies(tokens: Sequence[Token], at: int, aliases: Collection[str]) -> bool:
    """Whether a token in the privacy_unit_column option is a table's name that qualifies a column."""
    if not 0 <= at < len(tokens) - 2 or tokens[at + 1].word != "." or tokens[at].kind not in ("word", "name"):
        return False
    return tokens[at].text.casefold() in aliases and (at == 0 or tokens[at - 1].word != ".")
