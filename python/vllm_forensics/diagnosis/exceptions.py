r"""Uncaught C++ exceptions: the object that was thrown is still in memory.

The unwinder's header before a thrown object starts with the exception class "GNUCC++\0" (clang:
"CLNGC++\0"); a pointer to it lies on the stack of whoever called std::terminate. Around it the
Itanium C++ ABI's __cxa_exception puts the type_info (80 bytes before) and the object (32 bytes
behind).
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.diagnosis.calls import fault_frames, names_on_stack
from vllm_forensics.diagnosis.context import SIGABRT, FaultContext
from vllm_forensics.diagnosis.memory import read_pointer, read_text
from vllm_forensics.model.answer import Known
from vllm_forensics.model.finding import FaultKind, Finding
from vllm_forensics.model.image import Image

_CLASSES: Final = {b"\0++CCUNG": 0x50, b"\0++CGNLC": 0x50}
_DEPENDENT: Final = {b"\1++CCUNG", b"\1++CGNLC"}
_OBJECT: Final = 0x20
_WORD: Final = 8
_TYPE_BEFORE_OBJECT: Final = 0x70
_TERMINATE: Final = {
    "std::terminate", "__cxa_throw", "__cxa_rethrow", "__cxa_call_terminate",
    "__clang_call_terminate", "__gnu_cxx::__verbose_terminate_handler", "__cxxabiv1::__terminate",
}  # fmt: skip
_HAS_TEXT: Final = {"St13runtime_error", "St11logic_error"}
_OWN_WHAT: Final = "4whatEv"
_MAX_BASES: Final = 16


def uncaught_exception(image: Image, context: FaultContext) -> Finding | None:
    """An exception that nobody caught ended the program through std::terminate."""
    if context.signal.number != SIGABRT:
        return None
    frames = fault_frames(image, context)
    on_way = names_on_stack(frames) & _TERMINATE
    if not on_way or "__cxa_pure_virtual" in names_on_stack(frames):
        return None
    thrown = _thrown(image, context)
    if thrown is None:
        return Finding(
            kind=FaultKind.ABORT,
            summary="std::terminate ended the program without an exception in flight: a joinable "
            "std::thread was destroyed, or terminate was called outright.",
            proof=(
                f"{min(on_way)} is on the stack",
                "no exception object is in reach of the stack",
            ),
        )
    name, text = thrown
    message = f"{name}: {text}" if text is not None else name
    return Finding(
        kind=FaultKind.UNCAUGHT_EXCEPTION,
        summary=f"A C++ exception was thrown and nobody caught it: {name}"
        + (f', what() = "{text}".' if text is not None else "; its type keeps its text elsewhere."),
        proof=(
            f"{min(on_way)} is on the stack",
            f"the exception object's type_info names {name}",
        ),
        message=message,
        advice=(
            "catch it at the boundary, or let it reach pybind11, "
            "which turns it into a Python error",
        ),
    )


def _thrown(image: Image, context: FaultContext) -> tuple[str, str | None] | None:
    """Type and text of the exception that a word on the stack leads to."""
    machine = image.process.architecture
    if machine.word_size != _WORD:
        return None  # the places below are those of 64-bit machines
    stack = image.stack_words(context.thread)
    if not isinstance(stack, Known):
        return None
    tried: set[int] = set()
    for word in stack.value.words:
        if word in tried or word & 7 or not 1 << 16 < word < 1 << 47:
            continue
        tried.add(word)
        raw = image.read(word, 8)
        if not isinstance(raw, Known):
            continue
        # The class is one number, written here as little-endian machines hold it.
        shown = raw.value if machine.byte_order == "little" else raw.value[::-1]
        if shown in _CLASSES:
            target: int | None = word + _OBJECT
        elif shown in _DEPENDENT:
            target = read_pointer(image, word - 0x50)
        else:
            continue
        found = _describe(image, target) if target else None
        if found is not None:
            return found
    return None


def _describe(image: Image, target: int) -> tuple[str, str | None] | None:
    type_info = read_pointer(image, target - _TYPE_BEFORE_OBJECT)
    mangled = _type_name(image, type_info) if type_info else None
    if mangled is None or type_info is None:
        return None
    demangled = image.demangle(mangled)
    name = demangled.value if isinstance(demangled, Known) else mangled
    return name, _what(image, target, type_info)


def _what(image: Image, target: int, type_info: int) -> str | None:
    """The text of a runtime_error or logic_error, unless a derived type has its own what().

    Both keep one pointer to the characters behind their vtable pointer; what() is the third virtual
    function (libstdc++, bits/stdexcept).
    """
    base: int | None = type_info
    for _ in range(_MAX_BASES):
        if base is None:
            return None
        if _type_name(image, base) in _HAS_TEXT:
            break
        base = read_pointer(image, base + 16)
    else:
        return None
    table = read_pointer(image, target)
    function = read_pointer(image, table + 16) if table else None
    symbol = image.symbol_at(function) if function else None
    if isinstance(symbol, Known) and symbol.value.name:
        inherited = symbol.value.name.startswith(("_ZNKSt13runtime_error", "_ZNKSt11logic_error"))
        if not inherited or _OWN_WHAT not in symbol.value.name:
            return None
    characters = read_pointer(image, target + 8)
    return read_text(image, characters) if characters else None


def _type_name(image: Image, type_info: int) -> str | None:
    pointer = read_pointer(image, type_info + 8)
    text = read_text(image, pointer) if pointer else None
    # A leading * means: compare by address (internal linkage).
    text = text.lstrip("*") if text else None
    return text if text and text.isascii() and text.isprintable() else None
