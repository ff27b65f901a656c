"""Which program a stack is of, as the modules of its frames tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from vllm_forensics.diagnosis.incident.where import TITLE
from vllm_forensics.model.incident import NativeCall

_LIBRARY: Final = re.compile(r".{1,120}\.so(?:\.[\w.]{1,20})?")
_PROGRAM: Final = re.compile(
    r"(?!app_process)(?!.{1,60}\.(?:so|a|o|py|pyd|node|jar|apk|oat|odex|dex|art|ko|bundle|dylib|dll|"
    rf"framework)\b)[A-Za-z][\w+.-]{{1,60}}|{TITLE.pattern}"
)
"""What ELF's linker loads first has no `.so` in its name."""
_HYPHENED: Final = re.compile(r"[a-z][a-z0-9]{1,30}(?:-[a-z0-9]{1,20}){1,3}")
_EXTENSION: Final = re.compile(r".{1,120}\.c(?:p|python-)3\d{1,2}-[\w-]{3,60}\.(?:so|pyd)")
"""A library that only Python's interpreter loads."""
_INTERPRETER: Final = re.compile(
    r"_?Py(?:Eval_EvalFrame|Object_(?:Call|Vectorcall)|Function_Vectorcall|_RunMain)|pymain_run"
)
"""Of Python's interpreter, in whatever file."""
_PRODUCT: Final = re.compile(r"(?P<name>[A-Z][\w .-]{1,40}) Framework")
"""On macOS what is built on Chromium keeps all of it there."""
_VENDOR: Final = re.compile(
    r"(?:[\w.-]{1,60}/){0,6}(?P<name>[\w.-]{1,60})/vendor/[\w./-]{1,200}\.|"
    r"(?P<own>[a-z]\w{0,30}-[\w-]{1,40})/[\w/-]{1,120}\.[\w(]"
)
"""Go's standard packages have no dash in their names, those of others a domain before them."""
_INTERPRETERS: Final = re.compile(r"(Perl|zend|rb|Rf|node)(?:_\w|(?<=node)::\w)")
_OF_FUNCTIONS: Final = {"Perl": "perl", "zend": "php", "rb": "ruby", "Rf": "R", "node": "node"}
_OUTERMOST_OF_WINDOWS: Final = ("kernel32", "ntdll")
_EXE: Final = re.compile(
    r"(?i:(?P<exe>[\w.+ -]{1,80}\.exe))|(?P<editor>UE4Editor|UnrealEditor)(?:[_-].{1,80})?"
)
_MAIN: Final = re.compile(r"main\.")
_GO: Final = re.compile(
    r".{0,200}(?:/cmd|/cli|\b[\w-]{1,60}\.[\w.-]{2,60}/[\w.~-]{1,80})/(?P<name>[\w.-]{1,60}?)"
    r"(?:@v[^/]{1,60})?(?:/v\d{1,3})?/[\w.-]{1,80}\.go$"
)
"""The path of a module, as `example.org/somebody/serve`, or a folder `cmd/serve` or `cli/serve`."""

_ENTRY: Final = re.compile(
    # Rust: serve::main, serve::main::{{closure}}; .NET: Serve.Program.Main
    r"(?P<crate>(?!std\b|core\b|tokio\b)[a-z]\w{1,60})::main(?:::\{\{closure\}\}){0,3}"
    r"(?:::h[0-9a-f]{16})?|(?P<assembly>[A-Z][\w.]{1,80})\.Program\.<?Main>?\$?(?![\w$]).{0,200}"
)
"""Where a program begins, in languages that name it after its own package."""
_LOADER: Final = re.compile(r"dyld|libdyld\.dylib")
_GO_LIBRARY: Final = re.compile(r"go[-.].*|.*[-.]go|.*-(?:client|sdk|lib|driver|api)")
"""Repositories are called so that others use: `go-sqlite3`, `api-go`."""
_HOSTED: Final = re.compile(
    r"(?:github|gitlab|bitbucket)\.(?:com|org)/[\w.-]{1,60}/(?P<name>[\w.-]{1,60}?)(?=/|\.[(\w])"
)
"""How Go names a function: behind the address of its repository."""


def is_program(module: str) -> bool:
    """Can a module of ELF's be a program, by its name? No library is, nor another's file."""
    return _PROGRAM.fullmatch(module) is not None


def program_of(calls: Sequence[NativeCall]) -> str | None:
    """The program whose stack this is: of ELF's modules the one that is no library.

    Go names it after the folder of its package `main`; where that is cut off, it is the outermost
    repository whose code is no copy of another's.
    """
    return next(filter(None, _programs(calls)), None)


def _programs(calls: Sequence[NativeCall]) -> Iterator[str | None]:
    """What may be the program's name, the surest first."""
    mains = (
        _GO.match(call.file) for call in calls if call.file and _MAIN.match(call.function or "")
    )
    yield from (go["name"] for go in filter(None, mains))
    entries = (_ENTRY.fullmatch(call.function) for call in calls if call.function is not None)
    yield from (entry["crate"] or entry["assembly"] for entry in filter(None, entries))
    hosted = (_HOSTED.match(call.function or "") for call in reversed(calls) if _is_own(call))
    names = (repository["name"] for repository in filter(None, hosted))
    yield from (name for name in names if _GO_LIBRARY.fullmatch(name) is None)
    yield from filter(_PROGRAM.fullmatch, _mains(calls))
    modules = [call.module for call in calls if call.module is not None]
    yield from (product["name"] for product in filter(None, map(_PRODUCT.fullmatch, modules)))
    yield _windows_program(calls, modules)
    yield _go_module(calls)
    if any(map(_LIBRARY.fullmatch, modules)):
        yield from filter(_PROGRAM.fullmatch, modules)
    else:  # macOS's frameworks have no suffix either, but capitals; Windows' libraries no hyphen
        yield from (call.module for call in calls if call.is_program)
        yield from filter(_HYPHENED.fullmatch, modules)
        yield _only_module(modules)
    functions = [call.function or "" for call in calls]
    is_pythons = any(map(_EXTENSION.fullmatch, modules)) or any(map(_INTERPRETER.match, functions))
    yield "python" if is_pythons else None
    yield "perl" if any((call.file or "").endswith(".xs") for call in calls) else None
    yield _interpreter(calls)


def _only_module(modules: Sequence[str]) -> str | None:
    """The module of all frames that name one: with everything in it, it is the program."""
    name = next(iter(modules), "")
    is_only = len(modules) > 1 and set(modules) == {name} and name.islower()
    return name if is_only and _PROGRAM.fullmatch(name) is not None else None


def _go_module(calls: Sequence[NativeCall]) -> str | None:
    """The program's own module in Go, as packages that it keeps copies of are called."""
    names = (call.function for call in calls if call.function is not None)
    found = next(filter(None, map(_VENDOR.match, names)), None)
    return found["name"] or found["own"] if found is not None else None


def _interpreter(calls: Sequence[NativeCall]) -> str | None:
    """The interpreter whose functions stand in a debugger's stack without a library's name."""
    own = (call.function or "" for call in calls if call.module is None)
    found = next(filter(None, map(_INTERPRETERS.match, own)), None)
    if any((call.file or "").startswith("beam/erl") for call in calls):
        return "beam"
    return _OF_FUNCTIONS[found[1]] if found else None


def _mains(calls: Sequence[NativeCall]) -> Iterator[str]:
    """The module of main or _start, which no library has; or of what macOS's loader called."""
    for above, call in pairwise(calls):
        if call.function == "call_process_entry":  # Wine's
            yield above.module or ""
        if call.function == "start" and _LOADER.fullmatch(call.module or "") is not None:
            yield above.module or ""
    yield from (call.module or "" for call in calls if call.function in {"main", "_main", "_start"})


def _is_own(call: NativeCall) -> bool:
    """Does no path say that the code was copied from elsewhere?"""
    return not any(mark in f"{call.file}{call.function}" for mark in ("/pkg/mod/", "/vendor/"))


def _windows_program(calls: Sequence[NativeCall], modules: Sequence[str]) -> str | None:
    """The module that is an `.exe`, or the editor that Unreal's modules are named after.

    In a list of modules alone it is the one that the system called first.
    """
    known = (_EXE.fullmatch(name) for name in modules)
    found = next(filter(None, known), None)
    if found is not None:
        return found["exe"] or found["editor"]
    is_whole = tuple(modules[-2:]) == _OUTERMOST_OF_WINDOWS and len(modules) > len(
        _OUTERMOST_OF_WINDOWS
    )
    return modules[-3] if is_whole and all(call.function is None for call in calls) else None
