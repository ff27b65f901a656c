"""By which functions a program gives up, in whatever library: known by their form alone.

A fatal logger ends the program in its destructor, an error begins in its constructor, and what is
called to fail says so in its name. None of them is where a program died: their caller is.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.model.function_name import plain_name

_MAX_NAME: Final = 200
_OF_CLASS: Final = re.compile(
    r"(?:^|[^~\w])(?P<of>\w{1,80})(?:<[^<>]{0,80}>)?::(?P<name>~?\w{1,80})$"
)
_ERRORS: Final = re.compile(r"\w{0,80}(?:Exception|Error|EnforceNotMet)")
_FATAL_LOGGERS: Final = re.compile(
    r"(?i:\w{0,60}(?:fatal|logmessage|log(?:entry|finisher)|notreached|check_?(?:fail|error|op)|assert)\w{0,40})|"
    r"\w{0,60}Log"
)
"""Objects that write a message when they are destroyed, and then may end the program."""
_FAILED_CHECKS: Final = re.compile(
    r"(?i)\w{0,20}(?:assert(?:ion)?|check|verify|invariant)_?(?:verify_?)?failed\w{0,20}"
)
"""A program's own function for what did not hold."""
_SCOPES: Final = re.compile(r"::|\.")
_LOGS_OF_ENDS: Final = re.compile(
    r"(?i)\w{0,30}(?:log(?:message)?fatal|fatallog(?:message)?)\w{0,20}"
)
_RUSTS: Final = re.compile(
    r"core::(?:panicking|(?:option|result)::(?:unwrap|expect)_failed)|rust_begin_unwind|"
    r"std::panicking::(?:rust_panic|begin_panic|default_hook)"
)
"""Below a hook of the program's own, which a panic calls."""
_V8S: Final = re.compile(
    r"v8::(?:Utils::Report(?:OOM|Api)Failure|internal::(?:V8|Heap)::FatalProcessOutOfMemory)"
)
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ENDINGS: Final = frozenset(
    {
        "abort", "aborted", "crash", "croak", "die", "fail", "failed", "fatal", "fatalf",
        "fatalln", "noreturn", "panic", "panicf", "terminate", "unreachable",
    }
)  # fmt: skip
"""What a function does that ends a program, and calls nothing but what does."""
_THROWS: Final = frozenset({"throw", "raise", "rethrow"})
_TELLS: Final = frozenset({"check", "handle", "issue", "log", "on", "report", "signal"})
_OF_ERRORS: Final = ("assert", "asserted", "assertion", "error", "errors", "exception")
"""What such a function tells: how its name's last word ends, `PetscError`."""
_OF_FAILURES: Final = frozenset({*_OF_ERRORS, "bug", "failure", "oom", "overflow", "violation"})
_BESIDE: Final = frozenset(
    {
        "and", "at", "callback", "cb", "check", "code", "error", "ex", "exception", "exit", "f",
        "fast", "fmt", "function", "handler", "helper", "hook", "host", "if", "impl", "info",
        "internal", "location", "log", "message", "msg", "now", "on", "or", "printf", "process",
        "reason", "signal", "unwind", "v", "with",
    }
)  # fmt: skip
"""What may stand behind it, and adds nothing."""
_SIGNALS: Final = frozenset(
    {
        "buserror", "crash", "fault", "segfault", "segv", "sigabrt", "sigbus", "sigfpe", "sigill",
        "signal", "sigsegv",
    }
)  # fmt: skip
_HANDLES: Final = frozenset(
    {
        "action", "catch", "catcher", "handle", "handled", "handler", "handlers",
        "hook", "quit", "reporter", "reraise", "trap",
    }
)  # fmt: skip
_SHOWS: Final = frozenset({"capture", "dump", "generate", "log", "print", "show", "write"})
_STACKS: Final = frozenset({"backtrace", "callstack", "stack", "stackframe", "stacktrace", "trace"})
_AND: Final = frozenset(
    {
        "abort", "abrupt", "addr", "and", "common", "core", "cpp", "critical", "error", "exception",
        "fatal", "frame", "frames", "global", "info", "linux", "main", "my", "native", "on", "or",
        "os", "posix", "process", "report", "safe", "sig", "sys", "system", "terminate", "thread",
        "to", "unix", "win", "windows", "with",
    }
)  # fmt: skip
"""A longer name says more than that: `handle_signal_strength`."""
_WAITS: Final = re.compile(
    r"_{0,3}(?:GI_{1,3}|libc_|internal_)?(?:p?poll(?:_chk)?|epoll_p?wait\d?|p?select|read|(?:clock_)?nanosleep|"
    r"futex_(?:abstimed_)?wait\w{0,40}|do_futex_wait\w{0,20}|sem_(?:timed)?wait|"
    r"pthread_cond_(?:timed|clock)?wait\w{0,20}|pthread_(?:timed|clock)?join\w{0,10}|"
    r"lll_lock_wait\w{0,20}|syscall_cancel\w{0,10}|accept4?|recv(?:from|msg)?|kevent64?|"
    r"psynch_cvwait|semwait_signal|ulock_wait|workq_kernreturn|mach_msg\d?(?:_trap|_overwrite)?|"
    r"sig(?:timed)?wait(?:info)?|(?:Nt|Zw)(?:WaitFor\w{1,40}|DelayExecution))(?:@@?[\w.]{1,20})?"
)
"""The system's calls in which a thread waits."""


def ends_a_program(function: str) -> bool:
    """Is it the own code of a failure, wherever it stands: all above it is that too?

    `ns::LogMessageFatal::~LogMessageFatal`, `ns::ParseError::ParseError`.
    """
    if _RUSTS.match(function) is not None or _V8S.match(function) is not None:
        return True
    name = plain_name(function)[-_MAX_NAME:]
    *scopes, last = _SCOPES.split(name)
    if _FAILED_CHECKS.fullmatch(last) or any(map(_LOGS_OF_ENDS.fullmatch, scopes)):
        return True
    member = _OF_CLASS.search(name)
    if member is None:
        return False
    of, name = member["of"], member["name"]
    if name == of:
        return _ERRORS.fullmatch(of) is not None
    return name == f"~{of}" and _FATAL_LOGGERS.fullmatch(of) is not None


def is_called_to_fail(function: str) -> bool:
    """Does a function's name say that it fails, so that right above abort() it is no place?

    `ns::report_fatal_error`, `throwOutOfRange`, `rb_raise`, `log.Fatalf`. What it fails at makes it
    a function of its own: `abort_transaction`, `error_count`.
    """
    name = _SCOPES.split(plain_name(function)[-_MAX_NAME:])[-1]
    words = [word.lower() for word in _WORDS.findall(name)]
    while len(words) > 1 and words[-1] in _BESIDE - {"error", "exception"}:
        words.pop()
    if not words:
        return False
    last = words[-1]
    if last.endswith(_OF_ERRORS) or last in _OF_FAILURES | _ENDINGS | _THROWS:
        return True
    if words[0] in _THROWS or words[-3:] == ["out", "of", "memory"]:
        return True
    if words[0] in _TELLS:
        return not (_ENDINGS | _OF_FAILURES).isdisjoint(words[1:])
    return last in _BESIDE and words[-2:-1] != [] and words[-2] in _ENDINGS


def handles_a_signal(function: str) -> bool:
    """Is it called as what handles a signal, or shows a stack: alone or by its class?

    `sigabrt_handler`, `FaultManager::HandleFault`, `print_trace`; no `signal_emit`.
    """
    *scopes, name = _SCOPES.split(plain_name(function)[-_MAX_NAME:])
    last = {word.lower() for word in _WORDS.findall(name)}
    if last <= _SHOWS | _STACKS | _AND:
        return not (_SHOWS.isdisjoint(last) or _STACKS.isdisjoint(last))
    words = last | {word.lower() for scope in scopes[-1:] for word in _WORDS.findall(scope)}
    is_all = last <= _SIGNALS | _HANDLES | _AND
    return is_all and not (_SIGNALS.isdisjoint(words) or _HANDLES.isdisjoint(words))


def is_wait(function: str) -> bool:
    """Is it a call of the system's in which a thread only waits?"""
    return _WAITS.fullmatch(plain_name(function)) is not None
