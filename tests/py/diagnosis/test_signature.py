"""One name for one bug."""

from dataclasses import replace

import pytest
from tests.py.support.images import C_LIBRARY, PROGRAM, a_frame, libc_frame, segv, sent_by_self
from tests.py.support.reports import null_crash

from vllm_forensics.diagnosis.signature import signature_of, signature_parts, signed
from vllm_forensics.model.finding import FaultKind, Finding
from vllm_forensics.model.process import Module, Signal
from vllm_forensics.model.stack import Frame, FrameKind

NULL = Finding(kind=FaultKind.NULL_DEREFERENCE, summary="s", proof=("p",))
OVERFLOW = replace(NULL, kind=FaultKind.STACK_OVERFLOW)
SEGV = segv(0)
FRAMES = (
    libc_frame(0, "__memcpy_avx"),
    a_frame(1, "vllm::copy", line=88),
    a_frame(2, "vllm::step", line=10),
    a_frame(3, "main"),
)


def parts(
    frames: tuple[Frame, ...],
    finding: Finding = NULL,
    program: str | None = "/p/e",
    signal: Signal = SEGV,
    modules: tuple[Module, ...] = (PROGRAM, C_LIBRARY),
) -> dict[str, str]:
    found = signature_parts(
        signal, finding.kind, frames, program=program, builds={m.path: m.build_id for m in modules}
    )
    return {part.name: part.value for part in found}


def sign(
    frames: tuple[Frame, ...],
    finding: Finding = NULL,
    program: str | None = "/p/e",
    signal: Signal = SEGV,
    modules: tuple[Module, ...] = (PROGRAM, C_LIBRARY),
) -> str:
    return signature_of(
        signature_parts(
            signal,
            finding.kind,
            frames,
            program=program,
            builds={m.path: m.build_id for m in modules},
        )
    )


def called(*names: str) -> tuple[Frame, ...]:
    return tuple(a_frame(at, name) for at, name in enumerate(names))


def test_it_reads_class_and_first_own_function() -> None:
    assert sign(FRAMES).startswith("v1:memory-access:vllm::copy:")


def test_its_parts_are_the_class_and_the_own_functions_without_the_tail() -> None:
    assert parts(FRAMES) == {
        "signal": "memory-access", "frame 1": "vllm::copy", "frame 2": "vllm::step",
    }  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(tuple(replace(f, pc=f.pc + 0x1000) for f in FRAMES), id="addresses"),
        pytest.param(tuple(replace(f, line=1, file="/else.cpp") for f in FRAMES), id="lines"),
        pytest.param(FRAMES[1:], id="the C library's variant"),
        pytest.param(
            (FRAMES[0], replace(FRAMES[1], function="vllm::copy.isra.0"), *FRAMES[2:]), id="clone"
        ),
        pytest.param(
            (FRAMES[0], replace(FRAMES[1], function="vllm::copy.part.0.cold"), *FRAMES[2:]),
            id="two suffixes",
        ),
        pytest.param(
            (FRAMES[0], replace(FRAMES[1], function="vllm::copy[abi:cxx11]"), *FRAMES[2:]),
            id="ABI tag",
        ),
        pytest.param(
            (FRAMES[0], replace(FRAMES[1], function="vllm::copy<int>(long)"), *FRAMES[2:]),
            id="arguments",
        ),
        pytest.param((*FRAMES[:2], FRAMES[1], FRAMES[1], *FRAMES[2:]), id="deeper recursion"),
        pytest.param(FRAMES[:3], id="cut off before main"),
        pytest.param(
            (*FRAMES[:3], libc_frame(3, "start_thread"), a_frame(4, "beyond")),
            id="a thread's start",
        ),
        pytest.param((a_frame(0, "google::LogMessage::Fail"), *FRAMES[1:]), id="raised by glog"),
    ],
)
def test_the_same_bug_has_the_same_name(other: tuple[Frame, ...]) -> None:
    assert sign(other) == sign(FRAMES)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(
            (FRAMES[0], replace(FRAMES[1], function="vllm::move"), *FRAMES[2:]), id="first"
        ),
        pytest.param(
            (*FRAMES[:2], replace(FRAMES[2], function="vllm::stop"), FRAMES[3]), id="caller"
        ),
        pytest.param((FRAMES[2], FRAMES[1], FRAMES[3]), id="order"),
    ],
)
def test_another_stack_has_another_name(other: tuple[Frame, ...]) -> None:
    assert sign(other) != sign(FRAMES)


def test_a_stray_pointer_is_one_bug_wherever_it_points() -> None:
    assert sign(FRAMES, replace(NULL, kind=FaultKind.WILD_POINTER)) == sign(FRAMES)
    assert sign(FRAMES, signal=Signal(number=7, code=2, address=1)) == sign(FRAMES)


@pytest.mark.parametrize(
    ("number", "wanted"),
    [(6, "abort"), (8, "arithmetic"), (4, "instruction"), (5, "instruction"), (15, "signal")],
)
def test_another_class_of_signal_has_another_name(number: int, wanted: str) -> None:
    other = sign(FRAMES, signal=sent_by_self(number))

    assert other != sign(FRAMES)
    assert other.startswith(f"v1:{wanted}:vllm::copy:")


def test_only_five_functions_count() -> None:
    deep = called(*(f"f{at}" for at in range(8)))

    assert sign(deep) == sign((*deep[:5], a_frame(5, "other")))
    assert sign(deep) != sign((*deep[:4], a_frame(4, "other")))


def test_a_recursion_counts_once_with_what_is_above_and_below_it() -> None:
    shallow = called("leaf", *("a", "b") * 3, "tail", "main")
    deep = called("leaf", *("a", "b") * 20, "tail", "main")

    assert parts(deep) == {
        "signal": "memory-access",
        "frame 1": "leaf", "frame 2": "a", "frame 3": "b", "frame 4": "tail",
    }  # fmt: skip
    assert sign(shallow) == sign(deep)


def test_a_stack_overflow_is_its_cycle_wherever_it_ended() -> None:
    one = called(*("parse", "expect") * 10)
    other = called("peek", *("expect", "parse") * 20)

    assert parts(one, OVERFLOW) == {"signal": "memory-access", "recursion": "expect < parse"}
    assert sign(one, OVERFLOW) == sign(other, OVERFLOW)


def test_an_overflow_without_a_cycle_is_its_frames() -> None:
    assert parts(called("large_frame", "f"), OVERFLOW)["frame 1"] == "large_frame"


def test_what_raises_is_passed_over_only_before_the_cause() -> None:
    raised = called("vllm::check_failed", "vllm::step", "vllm::CheckFailed", "main")

    assert list(parts(raised).values())[1:] == ["vllm::step", "vllm::CheckFailed"]


@pytest.mark.parametrize("name", ["google::LogMessage::Fail", "main"])
def test_where_nothing_else_is_there_it_counts_after_all(name: str) -> None:
    assert parts((libc_frame(0, "raise"), a_frame(1, name)))["frame 1"] == name


def test_libcxx_and_both_string_abis_agree() -> None:
    ours = (a_frame(0, "f<std::__cxx11::string>"),)
    theirs = (a_frame(0, "f<std::__1::string>"),)

    assert sign(ours) == sign(theirs)


def test_without_names_build_id_and_offset_stand_in() -> None:
    nameless = a_frame(0, None, pc=0x40_1234)
    distrusted = a_frame(0, "wrong", pc=0x40_1234, trusted=False)
    rebuilt = (replace(PROGRAM, build_id="cc"), C_LIBRARY)

    assert parts((nameless,))["frame 1"] == "aa+0x1234"
    assert sign((distrusted,)) == sign((nameless,))
    assert sign((nameless,), modules=rebuilt) != sign((nameless,))


def test_without_a_build_id_module_and_offset_stand_in() -> None:
    without = (replace(PROGRAM, build_id=None), C_LIBRARY)

    assert ":engine+0x1234:" in sign((a_frame(0, None, pc=0x40_1234),), modules=without)


PYTHON = replace(
    a_frame(4, "serve", file="/app/serve.py", module=None), kind=FrameKind.PYTHON, line=3
)
LIBRARY = replace(PYTHON, file="/usr/lib/python3.11/ctypes/__init__.py", function="string_at")


def test_pythons_frames_count_only_where_no_native_one_is_own() -> None:
    alone = (libc_frame(0, "__strlen_evex"), LIBRARY, PYTHON, libc_frame(5, "__libc_start_main"))

    assert list(parts(alone).values()) == ["memory-access", "__strlen", "serve (serve.py)"]
    assert sign((*FRAMES[:3], LIBRARY, PYTHON, FRAMES[3])) == sign(FRAMES)


def test_an_overflow_in_python_is_its_cycle() -> None:
    found = parts((libc_frame(0, "memcpy"), *[PYTHON, LIBRARY] * 5), OVERFLOW)

    assert found["recursion"] == "serve (serve.py)"


def test_in_a_runtime_alone_the_innermost_function_counts_whatever_the_processor() -> None:
    evex = (libc_frame(0, "__memmove_evex_unaligned_erms"), libc_frame(1, "gc_collect"))
    avx = (libc_frame(0, "__memmove_avx_unaligned_erms"), libc_frame(1, "gc_collect"))

    assert parts(evex)["frame 1"] == "__memmove"
    assert sign(evex) == sign(avx)


def test_without_any_frame_that_tells_the_program_stands_in() -> None:
    assert ":engine:" in sign((libc_frame(0, "abort"),), program="/opt/app/engine")
    assert ":unknown:" in sign((), program=None)


def test_an_undecodable_name_can_be_signed() -> None:
    assert sign((a_frame(0, "caf\udce9"),)).startswith("v1:")


@pytest.mark.parametrize(
    "name",
    ["Pool::clone", "thread_pool_run", "vllm::raise_limit", "check", "main_loop", "abort_all"],
)
def test_a_users_own_function_is_not_taken_for_machinery(name: str) -> None:
    found = parts(called("f", name, "g", "main"))

    assert list(found.values())[1:] == ["f", name, "g"]


def test_a_crash_is_signed_by_its_calls_from_the_fault_outwards() -> None:
    crash = null_crash()
    [thread, *others] = crash.threads
    handler = (a_frame(0, "on_signal"), a_frame(1, "resend"))
    ran = replace(
        thread,
        stack=replace(thread.stack, frames=(*handler, *thread.stack.frames)),
        fault_index=len(handler),
    )

    found = signed(crash)

    assert found.signature == signature_of(found.signature_parts)
    assert "vllm::copy_blocks" in [part.value for part in found.signature_parts]
    assert signed(replace(crash, threads=(ran, *others))).signature == found.signature
