"""Reasons for a plain library: each with the trace that proves it, and none without."""

import pytest

from vllm_forensics.diagnosis.plain_library import why_plain
from vllm_forensics.model.build import (
    BuiltFile,
    CompilerCall,
    FileKind,
    FileTrace,
    PlainUnit,
    Proof,
    SourceLine,
    Verdict,
)

CALL = CompilerCall(folder="/b", arguments=("forensics-gcc", "-shared", "-o", "own.so"))
UNIT = PlainUnit(name="own.c", producer="GNU C17 12.2.0 -O3")
LINE = SourceLine(file="setup.py", line=3, text="os.environ['CC'] = '/usr/bin/gcc'")


def built(proof: Proof) -> BuiltFile:
    return BuiltFile(path="/v/own.so", kind=FileKind.MODULE, build_id=None, proof=proof)


def test_what_is_proved_needs_no_reason() -> None:
    trace = FileTrace(twin="lib/own.so", linked_by=None)

    assert why_plain(built(Proof(verdict=Verdict.PROVED)), trace) == ()


def test_a_twin_in_the_source_explains_all() -> None:
    trace = FileTrace(twin="lib/own.so", linked_by=None, compiler_lines=(LINE,))

    [reason] = why_plain(built(Proof(verdict=Verdict.PLAIN)), trace)

    assert "ready-built in the source tree, as lib/own.so" in reason


def test_another_compiler_is_told_with_the_line_that_chose_it() -> None:
    proof = Proof(verdict=Verdict.PLAIN, plain_units=(UNIT,))

    reasons = why_plain(built(proof), FileTrace(twin=None, linked_by=None, compiler_lines=(LINE,)))

    assert "GNU C17 12.2.0 -O3" in reasons[0]
    assert reasons[1] == "setup.py:3 chooses a compiler: os.environ['CC'] = '/usr/bin/gcc'"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (CALL.arguments, "stripped afterwards"),
        ((*CALL.arguments, "-Xlinker", "-s"), "told to strip"),
    ],
)
def test_a_stripped_library_is_told_by_how_it_was_linked(
    arguments: tuple[str, ...], says: str
) -> None:
    call = CompilerCall(folder="/b", arguments=arguments)
    proof = Proof(verdict=Verdict.PLAIN, debug_info=False)

    reasons = why_plain(built(proof), FileTrace(twin=None, linked_by=call))

    assert [says in reason for reason in reasons] == [True]


def test_nothing_is_guessed_without_a_trace() -> None:
    proof = Proof(verdict=Verdict.PLAIN, debug_info=True)

    assert why_plain(built(proof), FileTrace(twin=None, linked_by=CALL)) == ()
