"""Every form reads its own example, and what is asked before its pattern lets its lines through."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_forensics.evidence.log.native_forms import FORMS, Form
from vllm_forensics.evidence.log.native_frame import frame_in

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
