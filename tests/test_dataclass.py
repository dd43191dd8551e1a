"""Our data classes behave as Python's, and compile nothing before they are used."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, is_dataclass, replace
from typing import Any, ClassVar

import pytest

from sfumato.dataclass import dataclass

KINDS: dict[str, Callable[..., Any]] = {"ours": dataclass, "python": dataclasses.dataclass}


def classes(made: Callable[..., Any], base: Callable[..., Any]) -> dict[str, Any]:
    """Classes with everything that the package uses; those of the second kind are derived from."""

    @base(frozen=True)
    class Base:
        a: int
        b: Any = None
        shared: ClassVar[int] = 7

    @made(frozen=True)
    class Derived(Base):
        """With a docstring."""

        b: Any = 2
        c: list[int] = field(default_factory=list, hash=False)
        d: int = field(default=0, compare=False, repr=False)
        e: str = field(kw_only=True)
        f: int = field(default=5, kw_only=True)
        g: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "g", self.a + 1)

    @made(frozen=True, eq=False)
    class Identity:
        x: int

    @made(frozen=True, init=False, repr=False)
    class Own:
        x: int

        def __init__(self, y: int) -> None:
            object.__setattr__(self, "x", y)

        def __repr__(self) -> str:
            return "own"

    @made
    class Mutable:
        x: int
        y: list[int] = field(default_factory=list)

    class Plain(Own):
        pass

    return {kind.__name__: kind for kind in list(locals().values()) if inspect.isclass(kind)}


def seen(of: Callable[[], Any]) -> Any:
    """What comes of it: a value, or the kind of its error with the text."""
    try:
        return of()
    except Exception as error:
        return type(error), str(error)


def behaviour(made: Callable[..., Any], base: Callable[..., Any]) -> list[Any]:
    kinds = classes(made, base)
    derived = kinds["Derived"]
    one, other = derived(1, e="e"), derived(a=1, b=2, c=[3], d=9, e="e")
    pairs = [
        (one, derived(1, e="e")),
        (one, other),
        (one, replace(one, d=8)),
        (kinds["Plain"](3), kinds["Own"](3)),
    ]
    pairs += [(kinds[k](1), kinds[k](1)) for k in ("Identity", "Mutable", "Own", "Plain")]
    named = [one, other, *(kinds[k](1) for k in ("Base", "Mutable", "Own", "Plain"))]
    told: list[Any] = [(a == b, seen(lambda a=a, b=b: hash(a) == hash(b))) for a, b in pairs]
    told += [(vars(x), vars(copy.copy(x)), vars(copy.deepcopy(x))) for x in named]
    told += [(repr(x), *((f.name, f.type, f.init, f.repr, f.kw_only) for f in fields(x))) for x in named]
    told += [
        (k.__name__, k.__match_args__, is_dataclass(k), str(inspect.signature(k))) for k in kinds.values()
    ]
    told += [seen(lambda: derived(1)), seen(lambda: derived(1, e="e", z=1))]
    told += [seen(lambda x=x, n=n: setattr(x, n, 1)) for x in named for n in ("a", "x", "z")]
    told += [vars(replace(one, a=4)), seen(lambda: replace(one, g=1)), seen(lambda: delattr(one, "a"))]
    told += [derived.__init__.__qualname__, derived.__init__.__annotations__, dataclasses.asdict(other)]
    return told


@pytest.mark.parametrize("made", KINDS)
@pytest.mark.parametrize("base", KINDS)
def test_they_behave_as_those_of_python(made: str, base: str) -> None:
    expected = behaviour(dataclasses.dataclass, dataclasses.dataclass)
    assert behaviour(KINDS[made], KINDS[base]) == expected


@dataclass(frozen=True)
class Sent:
    x: int
    y: str = "y"


def test_what_is_unpickled_before_the_first_call_is_frozen_and_compares() -> None:
    received = pickle.loads(pickle.dumps(Sent(1)).replace(b"Sent", b"Kept"))
    assert not inspect.isfunction(vars(Kept)["__init__"])
    assert received == received and hash(received) == hash((1, "y")) and repr(received) == "Kept(x=1, y='y')"
    with pytest.raises(FrozenInstanceError):
        received.x = 2
    match received:
        case Kept(x, y):
            assert (x, y) == (1, "y")


@dataclass(frozen=True)
class Kept:
    x: int
    y: str = "y"
