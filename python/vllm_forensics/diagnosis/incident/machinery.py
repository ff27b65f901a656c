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
    r"(?i:\w{0,60}(?:fatal|logmessage|log(?:entry|finisher)|check_?(?:fail|error|op)|assert)\w{0,40})|"
    r"\w{0,60}Log"
)
"""Objects that write a message when they are destroyed, and then may end the program."""
_FAILED_CHECKS: Final = re.compile(
    r"(?i)\w{0,20}(?:assert(?:ion)?|check|verify|invariant)_?(?:verify_?)?failed\w{0,20}"
)
"""A program's own function for what did not hold."""
_RUSTS: Final = re.compile(
    r"core::(?:panicking|(?:option|result)::(?:unwrap|expect)_failed)|rust_begin_unwind|"
    r"std::panicking::(?:rust_panic|begin_panic|default_hook)"
)
"""Below a hook of the program's own, which a panic calls."""
_V8S: Final = re.compile(
    r"v8::(?:Utils::Report(?:OOM|Api)Failure|internal::(?:V8|Heap)::FatalProcessOutOfMemory)"
)
_FAILS: Final = re.compile(
    r"(?i)_{0,3}(?:[a-z0-9]{1,20}_){0,3}(?:"
    r"fail(?:ed|ure|_?fast)?|die|croak|panic\w{0,20}|crash|abort\w{0,20}|terminate\w{0,20}|"
    r"(?:re)?throw\w{0,60}|raise\w{0,30}|unreachable\w{0,20}|error|"
    r"(?:report|handle|on|log)_?(?:fatal|error|bug|fail|panic|assert|oom|unhandled|alloc)\w{0,40}|"
    r"\w{0,40}fatal_?(?:error|exit|abort|log|message|msg|handler|callback)?|"
    r"(?:error|fatal|err)_?(?:exit|abort|die|fatal)\w{0,20}|"
    r"\w{0,40}(?:assert|check|verify|ensure|expect|require|invariant|contract|precondition)_?"
    r"(?:fail|fatal|error|violat)\w{0,40}|\w{0,40}out_?of_?memory\w{0,40})"
)
"""How functions are called that end a program, or that call what does."""

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
    if _FAILED_CHECKS.fullmatch(name.rsplit("::", 1)[-1]) is not None:
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

    `ns::report_fatal_error`, `throw_out_of_range`, `rb_raise`.
    """
    name = plain_name(function)[-_MAX_NAME:].rsplit("::", 1)[-1]
    return _FAILS.fullmatch(name) is not None


def is_wait(function: str) -> bool:
    """Is it a call of the system's in which a thread only waits?"""
    return _WAITS.fullmatch(plain_name(function)) is not None
