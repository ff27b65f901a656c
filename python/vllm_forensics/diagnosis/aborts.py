"""SIGABRT: who gave up, and the words that the runtime left in memory."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.diagnosis.calls import crashing_stack, fault_frames, names_on_stack
from vllm_forensics.diagnosis.context import SIGABRT, FaultContext, doubt_of_history
from vllm_forensics.diagnosis.memory import text_at, word_at
from vllm_forensics.model.answer import Answer, Gap, Known
from vllm_forensics.model.finding import FaultKind, Finding
from vllm_forensics.model.image import Image
from vllm_forensics.model.process import Address
from vllm_forensics.model.stack import Frame

_HEAP_MESSAGES: Final = (
    # glibc malloc/malloc.c, every text given to malloc_printerr; the first match decides.
    (re.compile(r"double free detected in tcache"), FaultKind.DOUBLE_FREE),
    (re.compile(r"double free or corruption \((fasttop|!prev|top)\)"), FaultKind.DOUBLE_FREE),
    (re.compile(r"double free or corruption"), FaultKind.HEAP_CORRUPTION),
    (
        re.compile(r"(free|realloc|munmap_chunk|mremap_chunk)\(\): invalid pointer"),
        FaultKind.INVALID_FREE,
    ),
    (
        re.compile(
            r"(malloc|free|realloc|calloc|memalign)[ _(]|corrupted |chunk|unsorted|tcache|top size"
        ),
        FaultKind.HEAP_CORRUPTION,
    ),
)
_HEAP_WORDS: Final = {
    FaultKind.DOUBLE_FREE: "A block of heap memory was freed twice",
    FaultKind.INVALID_FREE: "free() was given a pointer that malloc never returned",
    FaultKind.HEAP_CORRUPTION: "The heap's own bookkeeping was overwritten: some earlier write "
    "went past the end of its block",
}
_GLIBC: Final = ("libc.so", "libc-2")
_MUSL: Final = ("ld-musl", "libc.musl")
_ASSERTION: Final = re.compile(r"Assertion [`'].*' failed", re.DOTALL)
_SANITIZER: Final = re.compile(r"__(asan|ubsan|tsan|lsan|msan|hwasan|sanitizer)(::|_)")
_SANITIZER_MODULE: Final = re.compile(r"lib(asan|ubsan|tsan|lsan|hwasan|msan)\.so|libclang_rt\.")
_SANITIZER_HEADER: Final = re.compile(rb"(?:==\d+==)?ERROR: \w+Sanitizer: [^\n\0]{1,400}")
_PYTHON_FATAL: Final = {
    "Py_FatalError",
    "_Py_FatalErrorFunc",
    "_Py_FatalErrorFormat",
    "fatal_error",
}
_STD_ASSERT: Final = {"std::__replacement_assert", "std::__glibcxx_assert_fail"}
_ASAN_ADVICE: Final = (
    "forensics build --asan --source DIR && forensics run --asan -- COMMAND    "
    "# its report names who allocated and freed",
    "LD_PRELOAD=libc_malloc_debug.so.0 MALLOC_CHECK_=3 MALLOC_PERTURB_=165 COMMAND    "
    "# glibc's own checks, without a rebuild",
)


def sanitizer_abort(image: Image, context: FaultContext) -> Finding | None:
    """A sanitizer found something, reported it, and ended the process."""
    if context.delivered.number != SIGABRT:
        return None
    frames = crashing_stack(image, context).frames[:12]
    names = [
        frame.function for frame in frames if frame.function and _SANITIZER.match(frame.function)
    ]
    modules = [
        frame.module for frame in frames if frame.module and _SANITIZER_MODULE.search(frame.module)
    ]
    if not names and not modules:
        return None
    found = image.find_text(b"Sanitizer: ")
    match = _SANITIZER_HEADER.search(found.value) if isinstance(found, Known) else None
    message = match.group().decode("utf-8", "replace") if match else None
    return Finding(
        kind=FaultKind.SANITIZER_ABORT,
        summary="A sanitizer found a fault, printed its report and ended the process"
        + (f": {message}." if message else "."),
        proof=(f"abort() was called from {(names or modules)[0]}",),
        message=message,
        advice=("forensics asan LOG    # the report has the chain of allocate, free and use",),
    )


def heap_message(image: Image, context: FaultContext) -> Finding | None:
    """The allocator of glibc noticed damage and said what it saw."""
    text = _abort_text(image) if context.signal.number == SIGABRT else None
    if text is None or _ASSERTION.search(text) or text.startswith("***"):
        return None
    for pattern, kind in _HEAP_MESSAGES:
        if pattern.search(text):
            return Finding(
                kind=kind,
                summary=f'{_HEAP_WORDS[kind]}; glibc noticed it later and stopped: "{text}".',
                proof=(f'__abort_msg in the C library holds "{text}"',),
                message=text,
                advice=_ASAN_ADVICE,
            )
    return None


def stack_smashing(image: Image, context: FaultContext) -> Finding | None:
    """The stack protector found its canary changed."""
    text = _abort_text(image) if context.signal.number == SIGABRT else None
    named = "__stack_chk_fail" in names_on_stack(fault_frames(image, context))
    if not named and (text is None or "stack smashing detected" not in text):
        return None
    return Finding(
        kind=FaultKind.STACK_SMASHING,
        summary="A function wrote past the end of a local array and over its own return address; "
        "the stack protector noticed it when the function returned.",
        proof=(f'__abort_msg holds "{text}"',) if text else ("__stack_chk_fail is on the stack",),
        message=text,
        advice=(
            "forensics build --asan --source DIR && forensics run --asan -- COMMAND    "
            "# its report names the array and the write",
        ),
    )


def assertion_failure(image: Image, context: FaultContext) -> Finding | None:
    """assert() or the C++ library's own assertions."""
    if context.signal.number != SIGABRT:
        return None
    text = _abort_text(image)
    names = names_on_stack(fault_frames(image, context))
    if text is not None and _ASSERTION.search(text):
        return Finding(
            kind=FaultKind.ASSERTION_FAILURE,
            summary=f"An assertion did not hold: {text}",
            proof=(f'__abort_msg holds "{text}"',),
            message=text,
        )
    if names & _STD_ASSERT:
        return Finding(
            kind=FaultKind.ASSERTION_FAILURE,
            summary="An assertion of the C++ library did not hold "
            "(an index or iterator out of range).",
            proof=(f"{min(names & _STD_ASSERT)} is on the stack",),
        )
    return None


def pure_virtual_call(image: Image, context: FaultContext) -> Finding | None:
    """A virtual function was called on an object whose class lacks it (not yet, or no more)."""
    if context.signal.number != SIGABRT:
        return None
    if "__cxa_pure_virtual" not in names_on_stack(fault_frames(image, context)):
        return None
    return Finding(
        kind=FaultKind.PURE_VIRTUAL_CALL,
        summary="A pure virtual function was called: the object was still being built, or already "
        "destroyed down to its base class.",
        proof=("__cxa_pure_virtual is on the stack",),
        message="pure virtual method called",
        advice=("rebuild with -fsanitize=vptr -g, run again    # it names the object's real type",),
    )


def fatal_python_error(image: Image, context: FaultContext) -> Finding | None:
    """The interpreter itself gave up: Py_FatalError."""
    if context.signal.number != SIGABRT:
        return None
    frames = fault_frames(image, context)
    for frame in frames[:12]:
        if frame.function in _PYTHON_FATAL:
            message = _text_argument(image, frames)
            return Finding(
                kind=FaultKind.FATAL_PYTHON_ERROR,
                summary="The Python interpreter found itself in an impossible state and gave up"
                + (f': "{message}".' if message else "."),
                proof=(f"{frame.function} is on the stack",),
                message=message,
                advice=("run with PYTHONDEVMODE=1 and an interpreter built --with-pydebug",),
            )
    return None


def plain_abort(image: Image, context: FaultContext) -> Finding | None:
    """abort() without any of the known reasons."""
    if context.signal.number != SIGABRT:
        return None
    answer = abort_message(image)
    text = answer.value if isinstance(answer, Known) else None
    said = f': "{text}"' if text else "; it left no message in the C library"
    if isinstance(answer, Gap):
        said = f"; whether it left a message cannot be known: {answer.what}"
    doubt = doubt_of_history(image, context.thread)
    recorded = context.signal.is_recorded
    return Finding(
        kind=FaultKind.ABORT,
        summary=f"The program called abort(){said}.{doubt and f' {doubt}'}",
        proof=(
            "SIGABRT, sent by the process to itself"
            if recorded
            else "SIGABRT, which abort() raises; the core does not record who sent it",
        ),
        message=text,
        advice=("look at the last lines that the program printed to standard error",),
    )


def abort_message(image: Image) -> Answer[str | None]:
    """What glibc printed before abort(): the text behind __abort_msg (its struct abort_msg_s).

    None where the pointer is null, and of musl, which keeps none: there is no message. A gap where
    the pointer or the text cannot be read: nobody knows.
    """
    if any(module.name.startswith(_MUSL) for module in image.modules):
        return Known(value=None)
    answer: Answer[str | None] = Gap(what="its C library is not among the modules that are known")
    for module in image.modules:
        is_library = module.name.startswith(_GLIBC)
        if not is_library and module.path != image.process.program:
            continue
        symbol = image.symbol_named(module, "__abort_msg")
        if isinstance(symbol, Known):
            found = _message_behind(image, symbol.value.address)
            if isinstance(found, Known):
                return found
            answer = found
        elif is_library:
            answer = symbol
    return answer


def _message_behind(image: Image, pointer: Address) -> Answer[str | None]:
    target = word_at(image, pointer)
    if isinstance(target, Gap):
        return target
    if not target.value:
        return Known(value=None)
    text = text_at(image, target.value + 4)
    return text if isinstance(text, Gap) else Known(value=text.value.strip() or None)


def _abort_text(image: Image) -> str | None:
    found = abort_message(image)
    return found.value if isinstance(found, Known) else None


def _text_argument(image: Image, frames: tuple[Frame, ...]) -> str | None:
    for frame in frames[:12]:
        if frame.function in _PYTHON_FATAL:
            for name in ("msg", "message"):
                answer = image.variable(frame, name)
                if isinstance(answer, Known):
                    match = re.search(r'"(.*)"', answer.value.value)
                    if match:
                        return match.group(1)
    return None
