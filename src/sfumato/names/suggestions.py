"""Suggestions in errors about wrong names: unknown attributes, unknown or missing arguments.

The name is all that a message tells of what was given: no value of an argument is in it.
"""

from __future__ import annotations

import inspect
import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import wraps
from importlib import import_module
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from sfumato.errors import ArgumentError, SfumatoError, UnknownNameError, nearest, shown
from sfumato.names.foreign_names import ARGUMENTS, ELSEWHERE, FORMS, NAMED_FIRST, OF_RELEASE, section

LOG = logging.getLogger("sfumato.names")
LOG.addHandler(logging.NullHandler())
_MAX_NAME = 60  # a longer name is no name that somebody meant
_LISTED = 8
_EXPRESSION = re.compile(r"[-+*/%=<>(]")
_COLLECTING = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD

# Rooms of building blocks, whose functions have arguments, and names, of their own.
_BLOCKS = tuple(
    f"sfumato.{room}" for room in ("transformations", "measurements", "framework", "noise", "snapping")
)

F = TypeVar("F", bound=Callable[..., Any])


def unknown_name(owner: str, name: str, known: Iterable[str], foreign: Mapping[str, str]) -> UnknownNameError:
    """Make the error about an attribute that an object lacks, with a suggestion.

    Args:
        owner: as the sentence begins, such as "a Table".
        name: that was asked for.
        known: names that there are, of which the nearest is offered.
        foreign: what to write in the place of foreign names; by "" where nothing is like the name.
    """
    near = nearest(name, known) if len(name) <= _MAX_NAME else None
    advice = foreign.get(name) or (f"did you mean {near}?" if near else foreign.get("", ""))
    return UnknownNameError(f"{owner} has no {_plain(name)}{advice and '; '}{advice}", name)


class Suggesting:
    """Base class whose error about an unknown attribute has a suggestion.

    A class says by `_foreign` which foreign names mean something here. Names that begin with an underscore
    are Python's, and are missing as ever: `hasattr`, `copy` and `pickle` ask for those.

    >>> class Lamp(Suggesting):
    ...     _foreign = {"ignite": "write light(hours=1)"}
    >>> Lamp().ignite
    Traceback (most recent call last):
    sfumato.errors.UnknownNameError: a Lamp has no ignite; write light(hours=1)
    """

    _foreign: ClassVar[Mapping[str, str]] = {}

    def _advice(self, name: str) -> Mapping[str, str]:
        """Return the suggestions for foreign attribute names, when one was used."""
        return self._foreign

    if not TYPE_CHECKING:  # a checker of types goes on to say which names there are

        def __getattr__(self, name: str) -> Any:
            # Of a property that fails, and of Python's own names, Python says what is missing.
            if name.startswith("_") or hasattr(type(self), name):
                return object.__getattribute__(self, name)
            kind = type(self)
            known = [n for n in dir(kind) if not n.startswith("_")]
            article = "an" if kind.__name__[0] in "AEIOU" else "a"
            raise unknown_name(f"{article} {kind.__name__}", name, known, self._advice(name)) from None


class SuggestingArguments(Suggesting):
    """Base class whose methods suggest the right argument when they are called with a wrong one.

    >>> class Lamp(SuggestingArguments):
    ...     def light(self, *, hours):
    ...         return hours
    >>> Lamp().light(hour=1)
    Traceback (most recent call last):
    sfumato.errors.ArgumentError: light: there is no argument hour; did you mean hours? Write light(hours=...)
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Decorate the public methods of a subclass with suggestions for wrong arguments."""
        super().__init_subclass__(**options)
        for name, value in list(vars(cls).items()):
            if isinstance(value, FunctionType) and not name.startswith("_"):
                setattr(cls, name, suggest_arguments(value))


def suggest_arguments(function: F) -> F:
    """Decorate a function so that errors about wrong or missing arguments have suggestions.

    >>> @suggest_arguments
    ... def mean(column, *, lower=None, upper=None):
    ...     return column
    >>> mean("age", bounds=(0, 1))
    Traceback (most recent call last):
    sfumato.errors.ArgumentError: mean: there is no argument bounds; did you mean lower and upper? Write ...
    """

    error_of_call, defaults = _error_of_call, _library_defaults

    def call(*args: Any, **named: Any) -> Any:
        try:
            with defaults():
                return function(*args, **named)
        except Exception as error:
            wrong = error_of_call(error, function, args, named)
            if wrong is None:
                raise
        raise wrong

    # With the globals of the function's own module: doctest looks there for the examples of what it holds.
    own: dict[str, Any] = function.__globals__
    made = FunctionType(call.__code__, own, function.__name__, None, call.__closure__)
    made.__dict__["isolated"] = True
    return cast(F, wraps(function)(made))


def _library_defaults() -> AbstractContextManager[None]:
    from sfumato.exact.library_settings import library_defaults

    return library_defaults()


def _error_of_call(
    error: Exception, function: Callable[..., Any], args: tuple[Any, ...], named: Iterable[str]
) -> ArgumentError | None:
    """Return the error with suggestions for a wrong call, and log the kind of a refusal."""
    made = type(args[0]).__name__ if args and function.__name__ == "__init__" else ""
    owner = type(args[0]) if args else None
    wrong = misuse(function, len(args), named, made, owner) if type(error) is TypeError else None
    refused = error if wrong is None else wrong
    if isinstance(refused, SfumatoError):
        with suppress(Exception):  # of a handler, which would hide the refusal
            caller = sys._getframe(1)
            if not _within(caller.f_back, caller.f_code):
                LOG.info("refused: %s, %s", function.__qualname__, type(refused).__name__)
    return wrong


def _within(frame: FrameType | None, code: CodeType) -> bool:
    """Whether a decorated function was called by another one, which reports the error."""
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def misuse(
    function: Callable[..., Any],
    places: int,
    named: Iterable[str],
    made: str = "",
    owner: type | None = None,
) -> ArgumentError | None:
    """Return the error about the arguments of a call, with a suggestion; None where they fit.

    Args:
        function: that was called.
        places: how many arguments were given by their place, with a method's own object.
        named: the names of the others.
        made: the class that is made, where the function is what makes it.
        owner: the class of what the method was called of.
    """
    signature = inspect.signature(function)
    try:
        signature.bind(*[None] * places, **dict.fromkeys(named))
    except TypeError:
        blocks = function.__module__.startswith(_BLOCKS)
        release = getattr(owner, "release", None)
        options = None if release is None else frozenset(inspect.signature(release).parameters)
        return _Call(made or function.__name__, signature, blocks, options).error(places, list(named))
    return None


class _Call:
    """A function's signature, from which errors about wrong arguments suggest right ones.

    Args:
        name: of the function.
        signature: what it takes.
        block: whether it is of a room of building blocks.
        options: of the release of what it is a method of; None where that has none.
    """

    def __init__(
        self,
        name: str,
        signature: inspect.Signature,
        block: bool = False,
        options: frozenset[str] | None = None,
    ) -> None:
        self.options = options
        parameters = list(signature.parameters.values())
        self.owned = bool(parameters) and parameters[0].name == "self"
        self.parameters = parameters[1:] if self.owned else parameters
        self.name, self.block = name, block
        kinds = inspect.Parameter
        self.placed = [
            p for p in self.parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        ]
        self.by_name = [
            p for p in self.parameters if p.kind in (kinds.KEYWORD_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        ]
        self.any_name = next((p.name for p in self.parameters if p.kind == kinds.VAR_KEYWORD), None)
        self.any_place = any(p.kind == kinds.VAR_POSITIONAL for p in self.parameters)

    def error(self, places: int, named: list[str]) -> ArgumentError:
        """Return the error about a call that does not fit the signature, with a suggestion."""
        known = [p.name for p in self.by_name]
        strange = [n for n in named if n not in known] if self.any_name is None else []
        if strange:
            return self._refuse(self._no_argument(strange, known))
        given = places - self.owned
        if given > len(self.placed) and not self.any_place:
            return self._refuse(self._too_many(given))
        taken = [p.name for p in self.placed[:given]]
        if twice := next((n for n in named if n in taken), None):
            return self._refuse(f"{twice} is given twice, by its place and by its name")
        needed = [p for p in self.parameters if p.default is p.empty and p.kind not in _COLLECTING]
        missing = [p.name for p in needed if p.name not in (*taken, *named)]
        return self._refuse(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")

    def _too_many(self, value: int) -> str:
        """Return the message about too many positional arguments."""
        named = self.any_name is not None or len(self.by_name) > len(self.placed)
        if not named:
            return f"it takes {' and '.join(p.name for p in self.placed) or 'nothing'}, and {value} are given"
        what = f"arguments after {self.placed[-1].name}" if self.placed else "all arguments"
        return f"pass {what} by name"

    def _no_argument(self, strange: list[str], known: list[str]) -> str:
        """Return the message about unknown arguments, with suggested names."""
        said = " and ".join(_plain(name) for name in strange[:_LISTED])
        no = f"there is no argument {said}" if len(strange) == 1 else f"there are no arguments {said}"
        ours: dict[str, None] = {}
        for name in strange:
            meant = ARGUMENTS.get(name, "").split(" and ")
            near = nearest(name, known) if len(name) <= _MAX_NAME else None
            if set(meant) <= set(known):
                ours |= dict.fromkeys(meant)
            elif (advice := self._elsewhere(name)) is not None:
                return f"{no}: {advice}"
            elif near is None and self.name in NAMED_FIRST:
                return f"{no}: {NAMED_FIRST[self.name]}"
            elif near is None:
                return f"{no}; it takes {', '.join(known)}" if known else no
            else:
                ours[near] = None
        return f"{no}; did you mean {' and '.join(ours)}?"

    def _elsewhere(self, name: str) -> str | None:
        """Suggest where an argument belongs, such as in release; None where that is unknown."""
        if self.block or (name in OF_RELEASE and self.options is not None and name not in self.options):
            return None
        return ELSEWHERE.get(name)

    def _refuse(self, why: str) -> ArgumentError:
        """Make the error about wrong arguments, with a suggested call."""
        end = "" if why.endswith("?") else "."
        form = FORMS.get(self.name, "")
        if self.block:
            # A transformation of records may have the name of a statistic, which is what a newcomer means.
            meant = f"; of a column of a table it is {form}" if form.startswith("sf.") else ""
            form = f"{self._form()}{meant}"
        return ArgumentError(f"{self.name}: {why}{end} Write {form or self._form()}")

    def _form(self) -> str:
        """Return a suggested call with the required arguments, and some optional ones."""
        shown_ones = [
            f"{'*' * (p.kind == p.VAR_POSITIONAL)}{p.name}" for p in self.parameters if p in self.placed
        ]
        others = [p for p in self.parameters if p.kind == p.KEYWORD_ONLY]
        needed = [p for p in others if p.default is p.empty] or others[:2]
        shown_ones += [f"{p.name}=..." for p in needed]
        if len(needed) < len(others):
            shown_ones.append("...")
        return f"{self.name}({', '.join(shown_ones)})"


def not_a_column(name: str, columns: Iterable[str]) -> str:
    """Return a suggestion where an expression or list was given as a column's name; "" for others.

    >>> not_a_column("age // 10", ["age"])
    'name the expression first, with_columns(x="age // 10"), and use that name'
    """
    if name == "*":
        return "count() counts rows"
    if "," in name and {part.strip() for part in name.split(",")} <= set(columns):
        return "pass each column as its own argument"
    if name.isidentifier() or len(name) > _MAX_NAME or not _EXPRESSION.search(name):
        return ""
    quote = "'" if '"' in name else '"'
    return f"name the expression first, with_columns(x={quote}{name}{quote}), and use that name"


def _plain(name: str) -> str:
    """Return a wrong name as the error shows it: in quotes where it is no identifier, and shortened."""
    return name if name.isidentifier() and len(name) <= _MAX_NAME else shown(name[: _MAX_NAME + 1])


def advising(module: str, known: Iterable[str]) -> Callable[[str], Any]:
    """Return a module's `__getattr__`, which suggests a name for an unknown one.

    Args:
        module: its name, behind `sfumato.`.
        known: its public names.

    >>> advising("noise", ["Gaussian", "Laplace"])("laplace")
    Traceback (most recent call last):
    sfumato.errors.UnknownNameError: sfumato.noise has no laplace; did you mean Laplace?
    """
    names = tuple(known)

    def missing(name: str) -> Any:
        if name.startswith("_"):  # Python's own, which are missing as ever
            raise AttributeError(f"module 'sfumato.{module}' has no attribute {name!r}")
        others = {"": f"it has {', '.join(names[:4])} and others"}
        raise unknown_name(f"sfumato.{module}", name, names, {**others, **section(module, "modules")})

    return missing


def face(
    module: str, known: Iterable[str], homes: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`: names load on first use, unknown ones get suggestions.

    The first loads the module that has a name, where that is not loaded, and advises on unknown names. A name
    must not be that of a module in the same package, which would take its place.

    Args:
        module: its name, behind `sfumato.`.
        known: its public names.
        homes: by module, likewise behind `sfumato.`, which names it has, with spaces between them.

    >>> missing, listed = face("noise", ["Laplace", "Gaussian"])
    >>> listed()
    ['Gaussian', 'Laplace']
    """
    names = sorted(known)
    places = {name: home for home, held in (homes or {}).items() for name in held.split()}
    missing = advising(module, names)

    def found(name: str) -> Any:
        if name not in places:
            return missing(name)
        value = getattr(import_module(f"sfumato.{places[name]}"), name)
        setattr(sys.modules[f"sfumato.{module}"], name, value)
        return value

    return found, lambda: list(names)
