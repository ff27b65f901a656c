"""SIGABRT: who gave up, by the stack and by the words that the runtime left in memory."""

import subprocess
from dataclasses import replace
from typing import Any

import pytest
from tests.py.support.images import (
    C_LIBRARY,
    HEAP,
    LIBC,
    PROGRAM,
    SP,
    FakeImage,
    a_frame,
    context_of,
    crash_image,
    libc_frame,
    segv,
    sent_by_self,
    words,
)

from vllm_forensics.diagnosis.aborts import (
    abort_message,
    assertion_failure,
    fatal_python_error,
    heap_message,
    plain_abort,
    pure_virtual_call,
    sanitizer_abort,
    stack_smashing,
)
from vllm_forensics.diagnosis.rules import Rule, find_fault
from vllm_forensics.model.answer import Gap, Known
from vllm_forensics.model.finding import FaultKind, Finding
from vllm_forensics.model.process import Signal, Symbol
from vllm_forensics.model.stack import Frame

ABORT = sent_by_self(6)
MESSAGE_POINTER = LIBC + 0x8000
ASSERTION = "engine: cache.cpp:88: int at(int): Assertion `i < size' failed."


def aborted(
    *functions: str, said: str | None = None, signal: Signal = ABORT, own: Frame | None = None
) -> FakeImage:
    """A process whose innermost calls are libc's `functions`; glibc printed `said`."""
    frames = tuple(libc_frame(at, name) for at, name in enumerate(functions))
    caller = own or a_frame(len(frames), "work")
    symbol = Symbol(name="__abort_msg", address=MESSAGE_POINTER, size=8)
    memory = {MESSAGE_POINTER: words(0)}
    if said is not None:
        memory = {
            MESSAGE_POINTER: words(HEAP),
            HEAP: (len(said) + 1).to_bytes(4, "little") + said.encode() + b"\n" + bytes(4096),
        }
    return crash_image(
        signal=signal,
        frames=(*frames, caller),
        memory=memory,
        objects={("libc.so.6", "__abort_msg"): symbol},
    )


def ask(rule: Rule, image: FakeImage) -> Finding | None:
    return rule(image, context_of(image))


def found(rule: Rule, image: FakeImage) -> Finding:
    finding = ask(rule, image)
    assert finding is not None
    return finding


def test_glibcs_message_is_read_through_its_pointer() -> None:
    found = abort_message(aborted("abort", said="free(): invalid size"))

    assert found == Known(value="free(): invalid size")


def test_a_null_pointer_says_that_there_is_no_message() -> None:
    assert abort_message(aborted("abort")) == Known(value=None)


def test_musl_keeps_no_message() -> None:
    musl = replace(C_LIBRARY, path="/lib/ld-musl-x86_64.so.1")

    assert abort_message(replace(aborted("abort"), modules=(musl,))) == Known(value=None)


@pytest.mark.parametrize(
    ("lost", "why"),
    [
        ({"memory": {}}, f"no bytes at {MESSAGE_POINTER:#x}"),
        ({"memory": {MESSAGE_POINTER: words(HEAP)}}, f"no bytes at {HEAP + 4:#x}"),
        ({"objects": {}}, "__abort_msg"),
        ({"modules": (PROGRAM,)}, "its C library is not among the modules that are known"),
    ],
)
def test_a_message_that_cannot_be_read_is_not_said_to_be_absent(
    lost: dict[str, Any], why: str
) -> None:
    image = replace(aborted("abort"), **lost)

    assert abort_message(image) == Gap(what=why)
    said = f"The program called abort(); whether it left a message cannot be known: {why}."
    assert found(plain_abort, image).summary.startswith(said)


def test_an_earlier_fault_is_in_doubt_where_the_stack_cannot_be_read() -> None:
    lost = aborted("abort")
    pc = lost.threads[0].pc
    whole = replace(lost, memory={**lost.memory, SP: bytes(64), pc: b"\x90"})

    assert found(plain_abort, lost).summary.endswith(
        "Whether a handler did that after an earlier fault cannot be known: no stack."
    )
    assert found(plain_abort, whole).summary == (
        "The program called abort(); it left no message in the C library."
    )


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("free(): double free detected in tcache 2", FaultKind.DOUBLE_FREE),
        ("double free or corruption (fasttop)", FaultKind.DOUBLE_FREE),
        ("double free or corruption (!prev)", FaultKind.DOUBLE_FREE),
        ("double free or corruption (out)", FaultKind.HEAP_CORRUPTION),
        ("free(): invalid pointer", FaultKind.INVALID_FREE),
        ("munmap_chunk(): invalid pointer", FaultKind.INVALID_FREE),
        ("realloc(): invalid pointer", FaultKind.INVALID_FREE),
        ("free(): invalid size", FaultKind.HEAP_CORRUPTION),
        ("malloc(): corrupted top size", FaultKind.HEAP_CORRUPTION),
        ("corrupted double-linked list", FaultKind.HEAP_CORRUPTION),
        ("malloc_consolidate(): invalid chunk size", FaultKind.HEAP_CORRUPTION),
        ("corrupted size vs. prev_size", FaultKind.HEAP_CORRUPTION),
    ],
)
def test_each_of_mallocs_messages_has_its_kind(said: str, kind: FaultKind) -> None:
    finding = found(heap_message, aborted("abort", said=said))

    assert (finding.kind, finding.message) == (kind, said)
    assert finding.proof == (f'__abort_msg in the C library holds "{said}"',)


def test_advice_about_the_heap_may_be_pasted_as_it_stands() -> None:
    finding = found(heap_message, aborted("abort", said="free(): invalid pointer"))

    for line in finding.advice:
        read = subprocess.run(["sh", "-n", "-c", line], capture_output=True, check=False)
        assert read.returncode == 0, (line, read.stderr)
    assert all("    # " in line for line in finding.advice)


@pytest.mark.parametrize(
    "said", ["terminate called", ASSERTION, "*** stack smashing detected ***: terminated", None]
)
def test_other_last_words_are_no_heap_corruption(said: str | None) -> None:
    assert ask(heap_message, aborted("abort", said=said)) is None


def test_an_assertion_about_malloc_is_an_assertion() -> None:
    said = "engine: a.cpp:3: main: Assertion `malloc (8) != nullptr' failed."

    image = aborted("abort", "__assert_fail", said=said)

    assert find_fault(image, context_of(image)).kind is FaultKind.ASSERTION_FAILURE


def test_the_assertions_own_words_are_the_message() -> None:
    finding = found(assertion_failure, aborted("abort", "__assert_fail", said=ASSERTION))

    assert finding.message == ASSERTION


def test_the_librarys_assertion_is_known_by_its_function() -> None:
    finding = found(assertion_failure, aborted("abort", "std::__glibcxx_assert_fail"))

    assert finding.proof == ("std::__glibcxx_assert_fail is on the stack",)


def test_a_function_called_assertion_is_no_assertion() -> None:
    assert ask(assertion_failure, aborted("abort", "my_assert_fail", said="done")) is None


def test_stack_smashing_by_message_or_by_the_call() -> None:
    by_text = found(stack_smashing, aborted(said="*** stack smashing detected ***: terminated"))
    by_call = found(stack_smashing, aborted("abort", "__stack_chk_fail"))

    assert by_text.kind is by_call.kind is FaultKind.STACK_SMASHING
    assert by_text.message == "*** stack smashing detected ***: terminated"


def test_an_ordinary_abort_smashed_no_stack() -> None:
    assert ask(stack_smashing, aborted("abort", said="free(): invalid size")) is None


def test_a_pure_virtual_call_is_known_by_its_function() -> None:
    finding = found(pure_virtual_call, aborted("abort", "std::terminate", "__cxa_pure_virtual"))

    assert finding.message == "pure virtual method called"


def test_a_segfault_near_the_function_is_no_pure_virtual_call() -> None:
    image = aborted("__cxa_pure_virtual", signal=segv(0))

    assert ask(pure_virtual_call, image) is None


def test_the_interpreters_last_words_are_its_argument() -> None:
    frames = (
        libc_frame(0, "abort"),
        a_frame(1, "fatal_error", module="/usr/bin/python3.11"),
        a_frame(2, "_Py_FatalErrorFunc", module="/usr/bin/python3.11"),
    )
    image = crash_image(
        signal=ABORT, frames=frames, values={(2, "msg"): '0x5555 "the GIL is released"'}
    )

    finding = found(fatal_python_error, image)

    assert finding.message == "the GIL is released"


def test_an_abort_in_python_without_its_function_is_no_fatal_error() -> None:
    assert ask(fatal_python_error, aborted("abort", "Py_Exit")) is None


def test_a_sanitizer_is_known_by_its_functions_or_its_library() -> None:
    by_name = found(sanitizer_abort, aborted("abort", "__sanitizer::Die"))
    by_module = found(
        sanitizer_abort, aborted(own=a_frame(0, None, module="/usr/lib/libasan.so.8"))
    )

    assert by_name.kind is by_module.kind is FaultKind.SANITIZER_ABORT
    assert "__sanitizer::Die" in by_name.proof[0]


def test_a_sanitizers_report_is_found_in_memory() -> None:
    report = b"\0==42==ERROR: AddressSanitizer: heap-use-after-free on address 0x1\nREAD of size 8"
    image = crash_image(signal=ABORT, frames=(a_frame(0, "__asan::Die"),), memory={HEAP: report})

    finding = found(sanitizer_abort, image)

    assert finding.message == "==42==ERROR: AddressSanitizer: heap-use-after-free on address 0x1"


@pytest.mark.parametrize("name", ["sanitize_input", "asan_options", "Sanitizer::run"])
def test_a_name_that_only_sounds_like_one_is_no_sanitizer(name: str) -> None:
    assert ask(sanitizer_abort, aborted("abort", name)) is None


def test_a_plain_abort_says_what_glibc_printed() -> None:
    assert found(plain_abort, aborted("abort", said="bye")).message == "bye"
    assert "left no message" in found(plain_abort, aborted("abort")).summary


@pytest.mark.parametrize(
    "rule",
    [
        sanitizer_abort, heap_message, stack_smashing, assertion_failure, pure_virtual_call,
        fatal_python_error, plain_abort,
    ],
)  # fmt: skip
def test_no_other_signal_is_an_abort(rule: Rule) -> None:
    assert ask(rule, aborted("abort", said="free(): invalid size", signal=segv(1))) is None
