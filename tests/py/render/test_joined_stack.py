"""The stack in a report: the fault, and who called it from Python, however far below."""

from dataclasses import replace

from rich.console import RenderableType
from tests.py.support.images import a_frame
from tests.py.support.reports import null_crash

from vllm_forensics.model.report import Crash
from vllm_forensics.model.stack import FrameKind
from vllm_forensics.render.joined_stack import where
from vllm_forensics.render.terminal import TerminalStyle, render_parts

NATIVE = 20


def deep_crash() -> Crash:
    """Twenty native calls of the user's own, and five of Python's below them."""
    crash = null_crash()
    native = [a_frame(at, f"pool::call{at}", file="/src/pool.cpp", line=at) for at in range(NATIVE)]
    python = [
        a_frame(at, f"serve{at}", file="/app/serve.py", line=1000 + at, kind=FrameKind.PYTHON)
        for at in range(NATIVE, NATIVE + 5)
    ]
    thread = crash.threads[0]
    stack = replace(thread.stack, frames=(*native, *python))
    return replace(crash, threads=(replace(thread, stack=stack, fault_index=0),))


def shown(crash: Crash, own: frozenset[tuple[str, int]], width: int = 80) -> list[str]:
    style = TerminalStyle(width=width)
    parts: list[RenderableType] = list(where(crash, "core.42", style, own))
    return render_parts(parts, style).splitlines()


def test_pythons_callers_are_shown_below_a_deep_native_stack() -> None:
    crash = deep_crash()
    own = frozenset((crash.core, at) for at in range(NATIVE + 5))

    lines = shown(crash, own)

    named = [line.split()[2] for line in lines if " py " in line]
    assert [line.strip() for line in lines if line.endswith(" more")] == ["15 more"]
    assert len(named) == 3
    assert lines[-2].endswith("app/serve.py:1022")
    assert lines[-1].strip() == f"2 more (forensics core {crash.core})"


def test_who_has_no_caller_of_his_own_in_python_sees_the_innermost_calls() -> None:
    crash = deep_crash()
    own = frozenset((crash.core, at) for at in range(NATIVE))

    lines = shown(crash, own)

    assert lines[-2].startswith("  #7 ")
    assert lines[-1].strip() == f"17 more (forensics core {crash.core})"


def test_a_line_number_stands_in_full_in_a_narrow_terminal() -> None:
    crash = deep_crash()
    own = frozenset((crash.core, at) for at in range(NATIVE + 5))

    lines = shown(crash, own, width=40)

    assert all(len(line) <= 40 for line in lines if line.startswith("  #"))
    assert [line[-13:] for line in lines if " py " in line] == [
        "serve.py:1020",
        "serve.py:1021",
        "serve.py:1022",
    ]
