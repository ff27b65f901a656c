"""Frozen dataclasses that cost a program's start little to define.

Python writes and compiles six functions for each frozen dataclass, which takes a millisecond, and
the command line defines a hundred of them before it does anything. Here the fields are still the
standard library's; `__init__` is compiled when the first instance is made, and the other methods
are closures.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen, slots, kw_only):
        """What `dataclasses.dataclass` gives for the same three arguments, which must be true."""
        if not (frozen and slots and kw_only):
            raise TypeError("a record is frozen, has slots, and takes keywords only")
        return _define


_ABSENT: Final = object()
_set_slot: Final = object.__setattr__


def _define(cls: type[Any]) -> type[Any]:
    shape = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True)
    made: type[Any] = shape(cls)
    fields = dataclasses.fields(made)
    values_of = _values_by(tuple(field.name for field in fields))

    def initialise_first(self: Any, **values: Any) -> None:
        made.__init__ = _initialiser(fields)
        made.__init__(self, **values)

    def equal(self: Any, other: object) -> Any:
        alike = other.__class__ is self.__class__
        return values_of(self) == values_of(other) if alike else NotImplemented

    def hashed(self: Any) -> int:
        return hash(values_of(self))

    methods = {"__init__": initialise_first, "__eq__": equal, "__hash__": hashed, **_SHARED}
    for name, method in methods.items():
        setattr(made, name, method)
    return made


def _values_by(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


def _initialiser(fields: tuple[Field[Any], ...]) -> Callable[..., None]:
    """A function with the fields' own keywords, so that a wrong one is refused as it always is."""
    known: dict[str, Any] = {"_absent": _ABSENT, "_set_slot": _set_slot}
    parameters, body = [], []
    for at, field in enumerate(fields):
        name = value = field.name
        if field.default is not dataclasses.MISSING:
            known[f"_default{at}"] = field.default
            parameters.append(f"{name}=_default{at}")
        elif field.default_factory is not dataclasses.MISSING:
            known[f"_factory{at}"] = field.default_factory
            parameters.append(f"{name}=_absent")
            value = f"_factory{at}() if {name} is _absent else {name}"
        else:
            parameters.append(name)
        body.append(f"  _set_slot(self, {name!r}, {value})")
    keywords = f", *, {', '.join(parameters)}" if parameters else ""
    text = "\n".join([f"def __init__(self{keywords}):", *body, "  return None"])
    exec(text, known)  # noqa: S102 - names of fields of our own classes
    compiled: Callable[..., None] = known["__init__"]
    return compiled


def _shown(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self))
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: Any, name: str, value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        _set_slot(self, field.name, value)


_SHARED: Final = {
    "__repr__": _shown,
    "__setattr__": _refuse_to_set,
    "__delattr__": _refuse_to_delete,
    "__getstate__": _state,
    "__setstate__": _restore,
}
