"""Data classes that compile nothing when they are defined, so that the package starts fast.

`dataclasses.dataclass` compiles up to six functions for each class, which takes half a millisecond. Here
Python compiles `__init__` when a class is first called, and the other methods are closures. Type checkers,
`dataclasses.replace`, `fields`, `is_dataclass`, `match` and `pickle` see ordinary data classes, and either
kind may be the base of the other. `InitVar` and `KW_ONLY` are not supported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - what other modules import
else:
    import dataclasses
    import sys
    from dataclasses import MISSING, FrozenInstanceError, field
    from operator import attrgetter
    from reprlib import recursive_repr
    from types import SimpleNamespace

    def dataclass(cls=None, /, *, init=True, repr=True, eq=True, frozen=False):
        """Make a class a data class, as `dataclasses.dataclass` does with the same options."""

        def make(cls):
            fields = _fields(cls)
            cls.__dataclass_fields__ = {one.name: one for one in fields}
            cls.__dataclass_params__ = SimpleNamespace(
                init=init, repr=repr, eq=eq, order=False, unsafe_hash=False, frozen=frozen
            )
            made = {
                "__match_args__": tuple(one.name for one in fields if one.init and not one.kw_only),
                "__replace__": _replace,
            }
            if init:
                made["__init__"] = _Init(cls)
            if repr:
                made["__repr__"] = _repr
            if eq:
                made["__eq__"] = _eq(_values([one.name for one in fields if one.compare]))
                # Python itself writes None where a class defines `__eq__` and no `__hash__`.
                if cls.__dict__.get("__hash__") is None:
                    hashed = [one.name for one in fields if (one.compare if one.hash is None else one.hash)]
                    cls.__hash__ = _hash(_values(hashed)) if frozen else None
            if frozen:
                made["__setattr__"], made["__delattr__"] = _frozen(cls, cls.__dataclass_fields__)
            for name, value in made.items():
                if name not in cls.__dict__:
                    setattr(cls, name, value)
            return cls

        return make if cls is None else make(cls)

    def _fields(cls):
        """Return the fields of a data class, those of its bases first."""
        found = {}
        for base in cls.__mro__[-1:0:-1]:
            inherited = base.__dict__.get("__dataclass_fields__", {})
            found |= {name: one for name, one in inherited.items() if one._field_type is dataclasses._FIELD}
        for name, kind in cls.__annotations__.items():
            if str(kind).startswith(("ClassVar", "typing.ClassVar")):
                continue
            default = getattr(cls, name, MISSING)
            if isinstance(default, dataclasses.Field):
                one, default = default, default.default
                if default is MISSING:
                    delattr(cls, name)
                else:
                    setattr(cls, name, default)
            else:
                one = field(default=default)
            if default.__class__.__hash__ is None:
                raise ValueError(f"the default of {name} is mutable: use default_factory")
            one.name, one.type, one._field_type = name, kind, dataclasses._FIELD
            one.kw_only = one.kw_only is True
            found[name] = one
        return tuple(found.values())

    class _Init:
        """The `__init__` of a data class until its first call, which compiles the function."""

        def __init__(self, cls):
            self.cls = cls

        def __get__(self, instance, owner):
            made = _init(self.cls)
            self.cls.__init__ = made
            return made if instance is None else made.__get__(instance)

    def _init(cls):
        """Compile the `__init__` of a data class."""
        places, named, lines, types = [], [], [], {}
        known = {"_set": object.__setattr__, "_missing": dataclasses._HAS_DEFAULT_FACTORY}
        frozen = cls.__dataclass_params__.frozen
        for name, one in cls.__dataclass_fields__.items():
            value, default = name, ""
            if one.default_factory is not MISSING:
                known[f"_make_{name}"] = one.default_factory
                value = f"_make_{name}() if {name} is _missing else {name}" if one.init else f"_make_{name}()"
                default = " = _missing"
            elif one.default is not MISSING:
                known[f"_default_{name}"] = one.default
                default = f" = _default_{name}"
            if one.init:
                (named if one.kw_only else places).append(name + default)
                types[name] = one.type
            elif one.default_factory is MISSING:
                continue
            lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            lines.append("self.__post_init__()")
        taken = ", ".join(["self", *places, *(["*", *named] if named else [])])
        text = "\n  ".join([f"def make({', '.join(known)}):\n def __init__({taken}):", *(lines or ["pass"])])
        scope = {}
        # With the globals of the class's module, where the names of types are looked up.
        exec(f"{text}\n return __init__", sys.modules[cls.__module__].__dict__, scope)
        made = scope["make"](**known)
        made.__qualname__ = f"{cls.__qualname__}.__init__"
        made.__annotations__ = types | {"return": None}
        return made

    def _values(names):
        """Return a function that returns the values of a data class's fields as a tuple."""
        if len(names) > 1:
            return attrgetter(*names)
        one = attrgetter(*names) if names else None
        return lambda self: () if one is None else (one(self),)

    def _eq(values):
        def __eq__(self, other):
            if other.__class__ is not self.__class__:
                return NotImplemented
            return values(self) == values(other)

        return __eq__

    def _hash(values):
        def __hash__(self):
            return hash(values(self))

        return __hash__

    @recursive_repr()
    def _repr(self):
        shown = [
            f"{name}={getattr(self, name)!r}" for name, one in self.__dataclass_fields__.items() if one.repr
        ]
        return f"{self.__class__.__qualname__}({', '.join(shown)})"

    def _replace(self, /, **changes):
        return dataclasses.replace(self, **changes)

    def _frozen(cls, names):
        """Return `__setattr__` and `__delattr__` of a frozen data class, which refuse changes."""

        def __setattr__(self, name, value):
            if type(self) is cls or name in names:
                raise FrozenInstanceError(f"cannot assign to field {name!r}")
            super(cls, self).__setattr__(name, value)

        def __delattr__(self, name):
            if type(self) is cls or name in names:
                raise FrozenInstanceError(f"cannot delete field {name!r}")
            super(cls, self).__delattr__(name)

        return __setattr__, __delattr__
