"""The OPTIONS (...) of a differentially private SELECT: each by its own name, in its own type."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from sfumato.catalogs.declarations import TableDeclaration
from sfumato.catalogs.notes import beyond
from sfumato.dataclass import dataclass
from sfumato.dialect.public_groups import STRATEGY
from sfumato.dialect.syntax import Literal, Statement, positive
from sfumato.dialect.words import Place, Token, refusal
from sfumato.errors import ParameterError, QueryError, SqlError, nearest
from sfumato.names.foreign import ARGUMENTS, section
from sfumato.query.choices import NOISE_CHOICES, SELECTION_CHOICES
from sfumato.query.tables.combining import MOST_UNIT_ROWS
from sfumato.query.tables.units import checked_parts, unit_name

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
    "sampling",
)
TYPES_FORM = "'id BIGINT, amount DOUBLE, day DATE', each column once"
_WEIGHTS_FORM = "'mean_age 4, \"the total\" 2', each output once"
_MOST_PARTS = 50
_refused = section("options")


@dataclass(frozen=True)
class Options:
    """What a statement's options say; None where one is not given.

    Args:
        epsilon, delta: the budget, as written.
        unit: the column that tells whose a row is.
        unit_parts: the columns and expressions that make a unit together; none where it is one column.
        unit_timezone: in which these expressions read times with a zone; None where it is not named.
        timezone: the same of all else.
        groups, rows: limits of contribution, at least 1.
        total_rows: the limit of rows in all groups together, in the place of both.
        joined_rows: the limit of joined rows of a unit; what the catalog says where it is left out.
        noise, selection, threshold: kind of noise, rule for groups, and their least number of units.
        selecting: the place of an option that only matters where groups are selected.
        types: of columns of a source that declares none, by name.
        multiline, encoding: how CSV is written.
        weights: how much outputs matter, by name, as written; with their place.
        confidence: of error bars that are named in SQL.
        sampling: whether error bars hold the sampling error too.
        diagnostics: the share of the budget that tells how much limits and bounds changed, as written.
        auto_bounds, auto_limits: whether bounds, and limits of groups and rows, that are left out are found.
        auto_share: the part of epsilon for that, as written.
    """

    epsilon: str
    delta: str | None
    unit: str
    groups: int | None
    rows: int | None
    total_rows: int | None
    joined_rows: int | None
    noise: str | None
    selection: str | None
    threshold: int | None
    selecting: Place | None
    types: dict[str, str] | None
    multiline: bool
    encoding: str | None
    weights: dict[str, str]
    weighing: Place | None
    confidence: float
    sampling: bool
    unit_parts: tuple[str, ...]
    unit_timezone: str | None
    timezone: str | None
    diagnostics: str | None
    auto_bounds: bool
    auto_limits: bool
    auto_share: str | None


@dataclass(frozen=True)
class Advised:
    """What advice decides in the place of OPTIONS: the budget, and whatever is left out.

    Args:
        epsilon, delta: of which each question gets a part, as written.
    """

    epsilon: str
    delta: str


def read_options(
    statement: Statement, declared: TableDeclaration | None = None, advised: Advised | None = None
) -> Options:
    """Read the options of a statement.

    Args:
        statement: whose they are.
        declared: what a catalog says of its table.
        advised: what is decided by advice, in the place of a budget that the options say; limits and bounds
            that they leave out are then to be found, unless they say otherwise.
    Raises:
        SqlError: an option is unknown, given twice, missing or of no admissible value, or contradicts the
            catalog.
    """
    given = _Given(statement, declared, advised)
    groups, rows = (declared.max_groups, declared.max_rows) if declared is not None else (None, None)
    return Options(
        unit=given.unit(),
        unit_parts=given.unit_parts(),
        unit_timezone=given.unit_timezone(),
        timezone=given.timezone(),
        epsilon=given.epsilon(),
        delta=given.delta(),
        groups=given.whole("max_groups_contributed", groups),
        rows=given.whole("max_rows_per_group", rows),
        total_rows=given.total_rows(groups, rows),
        joined_rows=given.joined_rows(),
        noise=given.choice("noise", NOISE_CHOICES),
        selection=given.selection(),
        threshold=given.whole("min_privacy_units_per_group"),
        selecting=given.place("group_selection") or given.place("min_privacy_units_per_group"),
        types=given.by_name("types", TYPES_FORM),
        multiline=given.choice("multiline", ("true", "false")) != "false",
        encoding=given.text_of("encoding"),
        weights=given.by_name("weights", _WEIGHTS_FORM) or {},
        weighing=given.place("weights"),
        confidence=given.confidence(),
        sampling=given.choice("sampling", ("true", "false")) == "true",
        diagnostics=given.diagnostics(),
        auto_bounds=given.automatic("auto_bounds"),
        auto_limits=given.auto_limits(),
        auto_share=given.auto_share(),
    )


def types_of(text: str) -> dict[str, str] | None:
    """Read what is said of names (types of columns, weights of outputs) in one text; None in another form.

    >>> types_of('id BIGINT, "the amount" DECIMAL(10, 2), day DATE "%b %d, %Y"')
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
    """Yield what stands between commas, but for those in brackets and in double quotes."""
    depth, entry = 0, ""
    for piece in re.findall(r'"(?:[^"]|"")*"|.', text, re.DOTALL):
        depth += (piece in "([") - (piece in ")]")
        if piece == "," and depth <= 0:
            yield entry
            entry = ""
        else:
            entry += piece
    yield entry


class _Given:
    """Name and value of each option, as written, by its canonical name."""

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
        if name.text in _refused:
            raise self._refuse(name.place, f"{name.text} is not known here: {_refused[name.text]}")
        if name.text not in OPTION_NAMES:
            near = _OURS.get(ARGUMENTS.get(name.text, name.text)) or nearest(name.text, OPTION_NAMES)
            listed = ", ".join(n for n in OPTION_NAMES if n not in _canonical)
            hint = f"; did you mean {near}?" if near else "."
            raise self._refuse(name.place, f"there is no option {name.text}{hint} The options are: {listed}")
        key = _canonical.get(name.text, name.text)
        if self.advised is not None and key in _of_release and value.text.upper() != STRATEGY:
            raise self._refuse(
                name.place, f"{name.text} is of a release, and advice chooses what is best; leave it out"
            )
        if self.declared is not None and key in ("types", "multiline", "encoding", "unit_timezone"):
            raise self._refuse(name.place, f"{key} is what {self.declared.where} says; leave it out")
        if key in self.pairs:
            other = self.pairs[key][0].text
            also = "" if name.text == other else f" ({name.text} is the same as {other})"
            raise self._refuse(name.place, f"{name.text} is given twice{also}; keep one")
        self.pairs[key] = (name, value)

    def place(self, key: str) -> Place | None:
        return self.pairs[key][0].place if key in self.pairs else None

    def unit(self) -> str:
        declared = self.declared
        if declared is not None and "privacy_unit_column" not in self.pairs:
            return declared.privacy_unit or ""
        value = self.pairs["privacy_unit_column"][1]
        text = unit_name(self._parts(value)) if value.kind == "list" else value.text
        if declared is not None and text.casefold() != (declared.privacy_unit or "").casefold():
            raise self._refuse(
                value.place,
                f"privacy_unit_column is {declared.privacy_unit} in {declared.where}; leave it out",
            )
        if value.kind == "number" or not text.strip():
            raise self._refuse(value.place, "privacy_unit_column names the column that tells whose a row is")
        return text if declared is None else declared.privacy_unit or ""

    def unit_parts(self) -> tuple[str, ...]:
        value = self.pairs.get("privacy_unit_column", (None, None))[1]
        if self.declared is not None or value is None or value.kind != "list" or len(value.parts) < 2:
            return ()
        return self._parts(value)

    def _parts(self, value: Literal) -> tuple[str, ...]:
        """Return the columns and expressions of a list, without the names of tables before columns."""
        if len(value.parts) > _MOST_PARTS:
            raise self._refuse(value.place, f"a privacy unit has at most {_MOST_PARTS} parts")
        aliases = {(self.tables.alias or "").casefold(), *self.tables.aliases} - {""}
        found = []
        for tokens in value.parts:
            kept = [
                token
                for i, token in enumerate(tokens)
                if not any(_qualifies(tokens, at, aliases) for at in (i, i - 1))
            ]
            found.append(self._spelled(kept or list(tokens)))
        try:
            return checked_parts(found)
        except (ParameterError, QueryError) as error:
            raise self._refuse(value.place, str(error)) from None

    def _spelled(self, tokens: list[Token]) -> str:
        """Return an entry of a list as it is written, in one line: of a single name what it names."""
        if len(tokens) == 1:
            return tokens[0].text
        pieces = [self.text[tokens[0].start : tokens[0].stop]]
        for before, token in pairwise(tokens):
            pieces.append(" " * (token.start > before.stop) + self.text[token.start : token.stop])
        return "".join(pieces)

    def timezone(self) -> str | None:
        if "timezone" not in self.pairs:
            return None
        value = self.pairs["timezone"][1]
        if value.kind != "text":
            raise self._refuse(
                value.place,
                "timezone is the name of a time zone in quotes, such as 'Europe/Berlin'; expressions and "
                "group keys read times in it",
            )
        return value.text

    def unit_timezone(self) -> str | None:
        if "unit_timezone" not in self.pairs:
            return None
        name, value = self.pairs["unit_timezone"]
        if value.kind != "text" or not self.unit_parts():
            raise self._refuse(
                name.place,
                "unit_timezone is the name of a time zone, such as 'Europe/Berlin', in which expressions of "
                "a privacy_unit_column of several parts read times: [id, date_trunc('week', ts)]",
            )
        return value.text

    def epsilon(self) -> str:
        if self.advised is not None:
            return self.advised.epsilon
        value = self._number("epsilon")
        if Fraction(value.text) <= 0:
            raise self._refuse(value.place, "epsilon must be greater than 0")
        return value.text

    def delta(self) -> str | None:
        if self.advised is not None:
            return self.advised.delta
        if "delta" not in self.pairs:
            return None
        value = self._number("delta")
        if not 0 <= Fraction(value.text) < 1:
            raise self._refuse(value.place, "delta must be at least 0 and below 1")
        return value.text

    def confidence(self) -> float:
        if "confidence" not in self.pairs:
            return 0.95
        value = self._number("confidence")
        if not 0 < float(value.text) < 1:
            raise self._refuse(value.place, "confidence must be between 0 and 1, such as 0.95")
        return float(value.text)

    def diagnostics(self) -> str | None:
        if "diagnostics" not in self.pairs:
            return None
        value = self._number("diagnostics")
        if not 0 < Fraction(value.text) < 1:
            raise self._refuse(value.place, "diagnostics is a share of epsilon between 0 and 1, such as 0.05")
        return value.text

    def automatic(self, key: str) -> bool:
        """Whether what is left out is found: as the option says, else where advice is given."""
        said = self.choice(key, ("true", "false"))
        return self.advised is not None if said is None else said == "true"

    def auto_limits(self) -> bool:
        wanted = self.automatic("auto_limits")
        if "max_rows_contributed" in self.pairs and "auto_limits" not in self.pairs:
            return False
        if wanted and "max_rows_contributed" in self.pairs:
            raise self._refuse(
                self.pairs["auto_limits"][0].place,
                "auto_limits finds max_groups_contributed and max_rows_per_group, which are not set beside "
                "max_rows_contributed; keep one of the two",
            )
        return wanted

    def auto_share(self) -> str | None:
        if "auto_share" not in self.pairs:
            return None
        value = self._number("auto_share")
        if not Fraction(1, 1000) <= Fraction(value.text) <= Fraction(9, 10):
            raise self._refuse(value.place, "auto_share is a part of epsilon from 0.001 to 0.9, such as 0.3")
        return value.text

    def _number(self, key: str) -> Literal:
        name, value = self.pairs[key]
        if value.kind != "number":
            raise self._refuse(value.place, f"{name.text} must be a number, written without quotes")
        return value

    def whole(self, key: str, most: int | None = None) -> int | None:
        if key not in self.pairs:
            return None
        name, value = self.pairs[key]
        if value.text.upper() == "NULL":
            raise self._refuse(value.place, f"{name.text} = NULL: without a limit no noise is enough")
        number = positive(self.text, value, name.text)
        if self.declared is not None and most is not None and number > most:
            raise self._refuse(value.place, beyond(self.declared, name.text, number, most))
        return number

    def total_rows(self, *limits: int | None) -> int | None:
        key = "max_rows_contributed"
        for other in ("max_groups_contributed", "max_rows_per_group"):
            if key in self.pairs and other in self.pairs:
                name = self.pairs[other][0]
                raise self._refuse(
                    name.place,
                    f"{key} limits a unit's rows over all groups together, in the place of {name.text}; keep "
                    "one of the two",
                )
        # A unit's rows may all be in one group, or each in another.
        return self.whole(key, min((limit for limit in limits if limit is not None), default=None))

    def joined_rows(self) -> int | None:
        key = "max_joined_rows"
        most = None if self.declared is None else self.declared.max_joined_rows
        number = self.whole(key, most)
        if number is not None and number > MOST_UNIT_ROWS:
            expected = f"{key} is at most {MOST_UNIT_ROWS:,}, as one unit may make so many rows"
            raise self._refuse(self.pairs[key][1].place, expected)
        return most if number is None else number

    def choice(self, key: str, choices: tuple[str, ...]) -> str | None:
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
        name, value = self.pairs.get("group_selection", (None, None))
        if name is None or value is None or name.text != "group_selection_strategy":
            return self.choice("group_selection", SELECTION_CHOICES)
        if value.text.upper() == STRATEGY:
            least = self.place("min_privacy_units_per_group")
            if least is not None:
                raise self._refuse(least, f"with {STRATEGY} all groups are shown; leave this option out")
            return None
        if value.text.upper() != "LAPLACE_THRESHOLD":
            raise self._refuse(
                value.place,
                f"group_selection_strategy must be LAPLACE_THRESHOLD or {STRATEGY}; or write group_selection "
                "= " + " | ".join(SELECTION_CHOICES),
            )
        return "laplace"

    def by_name(self, key: str, form: str) -> dict[str, str] | None:
        if key not in self.pairs:
            return None
        _, value = self.pairs[key]
        found = types_of(value.text) if value.kind == "text" else None
        if found is None:
            raise self._refuse(value.place, f"{key} is written {key} = {form}")
        return found

    def text_of(self, key: str) -> str | None:
        if key not in self.pairs:
            return None
        _, value = self.pairs[key]
        if value.kind != "text":
            raise self._refuse(value.place, f"{key} is a text in single quotes: {key} = 'latin-1'")
        return value.text

    def _refuse(self, place: Place, message: str) -> SqlError:
        return refusal(self.text, place, message)


def _qualifies(tokens: Sequence[Token], at: int, aliases: Collection[str]) -> bool:
    """Whether a word is the name of a table, with a point and a column behind it."""
    if not 0 <= at < len(tokens) - 2 or tokens[at + 1].word != "." or tokens[at].kind not in ("word", "name"):
        return False
    return tokens[at].text.casefold() in aliases and (at == 0 or tokens[at - 1].word != ".")
