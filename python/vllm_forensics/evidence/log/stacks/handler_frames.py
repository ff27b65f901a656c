"""Handlers by name: a stack that begins in one tells a death, also without its heading."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

_EXAMPLES: Final = (
    ("segfault-handler.node", "/opt/app/segfault-handler.node(+0x2dc)[0x7f1be0001234]"),
    ("AbslFailureSignalHandler", "    @ 0x7f1be0001234  192  absl::AbslFailureSignalHandler()"),
    ("absl::lts_", "    @     0x7f1be0001234  192  absl::lts_20230802::WriteFailureInfo()"),
    ("FailureSignalHandler", "    @ 0x7f1be0001234 google::(anonymous)::FailureSignalHandler()"),
    ("c10::FatalSignalHandler", "frame #1: c10::FatalSignalHandler::f() + 0x57 (0x1234 in x.so)"),
    ("ucs_handle_error", " 0  /lib/libucs.so.0(ucs_handle_error+0x2dc) [0x7f1be0001234]"),
    ("ucs_error_signal_handler", "1 /lib/libucs.so.0(ucs_error_signal_handler+0x2) [0x7f1be000]"),
    ("llvm::sys::PrintStackTrace", " #0 0x00005581c0de1234 llvm::sys::PrintStackTrace() (a+0x1)"),
    ("SignalHandle", "0   paddle::framework::SignalHandle(char const*, int)"),
    ("handle_fatal_signal", "/usr/sbin/mysqld(handle_fatal_signal+0x2dc)[0x5581c0de1234]"),
)
_HANDLER: Final = (
    r"(?:segfault-handler\.node[(\[]|\bAbslFailureSignalHandler|\babsl::lts_\d{1,8}::"
    r"(?:WriteFailureInfo|AbslFailure)|FailureSignalHandler|\bc10::FatalSignalHandler|"
    r"\bucs_(?:handle_error|error_signal_handler)|llvm::sys::PrintStackTrace|::SignalHandle\b|"
    r"\bhandle_fatal_signal\+)"
)
_FRAME: Final = (
    r"^\s*(?:PC: )?(?:@ +0x|frame #\d{1,3}: |#?\d{1,3}:?\s|\[ ?\d{1,3}\] |/)[^\n]{0,300}?"
)
_FOAMS: Final = r"^\s*(?:\[\d{1,5}\] ?)?#\d{1,2}\s{1,3}Foam::sig(?P<signal>Segv|Fpe|Bus|Ill)::sig"
"""OpenFOAM's, which names its signal."""
_PANIC: Final = (
    r"^\s*\d{1,3}: +(?:0x[0-9a-f]{1,16} - )?(?:_?rust_begin_unwind|"
    r"(?:core::|std::)?panicking::(?:panic|begin_panic|default_h|rust_panic))"
)
_COMPILED: Final = re.compile(f"{_FRAME}{_HANDLER}|{_FOAMS}|{_PANIC}")
HANDLER_FRAMES: Final = Family(
    source="a signal handler",
    phrases=(
        *(
            Phrase(
                ClueKind.SIGNAL,
                needle,
                _FRAME + _HANDLER,
                example,
                detail="a signal handler's stack, without its signal",
            )
            for needle, example in _EXAMPLES
        ),
        *(
            Phrase(ClueKind.SIGNAL, needle, _FOAMS, f"[0] #1  {needle}sigHandler(int) at ??:?")
            for needle in ("Foam::sigSegv::", "Foam::sigFpe::")
        ),
    ),
)
PANIC_FRAMES: Final = Family(
    source="a language runtime",
    phrases=tuple(
        Phrase(ClueKind.ABORT, needle, _PANIC, example, detail="a panic, without its message")
        for needle, example in (
            ("rust_begin_unwind", "   5: rust_begin_unwind"),
            ("panicking::panic", "   6:     0x5581c0de1234 - core::panicking::panic_fmt::h1f2e"),
            ("panicking::begin_panic", "   4: std::panicking::begin_panic_handler"),
            ("panicking::default_h", "   2:     0x5581c0de1234 - std::panicking::default_hook"),
        )
    ),
)


def is_handler_frame(text: str) -> bool:
    """Is it a frame of a signal's handler, or of a panic's?"""
    return _COMPILED.match(text, 0, 400) is not None
