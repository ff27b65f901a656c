"""Every form reads its own example, and what is asked before its pattern lets its lines through."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_forensics.evidence.log.stacks.frame_form import Form
from vllm_forensics.evidence.log.stacks.native_forms import FORMS
from vllm_forensics.evidence.log.stacks.native_frame import completed, frame_in
from vllm_forensics.model.incident import NativeCall

each_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.writer)


@each_form
def test_a_form_reads_its_example(form: Form) -> None:
    frame = frame_in(form.example, form.source or "")

    assert frame is not None
    assert frame.form is form


@each_form
def test_a_form_of_one_source_is_nobody_elses(form: Form) -> None:
    frame = frame_in(form.example)

    assert (frame is not None and frame.form is form) is (form.source is None)


@each_form
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_line_that_a_pattern_matches_is_held_back(form: Form, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(re.compile(rf"\A(?:{form.pattern})")))

    assert re.match(form.begins, text.lstrip()[:1]) is not None
    assert form.holds in text


def test_a_debugger_names_the_interpreters_own_sources_and_no_module() -> None:
    frame = frame_in("#3  0x00005555556b2c40 in call_it (f=0x7f1c2a004e10) at Objects/call.c:290")

    assert frame is not None
    assert (frame.call.function, frame.call.module) == ("call_it", "python")


@pytest.mark.parametrize(
    ("text", "file", "line"),
    [
        ('  File "/src/f.cc", line 12, in ns::f()', "/src/f.cc", 12),
        ('  File "<unknown>", line 0, in ns::f()', None, None),
        ("#0  0x00007f1be0001234 in f (a=1) at src/f.c:12", "src/f.c", 12),
        ("#0  0x00007f1be0001234 in f (a=1) from /lib/libexample.so", None, None),
        (" 4 0x0000000000012345 f()  /src/f.c:12", "/src/f.c", 12),
        (" #4 0x00005581c0de1234 f(int) /src/f.cpp:12:3", "/src/f.cpp", 12),
        ("  * frame #0: 0x00000001038b1019 lib.dylib`f at f.cpp:12:3", "f.cpp", 12),
        (" 1# ns::f(int) at /src/f.cpp:12", "/src/f.cpp", 12),
        ("==42==    by 0x4C31234: f (f.c:12)", "f.c", 12),
        ("   at Ns.Pool.Take(Int32) in /src/pool.cs:line 12", "/src/pool.cs", 12),
        ("/src/pool.zig:88:12: 0x1034abc in take (serve)", "/src/pool.zig", 88),
        ("[2] ns::f(int) (/src/f.cpp:12)", "/src/f.cpp", 12),
        ("f at /src/f.jl:12", "/src/f.jl", 12),
    ],
)
def test_a_frame_keeps_the_source_that_its_line_tells(
    text: str, file: str | None, line: int | None
) -> None:
    frame = next(filter(None, (frame_in(text, writer) for writer in ("", "Julia", ".NET"))), None)

    assert frame is not None
    assert (frame.call.file, frame.call.line) == (file, line)


@pytest.mark.parametrize(
    ("below", "told"),
    [
        ("             at ./src/pick.rs:3:39", ("./src/pick.rs", 3, None)),
        ("\t/opt/app/pool.go:42 +0x22", ("/opt/app/pool.go", 42, None)),
        ("    from /lib/libexample.so.1", (None, None, "libexample.so.1")),
    ],
)
def test_the_line_below_a_frame_completes_it(
    below: str, told: tuple[str | None, int | None, str | None]
) -> None:
    bare = NativeCall(function="f", module=None)

    call = completed(bare, below)

    assert call is not None
    assert (call.file, call.line, call.module) == told
    assert completed(bare, "  5: ns::g") is None


def test_androids_counter_is_an_offset_only_where_no_function_is_named() -> None:
    plain = frame_in("    #00 pc 000000000001e020  /data/app/a/base.apk!libpool.so")
    named = frame_in("    #00 pc 000000000001e020  /data/app/a/libpool.so (take+32)")

    assert plain is not None
    assert plain.call.offset == "0x1e020"
    assert named is not None
    assert (named.call.function, named.call.offset) == ("take", None)


def test_a_folder_is_no_module() -> None:
    frame = frame_in("#0  0x0000000801e0495d in take () from /usr/local/lib/")

    assert frame is not None
    assert (frame.call.function, frame.call.module) == ("take", None)


def test_a_call_operators_name_is_whole() -> None:
    frame = frame_in(
        "#4  0x0000000000420218 in ns::pool<int>::operator() (this=0x10) at pool.hpp:7"
    )

    assert frame is not None
    assert frame.call.function == "ns::pool<int>::operator()"


def test_a_prefix_that_was_taken_out_left_its_brackets() -> None:
    frame = frame_in("()     @     0x7f0df0a15725         32  pool::join()")

    assert frame is not None
    assert frame.call.function == "pool::join()"
