"""Stacks of which somebody kept no more than the symbols."""

from __future__ import annotations

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.model.incident import Death

ATOS = (
    "# The app crashes with SIGTRAP\n\nHere is the stack:\n\n```\n"
    "logging::LogMessage::~LogMessage() (in Pool Framework) (logging.cc:873)\n"
    "pool::Manager::TakeNext(int) (in Pool Framework) (manager.cc:88)\n"
    "pool::Host::Serve() (in Pool Framework) (host.cc:12)\n"
    "main (in Poolview) + 12\n```\n"
)
JULIA = (
    "# Segfault for unknown reasons\n\n```\n"
    "_ZN4pool4TakeEv at C:\\Users\\me\\julia\\bin\\pool.dll (unknown line)\n"
    "_ZN4pool5ServeEv at C:\\Users\\me\\julia\\bin\\pool.dll (unknown line)\n"
    "jl_apply at /home/me/julia.h:1700 [inlined]\n```\n"
)
WINDBG = (
    "# Access violation\n\n```\n0:043> kp\n # ChildEBP RetAddr  \n"
    "00 (Inline) -------- pool!Take+0x3 [d:\\src\\take.h @ 153] \n"
    "01 0e60d0a0 5a299c42 pool!Serve+0x6b [d:\\src\\serve.cpp @ 12] \n```\n"
)


def death(text: str) -> Death:
    return incident_of(*text.splitlines()).first_death


@pytest.mark.parametrize(
    ("text", "module", "function"),
    [
        (ATOS, "Pool Framework", "pool::Manager::TakeNext"),
        (JULIA, "pool.dll", "pool::Take"),
        (WINDBG, "pool", "Take"),
    ],
)
def test_symbols_alone_show_where(text: str, module: str, function: str) -> None:
    died = death(text)
    assert (died.module, died.function) == (module, function)


def test_the_only_frame_of_the_interpreter_keeps_its_function() -> None:
    died = death(
        "Process 42 stopped\n* thread #1, stop reason = EXC_BAD_ACCESS (code=1, address=0x10)\n"
        "    frame #0: 0x0000000103077d9b libpython3.7m.dylib`PyModule_Create2 + 11\n"
    )
    assert died.function == "PyModule_Create2"
