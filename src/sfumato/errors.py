"""All errors that sfumato raises.

    SfumatoError
    ├── QueryError (also ValueError)   the question must be fixed
    │   ├── ParameterError             a number or option is not admissible
    │   ├── ColumnError                a column is unknown or of the wrong type
    │   ├── SqlError                   the SQL text is not understood
    │   ├── CatalogError               what a catalog declares is not admissible
    │   └── ArgumentError (TypeError)  a function has no such argument, or lacks one
    ├── UnknownNameError (also AttributeError)  there is no function, method or attribute of this name
    ├── BudgetError (also ValueError)  epsilon or delta cannot buy what is asked
    ├── EngineError                    a source cannot be read, or a part is not installed
    └── RefusalError                   there is no safe answer, as the question alone shows

No text of an error, and not whether it comes, depends on private rows.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import FunctionType
from typing import Any


class SfumatoError(Exception):
    """The base class of all errors of sfumato."""


class QueryError(SfumatoError, ValueError):
    """Error: the query must be changed; the text says what to write instead."""


class ParameterError(QueryError):
    """Error: the value of a parameter is not valid.

    Args:
        name: the parameter, as the caller wrote it.
        value: the value given; only `shown` keeps it.
        expected: the valid values, as the end of the sentence "it must be ...".
    """

    def __init__(self, name: str, value: object, expected: str) -> None:
        super().__init__(f"{name} is {shown(value)}, but must be {expected}")
        self.name = name
        self.value: str = shown(value)
        self.expected = expected

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is made again of its text alone, which here are three: a pool of processes would hang.
        return _remade, (type(self), str(self), vars(self))


class ColumnError(QueryError):
    """Error: a column is unknown, or its type does not fit the query."""

    @classmethod
    def _unknown(
        cls, name: str, columns: Iterable[str], where: str, advice: str = "", also: str = ""
    ) -> ColumnError:
        """Return the error for an unknown column, with the nearest name or the known ones."""
        columns = list(columns)
        near = nearest(name, columns)
        guess = f"; did you mean {near!r}?" if near else "."
        hint = f"; {advice}." if advice else guess
        if name.casefold() in (column.casefold() for column in columns):
            also = ""  # no more than the spelling is wrong
        there = f"The columns are: {listed(columns)}{also and f' ({also})'}"
        return cls(f"{where}: there is no column {shown(name)}{hint} {there}")


class SqlError(QueryError):
    """Error: the SQL text is not understood, or requests something that is not private.

    Args:
        place: offsets in the text of the first wrong character and the end of the wrong part; None if there
            is no single place.
    """

    def __init__(self, text: str = "", place: tuple[int, int] | None = None) -> None:
        super().__init__(text)
        self.place = place


class CatalogError(QueryError):
    """Error: a declaration in a catalog is not valid, or does not fit its source."""


class ArgumentError(QueryError, TypeError):
    """Error: a function call has an unknown argument or lacks a required one."""


class UnknownNameError(SfumatoError, AttributeError):
    """Error: a function, method or attribute of this name does not exist.

    Args:
        name: the requested name.
    """

    def __init__(self, text: str = "", name: str = "") -> None:
        # Python would keep the object, and offer names of it behind a message that has offered one.
        super().__init__(text, name=name, obj=None)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.name)


class BudgetError(SfumatoError, ValueError):
    """Error: epsilon or delta is out of range, or the budget is too small for the query."""

    journaled = False  # whether the journal of a ledger has it already


class EngineError(SfumatoError):
    """Error: a source cannot be read, or an optional dependency is not installed."""

    of_ledger = False  # whether it is the ledger that cannot be read or written


class RefusalError(SfumatoError):
    """Error: there is no safe answer, which the query alone determines."""


def shown(value: Any) -> str:
    """Return a value as an error message quotes it: short plain values, or only the type.

    Whoever confuses two arguments gives a column, or a whole table, in the place of a name or a number.

    An object of this package is quoted only where its class says how, by `_in_messages`: the repr of a table
    names its source, which an analyst of the owner's tables must not learn.

    >>> shown(0.5), shown([0, 2]), shown("auto"), shown(["a private value"])
    ('0.5', '[0, 2]', "'auto'", 'a list')
    """
    kind = type(value)
    if kind is str:
        # Beyond the first line may be what a file holds, given in the place of its name.
        line = value.partition("\n")[0][:_QUOTED]
        return repr(value) if line == value else f"{line!r}..."
    if kind in (list, tuple):
        plain = len(value) <= _LISTED and all(_is_number(item) for item in value)
        return repr(value) if plain else with_article(kind.__name__)
    if isinstance(value, type):
        return type.__repr__(value)
    if isinstance(value, Enum):
        return f"{kind.__name__}.{value.name}"
    if _is_number(value):
        return repr(value)
    if isinstance(value, FunctionType):
        return f"the function {value.__name__}"
    text = value._in_messages() if hasattr(kind, "_in_messages") else None
    return with_article(kind.__name__) if text is None or len(text) > _QUOTED else text


def with_article(noun: str) -> str:
    """Return a noun with its article, for error messages.

    >>> with_article("list"), with_article("Expr"), with_article("int")
    ('a list', 'an Expr', 'an int')
    """
    return f"{'an' if noun[:1].casefold() in 'aeiou' else 'a'} {noun}"


_QUOTED, _LISTED = 200, 8


def _is_number(value: Any) -> bool:
    """Whether an error message can quote a value as one number, truth value or None."""
    kind: type[Any] = type(value)
    if kind is int:
        return bool(value.bit_length() <= _QUOTED * 3)
    if kind in (bool, float, Decimal, Fraction, type(None)):
        return True
    # Nor a record, which has no shape either.
    scalar = kind.__module__ == "numpy" and getattr(value, "shape", None) == ()
    return scalar and value.dtype.kind in "biufc"


def _remade(kind: type[ParameterError], text: str, attributes: dict[str, Any]) -> ParameterError:
    error = kind.__new__(kind, text)
    vars(error).update(attributes)
    return error


@contextmanager
def in_own_words(
    says: Callable[[Exception], SfumatoError] | None = None, *foreign: type[Exception]
) -> Iterator[None]:
    """Replace foreign errors in a block or decorated function by errors of ours, without a cause.

    The text of a foreign error may quote rows, and `raise ... from None` keeps it as `__context__`, where
    loggers and debuggers find it. So does an interrupt in the middle; one that DuckDB made an error of is an
    interrupt again. What runs in a generator needs a block inside it.

    Args:
        says: makes our error of a foreign one, whose text it had better leave out; None lets it pass.
        foreign: which errors; our own pass as they are, but for what is behind them.

    >>> def says(error):
    ...     return EngineError("the file cannot be read")
    >>> try:
    ...     with in_own_words(says, ValueError):
    ...         int("a private value")
    ... except EngineError as error:
    ...     print(error, error.__cause__, error.__context__)
    the file cannot be read None None
    """
    try:
        yield
    except BaseException as error:
        ours: BaseException = error
        if _is_interrupt(error):
            ours = KeyboardInterrupt()
        elif isinstance(error, Exception) and not isinstance(error, SfumatoError):
            if says is None or not isinstance(error, foreign):
                raise
            ours = says(error)
        # What is raised comes perhaps while something is handled, which Python would keep behind it.
        try:
            raise ours from None
        finally:
            ours.__context__ = None


def _is_interrupt(error: BaseException) -> bool:
    """Whether an error is DuckDB's form of a keyboard interrupt.

    No row brings either about: the one is of a type of its own, and in the text of the other the name of what
    was raised stands where a row's error would have its own, and nothing comes after it.
    """
    if type(error) is RuntimeError:
        return error.args == ("Query interrupted",)
    called = type(error).__module__ == "_duckdb" and type(error).__name__ == "InvalidInputException"
    return called and _INTERRUPTED.fullmatch(str(error)) is not None


_INTERRUPTED = re.compile(
    r"Invalid Input Error: [a-z ]+ the \w+ registered as '\w+' failed: KeyboardInterrupt: ?"
)


def listed(columns: Sequence[str]) -> str:
    """Return column names as an error message lists them, at most 20."""
    # In a name may be what a terminal obeys.
    names = ", ".join(name if name.isprintable() else repr(name) for name in columns[:20])
    return names + (", ..." if len(columns) > 20 else "")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like `name`, to suggest in an error message; None if none is close."""
    by_fold = {k.casefold(): k for k in known}
    import difflib

    found = difflib.get_close_matches(name.casefold(), by_fold, n=1, cutoff=0.6)
    return by_fold[found[0]] if found else None


def require(module: str, extra: str) -> None:
    """Raise the error that an optional dependency is not installed, with the command that installs it.

    Args:
        module: that is imported later.
        extra: of this package, which installs it.
    """
    if importlib.util.find_spec(module) is None:
        raise EngineError(f"{module} is not installed; install it with: pip install 'sfumato[{extra}]'")
