"""What stands for everything that the scheduler imports and does not need; it fails loudly.

While a module of vLLM is executed, a placeholder may be named, subscripted, joined with `|`, used
as a base class or a decorator: that is how modules use what they only mention in annotations. Once
the module is there, every use is an error that names what was used and where.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from vllm_forensics.errors import ForensicsError

_OWN: Final = __name__.rpartition(".")[0]


class UnmodelledError(ForensicsError):
    """vLLM asked for something that the sandbox does not stand in for."""


def refuse(what: str, *, version: str = "") -> NoReturn:
    """Say what was asked for, and by which line of vLLM.

    Raises:
        UnmodelledError: always.

    """
    raise UnmodelledError(
        f"vLLM {version} asked for {what} ({_asker()}), which the sandbox does not model".replace(
            "  ", " "
        ),
        remedy="leave out the option that leads there, or report it with this line",
    )


def _asker() -> str:
    """The nearest line that is not of this package: vLLM's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_between(str(frame.f_globals.get("__name__"))):
        frame = frame.f_back
    name = frame.f_code.co_filename
    cut = name.rfind("/vllm/")
    return f"{name[cut + 1 :] if cut >= 0 else name}:{frame.f_lineno}"


def _is_between(module: str) -> bool:
    return module.startswith((_OWN, "importlib"))


class Loading:
    """Whether a module of vLLM is being executed: only then may placeholders be touched."""

    def __init__(self) -> None:
        """Nothing is being executed yet."""
        self.depth = 0


class AbsentBase:
    """What a class inherits whose real base was not loaded."""

    def __getattr__(self, name: str) -> Any:
        """Fail: the real base might have had it. Special names are looked for by the language."""
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(f"{type(self).__name__}.{name}, of a base class that was not loaded")


class Absent:
    """A placeholder for one name of one module that was not loaded."""

    def __init__(self, name: str, loading: Loading) -> None:
        """Remember the dotted name, for the message."""
        self.__dict__["_absent"] = (name, loading)

    def _child(self, suffix: str) -> Absent:
        name, loading = self.__dict__["_absent"]
        if loading.depth == 0:
            refuse(name + suffix)
        return Absent(name + suffix, loading)

    def __getattr__(self, name: str) -> Any:
        """A placeholder of what is inside; special names are not there."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self._child(f".{name}")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """As a decorator: what was decorated. Otherwise a placeholder of the result."""
        decorates = len(arguments) == 1 and not options and callable(arguments[0])
        called = self._child("()")
        return arguments[0] if decorates and not isinstance(arguments[0], Absent) else called

    def __getitem__(self, item: object) -> Absent:
        """`Absent[int]`: a placeholder."""
        return self._child("[]")

    def __or__(self, other: object) -> Absent:
        """`Absent | None`: a placeholder."""
        return self._child(" | …")

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        """As a base class: one that fails on what it does not know, once."""
        absent = [base for base in bases if isinstance(base, Absent)]
        return (AbsentBase,) if absent[0] is self else ()

    def __instancecheck__(self, instance: object) -> bool:
        """Nothing can be an instance of a class that was not loaded."""
        return False

    def __subclasscheck__(self, subclass: type) -> bool:
        """Nothing that was loaded derives from it."""
        return False

    def __iter__(self) -> Iterator[Any]:
        """Fail: what is inside is not known."""
        refuse(self.__dict__["_absent"][0])

    def __bool__(self) -> bool:
        """Whether it is true is known only in `if TYPE_CHECKING`-like places: there, no."""
        name, loading = self.__dict__["_absent"]
        if loading.depth == 0:
            refuse(name)
        return False

    def __eq__(self, other: object) -> bool:
        """Itself only; once modules are loaded, what it would equal is not known."""
        name, loading = self.__dict__["_absent"]
        if loading.depth == 0 and self is not other:
            refuse(name)
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        """Its dotted name."""
        return f"<not loaded: {self.__dict__['_absent'][0]}>"


class Known:
    """A configuration object of vLLM: the fields that are known, and a refusal for any other."""

    def __init__(self, name: str, fields: Mapping[str, Any]) -> None:
        """Hold `fields` as attributes; `name` is vLLM's name for the class."""
        self.__dict__.update(fields)
        self.__dict__["_known"] = name

    def __getattr__(self, name: str) -> Any:
        """Fail by name: a wrong guess here would be a wrong run."""
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(f"{self.__dict__['_known']}.{name}")
