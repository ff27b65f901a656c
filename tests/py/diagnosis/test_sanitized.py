"""What a report, Python and a core of one moment say together; what an exit status means."""

from dataclasses import replace

import pytest
from tests.py.support.reports import null_crash
from tests.py.support.sanitized import PLAN, a_report, python_stack

from vllm_forensics.diagnosis.sanitized import conclude_run, verdict
from vllm_forensics.diagnosis.sanitizer.traps import trap_of_abort
from vllm_forensics.model.finding import FaultKind
from vllm_forensics.model.report import Crash
from vllm_forensics.model.sanitized import PythonThread
from vllm_forensics.model.stack import Stack


def aborted(*modules: str, functions: tuple[str, ...] = ()) -> Crash:
    crash = null_crash()
    template = crash.modules[0]
    frames = crash.threads[0].stack.frames
    named = tuple(replace(frames[0], index=at, function=name) for at, name in enumerate(functions))
    thread = replace(crash.threads[0], stack=Stack(tid=1, frames=named))
    return replace(
        crash,
        fault=replace(crash.fault, kind=FaultKind.SANITIZER_ABORT),
        modules=tuple(replace(template, path=path) for path in modules),
        threads=(thread,),
    )


def test_the_place_python_and_the_core_are_one_sentence_each() -> None:
    told = conclude_run(a_report(), python_stack(), aborted())

    assert told == (
        "A heap-use-after-free in work (cache.cpp:9), called from Python's step (serve.py:5). "
        "The core is of the abort that followed the report: memory as it was then."
    )


def test_a_core_of_the_fault_itself_is_told_apart_from_one_of_the_abort() -> None:
    told = conclude_run(a_report("segv"), None, null_crash())

    assert told.endswith("before the runtime's handler: SIGSEGV, a null-dereference.")


def test_a_main_thread_that_only_waits_is_not_blamed() -> None:
    told = conclude_run(a_report(), python_stack(thread=PythonThread.MAIN), None)

    assert "in a thread that runs no Python; meanwhile the main thread is in step" in told
    assert "called from" not in told


def test_without_a_culprit_none_is_made_up() -> None:
    told = conclude_run(replace(a_report("use-after-poison"), culprit=None), None, None)

    assert told == "A use-after-poison outside of the program's own code."


@pytest.mark.parametrize(
    ("count", "status", "words"),
    [
        (1, 134, "AddressSanitizer: 1 report"),
        (2, 0, "AddressSanitizer: 2 reports"),
        (0, 0, "AddressSanitizer: no report"),
        (0, 1, "AddressSanitizer: no report; the program ended with status 1, which is Python's"),
        (0, 139, "AddressSanitizer: no report; the program died of SIGSEGV"),
    ],
)
def test_a_status_without_a_report_is_explained(count: int, status: int, words: str) -> None:
    assert verdict(PLAN, count, status).startswith(words)


def test_two_runtimes_in_a_process_that_was_aborted_are_the_reason() -> None:
    trap = trap_of_abort(aborted("/usr/lib/libasan.so.8", "/x/libclang_rt.asan-x86_64.so"))

    assert trap is not None
    assert "libasan.so.8 and libclang_rt.asan-x86_64.so" in trap.what


def test_a_runtime_that_a_module_brought_along_came_too_late() -> None:
    trap = trap_of_abort(aborted("/usr/lib/libasan.so.8", functions=("abort", "_dl_init")))

    assert trap is not None
    assert trap.name == "link-order"


@pytest.mark.parametrize("modules", [(), ("/usr/lib/libasan.so.8",), ("/usr/lib/libubsan.so.1",)])
def test_an_abort_of_unknown_cause_stays_unknown(modules: tuple[str, ...]) -> None:
    assert trap_of_abort(aborted(*modules, functions=("abort",))) is None
