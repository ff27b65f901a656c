"""Which program a stack is of, as its functions and modules tell."""

import pytest

from vllm_forensics.diagnosis.incident.programs import program_of
from vllm_forensics.model.incident import NativeCall


def _calls(*frames: tuple[str | None, str | None]) -> list[NativeCall]:
    """Frames as (module, function), innermost first."""
    return [NativeCall(module=module, function=function) for module, function in frames]


@pytest.mark.parametrize(
    ("frames", "name"),
    [
        (((None, "serve::pool::take"), (None, "serve::main")), "serve"),
        (((None, "take"), (None, "serve::main::{{closure}}::h0123456789abcdef")), "serve"),
        (((None, "std::main"),), None),
        (((None, "App.Pool.Take(Int32 n)"), (None, "App.Program.Main(String[] args)")), "App"),
        (((None, "Big.App.Program.<Main>$(String[] args)"),), "Big.App"),
        (((None, "App.Program.Mainframe()"),), None),
        ((("node", "node::Abort()"), ("node", "v8::Fatal()")), "node"),
        ((("node", "node::Abort()"),), None),
        ((("AppKit", "-[NSView draw]"), ("AppKit", "-[NSView show]")), None),
        ((("libpool", "take"), ("libc", "abort")), None),
    ],
)
def test_a_program_is_known_by_where_it_begins(
    frames: tuple[tuple[str | None, str | None], ...], name: str | None
) -> None:
    assert program_of(_calls(*frames)) == name
