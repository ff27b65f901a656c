"""macOS: crash reports as text and as JSON, its allocator's, Metal's and LLDB's words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.evidence.log.stacks.apple_json import TRIGGERED
from vllm_forensics.model.incident import Clue, ClueKind

_LLDBS_THREAD: Final = (
    r"(?:thread #1[:,] [^']{0,300}name = '(?P<name>[\w.+-]{1,40})', (?:queue = '[^']{1,80}', )?)?"
)
"""The first thread bears its program's name."""
_TENTH: Final = lazily(r"(?i)\bbus error\W{1,3}10\b|\bsignal\W{1,2}10\b|\bKERN_[A-Z]{4}")
_HERE: Final = lazily(
    r"(?i)\bmac ?os\b|\bos ?x\b|\bdarwin|\.dylib\b|/Users/\w|/opt/homebrew/|\bapple (?:m\d|silicon)"
)
_ELSEWHERE: Final = lazily(r"(?i)\blinux|ubuntu|debian|centos|/dev/shm|docker|shared memory|shm")

APPLE: Final = Family(
    source="macOS",
    phrases=(
        Phrase(
            ClueKind.ENVIRONMENT,
            "Code Signature Invalid",
            r"\b(?:EXC_[A-Z_]{3,20} \(|SIGKILL \(){1,2}(?P<detail>Code Signature Invalid)\)",
            "Exception Type:        EXC_CRASH (SIGKILL (Code Signature Invalid))",
            signal="SIGKILL",
            in_prose=True,
        ),
        Phrase(
            ClueKind.SIGNAL,
            "EXC_",
            r"\bEXC_\w{1,60} \((?P<signal>SIG\w{1,60})\)",
            "Exception Type:        EXC_BAD_ACCESS (SIGSEGV)",
            in_prose=True,
        ),
        Phrase(
            ClueKind.SIGNAL,
            '"signal":"SIG',
            r"\"type\" ?: ?\"EXC_\w{1,60}\".{0,60}?\"signal\" ?: ?\"(?P<signal>SIG\w{1,20})\""
            r"(?:,\"subtype\":\"(?P<detail>[^\"]{1,120})\")?",
            '"exception" : {"codes":"0x1, 0x48","rawCodes":[1,72],"type":"EXC_BAD_ACCESS",'
            '"signal":"SIGSEGV","subtype":"KERN_INVALID_ADDRESS at 0x48"},',
        ),
        Phrase(
            ClueKind.SIGNAL,
            "stop reason = EXC_",
            rf"{_LLDBS_THREAD}stop reason = EXC_(?:BAD_ACCESS|BAD_INSTRUCTION) "
            r"\((?P<detail>[^()]{1,120}?)\s*(?:\)|$)",
            "* thread #1, queue = 'main', stop reason = EXC_BAD_ACCESS (code=1, address=0x48)",
            signal="SIGSEGV",
        ),
        *(
            Phrase(  # as people tell it
                ClueKind.ABORT,
                needle,
                r"(?i)\b(?:crash|quit)\w{0,5}\b.{0,60}?\b(?-i:(?P<detail>"
                rf"{needle}))\b",
                f"It crashes on startup with a {needle}",
                signal="SIGABRT",
                in_prose=True,
            )
            for needle in (
                "NSInvalidArgumentException",
                "NSInternalInconsistencyException",
                "NSRangeException",
                "NSGenericException",
            )
        ),
        Phrase(  # Xcode's
            ClueKind.SIGNAL,
            ": EXC_BAD_ACCESS (",
            r"\bThread \d{1,5}: EXC_BAD_ACCESS \((?P<detail>code=\w{1,20}, [^()]{1,80})\)",
            "Thread 1: EXC_BAD_ACCESS (code=1, address=0x0)",
            signal="SIGSEGV",
            in_prose=True,
        ),
        Phrase(  # gdb's, there
            ClueKind.SIGNAL,
            "received signal EXC_",
            r"\breceived signal EXC_(?:BAD_ACCESS|BAD_INSTRUCTION)\b",
            "Program received signal EXC_BAD_ACCESS, Could not access memory.",
            signal="SIGSEGV",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "stop reason = ",
            rf"{_LLDBS_THREAD}stop reason = (?:signal )?"
            r"(?P<signal>SIG(?!STOP|INT|CONT|TSTP)\w{1,60})",
            "* thread #1: tid = 4242, name = 'pool', stop reason = signal SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "stop reason = hit program assert",
            rf"{_LLDBS_THREAD}stop reason = (?P<detail>hit program assert)",
            "* thread #1, queue = 'main', stop reason = hit program assert",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.SIGNAL,
            " Crashed:",
            r"^\W{0,4}Thread \d{1,4} Crashed:",
            "Thread 0 Crashed:: Dispatch queue: com.apple.main-thread",
        ),
        Phrase(
            ClueKind.SIGNAL,
            " crashed with ",
            r"^\W{0,4}Thread \d{1,4} crashed with (?:ARM|X86|PPC|Unknown)\b.{0,20} Thread State",
            "Thread 4 crashed with ARM Thread State (64-bit):",
        ),
        Phrase(
            ClueKind.SIGNAL,
            TRIGGERED,
            r"\{\"triggered\":true,",
            '"threads" : [{"triggered":true,"id":42,"frames":[{"symbol":"take","imageIndex":1}]}],',
            detail="the thread that died, without its signal",
        ),
        Phrase(
            ClueKind.HEAP,
            "malloc: *** error for object",
            r"(?:(?P<name>[\w.+-]{1,60})\((?P<pid>\d{1,9})(?:,0x[0-9a-f]{1,16})?\) )?malloc: "
            r"(?P<detail>\*\*\* error for object 0x[0-9a-f]{1,16}: .{1,120})",
            "python(4242,0x1f2a3b4c0) malloc: *** error for object 0x600003c04080: pointer being "
            "freed was not allocated",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.HEAP,
            ": Internal invariant broken",
            r"(?:(?P<name>[\w.+-]{1,60})\((?P<pid>\d{1,9})(?:,0x[0-9a-f]{1,16})?\) )?malloc: "
            r"(?P<detail>\w{1,60}: Internal invariant broken.{0,120})",
            "python(4242,0x1f2a3b4c0) malloc: tiny_free_list_remove_ptr: Internal invariant broken "
            "(next ptr of prev): ptr=0x7fb2a495fa10, prev_next=0x7fc2a495fa10",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.HEAP,
            " malloc: Heap corruption detected, ",
            r"(?:(?P<name>[\w.+-]{1,60})\((?P<pid>\d{1,9})(?:,0x[0-9a-f]{1,16})?\) )?malloc: "
            r"(?P<detail>Heap corruption detected, .{1,120})",
            "serve(4242,0x1f2a3b4c0) malloc: Heap corruption detected, free list is damaged at "
            "0x600003c04080",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.HEAP,
            " malloc: Incorrect checksum for freed object",
            r"(?:(?P<name>[\w.+-]{1,60})\((?P<pid>\d{1,9})(?:,0x[0-9a-f]{1,16})?\) )?malloc: "
            r"(?P<detail>Incorrect checksum for freed object 0x[0-9a-f]{1,16}.{1,80})",
            "serve(4242,0x1f2a3b4c0) malloc: Incorrect checksum for freed object 0x102b153d8: "
            "probably modified after being freed.",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "*** Terminating app due to ",
            r"(?:(?P<name>[\w.+-]{1,60})\[(?P<pid>\d{1,9}):\w{1,16}\] )?"
            r"\*\*\* (?P<detail>Terminating app due to uncaught exception '.{1,200})",
            "*** Terminating app due to uncaught exception 'NSRangeException', reason: 'beyond'",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "in progress in another thread when fork() was called",
            r"(?:objc\[(?P<pid>\d{1,9})\]: )?"
            r"(?P<detail>[+-]\[\S{1,80} initialize\] may have been in progress in another thread "
            r"when fork\(\) was called)\. We cannot safely call",
            "objc[4242]: +[Pool initialize] may have been in progress in another thread when "
            "fork() was called. We cannot safely call it or ignore it in the fork() child process. "
            "Crashing instead.",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            " failed assertion ",
            r"(?P<detail>(?::|\b[\w+-]{1,80}\.(?:c|cc|cpp|m|mm|h):\d{1,6}:?) failed assertion "
            r"[`'].{1,200})",
            "/src/MPSNDArray.mm:794: failed assertion `[MPSNDArray init] Error: too large'",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "Assertion failed: ",
            r"(?P<detail>Assertion failed: \(.{1,200}\)), function (?P<function>[^,]{1,200}), file "
            r".{1,200}",
            "Assertion failed: (id < size), function get, file cache.cpp, line 88.",
            signal="SIGABRT",
        ),
        Phrase(  # Erlang's
            ClueKind.ABORT,
            "() Assertion failed: ",
            r"(?P<detail>[\w./-]{1,200}:\d{1,6}:(?P<function>\w{1,100})\(\) "
            r"Assertion failed: .{1,200})",
            "beam/pool.c:88:take_block() Assertion failed: block != ((void *)0)",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "Assertion failed: ",
            # musl names file, function and line in parentheses, Windows' runtime a file
            r"^(?P<detail>Assertion failed: .{1,200}?)(?: \([^():]{1,200}: (?P<function>"
            r"[^():]{1,200}): \d{1,6}\)|, file .{1,200}, line \d{1,6})$",
            "Assertion failed: id < size (cache.c: get: 88)",
            signal="SIGABRT",
        ),
    ),
)


def with_apples_faults(clues: Sequence[Clue], lines: Callable[[], Iterable[str]]) -> Sequence[Clue]:
    """Bus errors that happened on macOS, where they are a fault of the program's, are marked so.

    There the signal has the number 10; else the text's beginning says where it was.
    """
    if all(clue.signal != "SIGBUS" for clue in clues):
        return clues
    text = "\n".join(lines())
    is_here = _HERE.search(text) is not None and _ELSEWHERE.search(text) is None
    return [
        replace(clue, is_apples=True)
        if clue.signal == "SIGBUS"
        and (is_here or clue.source == APPLE.source or _TENTH.search(clue.text) is not None)
        else clue
        for clue in clues
    ]
