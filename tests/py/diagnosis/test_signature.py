"""One name for one bug."""

from dataclasses import replace

import pytest
from tests.py.support.images import a_frame, libc_frame

from vllm_forensics.diagnosis.signature import signature_of
from vllm_forensics.model.finding import FaultKind, Finding
from vllm_forensics.model.stack import Frame

NULL = Finding(kind=FaultKind.NULL_DEREFERENCE, summary="s", proof=("p",))
FRAMES = (
    libc_frame(0, "__memcpy_avx"),
    a_frame(1, "vllm::copy", line=88),
    a_frame(2, "vllm::step", line=10),
    a_frame(3, "main"),
)


def sign(frames: tuple[Frame, ...], finding: Finding = NULL, program: str | None = "/p/e") -> str:
    return signature_of(finding, frames, program)


def test_it_reads_kind_and_first_own_function() -> None:
    assert sign(FRAMES).startswith("v1:null-dereference:vllm::copy:")


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
        pytest.param((*FRAMES[:2], FRAMES[1], FRAMES[1], *FRAMES[2:]), id="deeper recursion"),
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


def test_another_kind_has_another_name() -> None:
    assert sign(FRAMES, replace(NULL, kind=FaultKind.WILD_POINTER)) != sign(FRAMES)


def test_only_five_functions_count() -> None:
    deep = tuple(a_frame(at, f"f{at}") for at in range(8))

    assert sign(deep) == sign((*deep[:5], a_frame(5, "other")))
    assert sign(deep) != sign((*deep[:4], a_frame(4, "other")))


def test_libcxx_and_both_string_abis_agree() -> None:
    ours = (a_frame(0, "f<std::__cxx11::string>"),)
    theirs = (a_frame(0, "f<std::__1::string>"),)

    assert sign(ours) == sign(theirs)


def test_without_names_module_and_offset_stand_in() -> None:
    nameless = a_frame(0, None, pc=0x40_1234)
    distrusted = a_frame(0, "wrong", pc=0x40_1234, trusted=False)

    assert ":engine+0x1234:" in sign((nameless,))
    assert sign((distrusted,)) == sign((nameless,))


def test_without_own_frames_the_program_stands_in() -> None:
    assert ":engine:" in sign((libc_frame(0, "abort"),), program="/opt/app/engine")
    assert ":unknown:" in sign((), program=None)


def test_an_undecodable_name_can_be_signed() -> None:
    assert sign((a_frame(0, "caf\udce9"),)).startswith("v1:")
