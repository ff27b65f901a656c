"""The little that the model works out by itself."""

import dataclasses

import pytest
from tests.py.support.images import PROGRAM, a_frame, segv
from tests.py.support.reports import null_crash

from vllm_forensics.model.demo import DemoOutcome
from vllm_forensics.model.event import Chain, Event, EventKind
from vllm_forensics.model.finding import FaultKind
from vllm_forensics.model.process import Signal
from vllm_forensics.model.report import Crash, Failure
from vllm_forensics.model.signals import code_name, signal_name
from vllm_forensics.model.stack import Instruction, Variable


@pytest.mark.parametrize(
    ("number", "name"),
    [(11, "SIGSEGV"), (6, "SIGABRT"), (7, "SIGBUS"), (31, "SIGSYS"), (0, "signal 0"),
     (40, "signal 40"), (-1, "signal -1")],
)  # fmt: skip
def test_a_signal_has_its_name(number: int, name: str) -> None:
    assert signal_name(number) == name


@pytest.mark.parametrize(
    ("number", "code", "name"),
    [
        (11, 1, "SEGV_MAPERR"), (11, 2, "SEGV_ACCERR"), (11, 128, "SI_KERNEL"),
        (7, 2, "BUS_ADRERR"), (8, 1, "FPE_INTDIV"), (4, 2, "ILL_ILLOPN"), (6, -6, "SI_TKILL"),
        (6, 0, "SI_USER"), (11, 99, "99"), (10, 3, "3"), (11, -99, "-99"),
    ],
)  # fmt: skip
def test_a_code_has_the_name_that_its_signal_gives_it(number: int, code: int, name: str) -> None:
    assert code_name(Signal(number=number, code=code)) == name


def test_a_positive_code_is_the_kernels() -> None:
    assert segv(0).from_kernel
    assert not Signal(number=11, code=0).from_kernel
    assert not Signal(number=11, code=-6).from_kernel


def test_a_module_is_called_by_its_last_part() -> None:
    assert PROGRAM.name == "engine"


def test_an_instruction_ends_where_the_next_begins() -> None:
    assert Instruction(address=16, size=3, mnemonic="mov", text="mov").end == 19


def test_arguments_are_the_variables_that_the_caller_passed() -> None:
    passed = Variable(name="id", value="3", is_argument=True)
    frame = a_frame(0, "f", variables=(Variable(name="local", value="1"), passed))

    assert frame.arguments == (passed,)


def test_a_chain_knows_the_last_event_of_a_kind() -> None:
    kinds = (EventKind.ALLOCATE, EventKind.FREE, EventKind.USE, EventKind.FREE)
    chain = Chain(block=7, events=tuple(Event(kind=kind, block=7) for kind in kinds))

    assert chain.index_of_last(EventKind.FREE) == 3
    assert chain.index_of_last(EventKind.ALLOCATE) == 0
    assert chain.index_of_last(EventKind.SWAP) is None


def test_values_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        segv(0).number = 6  # type: ignore[misc]


def test_a_demo_is_explained_by_a_kind_or_by_an_end_without_a_signal() -> None:
    crash = null_crash()
    unknown = dataclasses.replace(
        crash, fault=dataclasses.replace(crash.fault, kind=FaultKind.UNKNOWN)
    )
    failure = Failure(path="core", error="cut", remedy="again")

    def outcome(
        status: int, crash: Crash | None = None, failure: Failure | None = None
    ) -> DemoOutcome:
        return DemoOutcome(name="d", status=status, output="", crash=crash, failure=failure)

    assert outcome(-11, crash).is_explained
    assert outcome(0).is_explained
    assert not outcome(-11, unknown).is_explained
    assert not outcome(-11).is_explained
    assert not outcome(-11, None, failure).is_explained
