r"""Uncaught C++ exceptions: the object that was thrown is still in memory.

The unwinder's header before a thrown object starts with the exception class "GNUCC++\0" (clang:
"CLNGC++\0"); a pointer to it lies on the stack of whoever called std::terminate. Around it the
Itanium C++ ABI's __cxa_exception puts the type_info (80 bytes before) and the object (32 bytes
behind).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.calls import fault_frames, names_on_stack
from vllm_forensics.diagnosis.context import SIGABRT, FaultContext
from vllm_forensics.diagnosis.memory import read_pointer, text_at, word_at
from vllm_forensics.model.answer import Answer, Gap, Known
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

_Exception = tuple[str, Answer[str | None]]
"""The name of its type, and its text; None where the type keeps that elsewhere."""


def uncaught_exception(image: Image, context: FaultContext) -> Finding | None:
    """An exception that nobody caught ended the program through std::terminate."""
    if context.signal.number != SIGABRT:
        return None
    frames = fault_frames(image, context)
    on_way = names_on_stack(frames) & _TERMINATE
    if not on_way or "__cxa_pure_virtual" in names_on_stack(frames):
        return None
    thrown = _thrown(image, context)
    proof = f"{min(on_way)} is on the stack"
    if isinstance(thrown, Gap):
        return Finding(
            kind=FaultKind.ABORT,
            summary="std::terminate ended the program; whether an exception was in flight, and "
            f"which, cannot be known: {thrown.what}.",
            proof=(proof,),
        )
    if thrown.value is None:
        return Finding(
            kind=FaultKind.ABORT,
            summary="std::terminate ended the program without an exception in flight: a joinable "
            "std::thread was destroyed, or terminate was called outright.",
            proof=(proof, "no exception object is in reach of the stack"),
        )
    name, text = thrown.value
    return Finding(
        kind=FaultKind.UNCAUGHT_EXCEPTION,
        summary=f"A C++ exception was thrown and nobody caught it: {name}{_text_words(text)}",
        proof=(proof, f"the exception object's type_info names {name}"),
        message=name if isinstance(text, Gap) or text.value is None else f"{name}: {text.value}",
        advice=(
            "catch it at the boundary, or let it reach pybind11, "
            "which turns it into a Python error",
        ),
    )


def _text_words(text: Answer[str | None]) -> str:
    if isinstance(text, Gap):
        return f"; its text cannot be read: {text.what}."
    if text.value is None:
        return "; its type keeps its text elsewhere."
    return f', what() = "{text.value}".'


def _thrown(image: Image, context: FaultContext) -> Answer[_Exception | None]:
    """Type and text of the exception that a word on the stack leads to; None where none does.

    A gap where one may lie in memory that cannot be read.
    """
    machine = image.process.architecture
    if machine.word_size != _WORD:
        return Gap(what=f"exception objects of {machine} are not read")
    # A handler that sent the signal again may run on a stack of its own (faulthandler does).
    stack = image.stack_words(replace(context.thread, sp=context.sp))
    if isinstance(stack, Gap):
        return stack
    unread: Gap | None = None
    tried: set[int] = set()
    for word in stack.value.words:
        if word in tried or word & 7 or not 1 << 16 < word < 1 << 47:
            continue
        tried.add(word)
        raw = image.read(word, 8)
        if isinstance(raw, Gap):
            unread = unread or (raw if _is_lost(image, word, heap=True) else None)
            continue
        # The class is one number, written here as little-endian machines hold it.
        shown = raw.value if machine.byte_order == "little" else raw.value[::-1]
        if shown in _CLASSES:
            target: Answer[int] = Known(value=word + _OBJECT)
        elif shown in _DEPENDENT:
            target = word_at(image, word - 0x50)
        else:
            continue
        found = _describe(image, target.value) if isinstance(target, Known) else target
        if isinstance(found, Known):
            return found
        unread = unread or found
    return unread or Known(value=None)


def _is_lost(image: Image, address: int, *, heap: bool = False) -> bool:
    """Was there memory that the image does not hold; `heap`: such as an exception lies in?"""
    mapping = image.mapping_at(address)
    if isinstance(mapping, Gap) or isinstance(image.read(address, _WORD), Known):
        return False
    return not heap or (mapping.value.writable and mapping.value.path is None)


def _describe(image: Image, target: int) -> Answer[_Exception]:
    type_info = word_at(image, target - _TYPE_BEFORE_OBJECT)
    if isinstance(type_info, Gap):
        return type_info
    mangled = _type_name(image, type_info.value)
    if isinstance(mangled, Gap):
        return mangled
    demangled = image.demangle(mangled.value)
    name = demangled.value if isinstance(demangled, Known) else mangled.value
    return Known(value=(name, _what(image, target, type_info.value)))


def _what(image: Image, target: int, type_info: int) -> Answer[str | None]:
    """The text of a runtime_error or logic_error; None where a derived type has its own what().

    Both keep one pointer to the characters behind their vtable pointer; what() is the third virtual
    function (libstdc++, bits/stdexcept).
    """
    base = type_info
    for _ in range(_MAX_BASES):
        name = _type_name(image, base)
        if isinstance(name, Gap):
            return name if _is_lost(image, base) else Known(value=None)  # else it is no base
        if name.value in _HAS_TEXT:
            break
        above = word_at(image, base + 16)
        if isinstance(above, Gap) or not above.value:
            return above if isinstance(above, Gap) else Known(value=None)
        base = above.value
    else:
        return Known(value=None)
    table = read_pointer(image, target)
    function = read_pointer(image, table + 16) if table else None
    symbol = image.symbol_at(function) if function else None
    if isinstance(symbol, Known) and symbol.value.name:
        inherited = symbol.value.name.startswith(("_ZNKSt13runtime_error", "_ZNKSt11logic_error"))
        if not inherited or _OWN_WHAT not in symbol.value.name:
            return Known(value=None)
    characters = word_at(image, target + 8)
    if isinstance(characters, Gap):
        return characters
    return text_at(image, characters.value)


def _type_name(image: Image, type_info: int) -> Answer[str]:
    pointer = word_at(image, type_info + 8)
    text = text_at(image, pointer.value) if isinstance(pointer, Known) else pointer
    if isinstance(text, Gap):
        return text
    # A leading * means: compare by address (internal linkage).
    name = text.value.lstrip("*")
    if name and name.isascii() and name.isprintable():
        return Known(value=name)
    return Gap(what=f"there is no type at {type_info:#x}")
