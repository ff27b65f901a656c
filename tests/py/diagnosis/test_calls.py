"""Which calls belong to the fault, who is to blame, who sent the signal again."""

import pytest
from tests.py.support.images import (
    CODE,
    DATA,
    HEAP,
    LIBC,
    a_frame,
    a_signal_frame,
    context_of,
    crash_image,
    libc_frame,
    segv,
    sent_by_self,
    signal_frame_marker,
)

from vllm_forensics.diagnosis.calls import (
    culprit_of,
    fault_frames,
    has_null_this,
    names_on_stack,
    reraised_by,
)
from vllm_forensics.model.finding import Access, FaultKind, Finding
from vllm_forensics.model.stack import Frame, FrameKind, Variable

FAULT_PC = CODE + 0x100
NULL_THIS = (Variable(name="this", value="0x0", is_argument=True),)


def finding(kind: FaultKind, access: Access | None = None, address: int | None = None) -> Finding:
    return Finding(kind=kind, summary="s", proof=("p",), access=access, address=address)


NULL = finding(FaultKind.NULL_DEREFERENCE)
HANDLED = (
    libc_frame(0, "pthread_kill"),
    a_frame(1, "on_crash", pc=CODE + 0x900),
    signal_frame_marker(2),
    a_frame(3, "work", pc=FAULT_PC),
    a_frame(4, "main", pc=CODE + 0x400),
)


def test_the_frames_of_a_handler_are_left_out() -> None:
    frame = a_signal_frame(segv(0), pc=FAULT_PC)
    image = crash_image(signal=sent_by_self(6), frames=HANDLED, handler_frames=(frame,))

    frames = fault_frames(image, context_of(image))

    assert [frame.function for frame in frames] == ["work", "main"]


def test_a_function_that_runs_again_in_the_handler_is_not_taken_for_the_fault() -> None:
    frames = (
        libc_frame(0, "pthread_kill"),
        a_frame(1, "work", pc=FAULT_PC),
        a_frame(2, "on_crash", pc=CODE + 0x900),
        signal_frame_marker(3),
        a_frame(4, "work", pc=FAULT_PC),
    )
    handler = a_signal_frame(segv(0), pc=FAULT_PC)
    image = crash_image(signal=sent_by_self(6), frames=frames, handler_frames=(handler,))

    assert [frame.index for frame in fault_frames(image, context_of(image))] == [4]


def test_all_frames_belong_to_a_fault_that_no_handler_saw() -> None:
    image = crash_image(signal=segv(0), frames=HANDLED)

    assert fault_frames(image, context_of(image)) == HANDLED


def test_a_fault_that_unwinding_never_reached_is_a_frame_of_its_own() -> None:
    handler = a_signal_frame(segv(0), pc=FAULT_PC + 8)
    image = crash_image(signal=sent_by_self(6), frames=HANDLED, handler_frames=(handler,))

    (frame,) = fault_frames(image, context_of(image))

    assert frame.pc == FAULT_PC + 8
    assert frame.index == len(HANDLED)
    assert frame.function is None


def test_only_the_nearest_names_count() -> None:
    frames = tuple(a_frame(at, f"f{at}") for at in range(20))

    assert "f15" in names_on_stack(frames)
    assert "f16" not in names_on_stack(frames)


def test_the_culprit_is_the_first_own_call() -> None:
    frames = (libc_frame(0, "__memcpy_avx"), a_frame(1, "std::copy<int*>"), a_frame(2, "work"))

    culprit = culprit_of(frames, NULL)

    assert culprit is not None
    assert culprit.function == "work"


def test_behind_a_null_this_the_caller_is_to_blame() -> None:
    frames = (a_frame(0, "Block::id", variables=NULL_THIS), a_frame(1, "work"))

    culprit = culprit_of(frames, NULL)

    assert culprit is not None
    assert culprit.function == "work"


@pytest.mark.parametrize("kind", [FaultKind.WILD_POINTER, FaultKind.ABORT])
def test_a_null_this_means_nothing_for_another_fault(kind: FaultKind) -> None:
    frames = (a_frame(0, "Block::id", variables=NULL_THIS), a_frame(1, "work"))

    culprit = culprit_of(frames, finding(kind))

    assert culprit is not None
    assert culprit.function == "Block::id"


def test_where_every_this_is_null_the_innermost_is_blamed() -> None:
    frames = (a_frame(0, "Block::id", variables=NULL_THIS),)

    assert culprit_of(frames, NULL) == frames[0]


def test_the_address_that_was_jumped_to_is_nobodys_code() -> None:
    frames = (a_frame(0, "table", pc=DATA), a_frame(1, "dispatch", pc=CODE + 9))
    jump = finding(FaultKind.EXECUTE_NON_EXECUTABLE, Access.EXECUTE, DATA)

    culprit = culprit_of(frames, jump)

    assert culprit is not None
    assert culprit.function == "dispatch"


def test_without_own_code_there_is_no_culprit() -> None:
    frames = (libc_frame(0, "abort"), a_frame(1, None, module=None), signal_frame_marker(2))

    assert culprit_of(frames, NULL) is None


@pytest.mark.parametrize(
    ("value", "is_null"),
    [("0x0", True), ("(Block * const) 0x48", True), ("0xffff", True), ("0x10000", False),
     ("0x555500", False), ("<optimized out>", False)],
)  # fmt: skip
def test_a_this_below_64_kib_is_null(value: str, is_null: bool) -> None:
    frame = a_frame(0, "Block::id", variables=(Variable(name="this", value=value),))

    assert has_null_this(frame) is is_null


def test_a_function_without_this_has_none() -> None:
    assert not has_null_this(a_frame(0, "f", variables=(Variable(name="that", value="0x0"),)))


def test_the_handler_that_sent_the_signal_is_named() -> None:
    frame = a_signal_frame(segv(0), pc=FAULT_PC)
    image = crash_image(signal=sent_by_self(6), frames=HANDLED, handler_frames=(frame,))

    assert reraised_by(image, context_of(image)) == "on_crash"


def test_a_handler_without_a_name_is_named_by_its_module() -> None:
    frames = (*HANDLED[:1], a_frame(1, None, pc=LIBC, file=None), *HANDLED[2:])
    frame = a_signal_frame(segv(0), pc=FAULT_PC)
    image = crash_image(signal=sent_by_self(6), frames=frames, handler_frames=(frame,))

    assert reraised_by(image, context_of(image)) == "/opt/app/engine"


def test_a_handler_that_is_no_longer_on_the_stack_is_only_called_one() -> None:
    frame = a_signal_frame(segv(0), pc=FAULT_PC)
    image = crash_image(signal=sent_by_self(11), handler_frames=(frame,))

    assert reraised_by(image, context_of(image)) == "a signal handler"


def test_nobody_sends_a_first_fault_again() -> None:
    image = crash_image(signal=segv(0), frames=HANDLED)

    assert reraised_by(image, context_of(image)) is None


def _own(frame: Frame) -> bool:
    return culprit_of((frame,), NULL) is frame


@pytest.mark.parametrize(
    "module",
    [
        "/lib/x86_64-linux-gnu/libc.so.6", "/lib/libc-2.31.so", "/usr/lib/libstdc++.so.6.0.30",
        "/lib64/ld-linux-x86-64.so.2", "/usr/lib/libgcc_s.so.1", "/usr/lib/libasan.so.8",
        "/usr/bin/python3.11", "/usr/lib/libpython3.12.so.1.0", "/usr/lib/libgomp.so.1",
        "/opt/site-packages/torch/lib/libgomp-a34b3233.so.1", "[vdso]", "/usr/lib/libpthread.so.0",
    ],
)  # fmt: skip
def test_runtime_modules_are_not_own(module: str) -> None:
    assert not _own(a_frame(0, "f", module=module))


@pytest.mark.parametrize(
    "module",
    ["/opt/app/engine", "/opt/vllm/_C.abi3.so", "/usr/lib/libcuda.so.1", "/opt/libcache.so",
     "/opt/libmodel.so", "/opt/pythonic", "/usr/lib/libtorch_cpu.so"],
)  # fmt: skip
def test_other_modules_are_own(module: str) -> None:
    assert _own(a_frame(0, "f", module=module))


@pytest.mark.parametrize(
    "function",
    [
        "std::vector<int>::at", "__cxa_throw", "operator new", "operator delete[]", "memcpy@plt",
        "__asan::Report", "__interceptor_free", "_start", "__libc_start_main", "_Unwind_Resume",
        "PyObject_Call", "_PyEval_EvalFrameDefault", "__gnu_cxx::__verbose_terminate_handler",
    ],
)  # fmt: skip
def test_runtime_functions_are_not_own(function: str) -> None:
    assert not _own(a_frame(0, function))


@pytest.mark.parametrize(
    "function",
    ["stdx::f", "main", "operator newish", "vllm::std::f", "PyramidBuild", "restart", "asan_run"],
)
def test_names_that_only_begin_alike_are_own(function: str) -> None:
    assert _own(a_frame(0, function))


def test_a_function_without_a_name_in_an_own_module_is_own() -> None:
    assert _own(a_frame(0, None, pc=HEAP))


def test_a_signal_frame_is_nobodys() -> None:
    assert not _own(a_frame(0, "f", kind=FrameKind.SIGNAL))
