"""A title or sentence tells of a crash where somebody reports it, and not where he mends it."""

import re

import pytest

from vllm_forensics.evidence.log.people.crash_names import (
    CRASH,
    DEATH,
    HANG,
    HEAP,
    is_verb,
    signal_of,
)
from vllm_forensics.evidence.log.people.reports import Form, is_reported
from vllm_forensics.evidence.log.people.sentence_names import process_named, speaker_of
from vllm_forensics.evidence.log.people.sentence_places import place_named
from vllm_forensics.evidence.log.people.works import is_labelled_a_wish, is_of_work


def crash_in(text: str) -> re.Match[str]:
    """The crash that a text names."""
    found = next(filter(None, (name.search(text) for name in (DEATH, HEAP, HANG, CRASH))), None)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "title",
    [
        "Illegal instruction",
        "Bus error (core dump)",
        "take() segfaults on an empty pool",
        "Segfault when handling a second request",
        "Freeing twice causes a segmentation fault",
        "if the pool is empty we get a segfault",
        "supervisor killed my worker",
        "OOM killer killed our server",
        "The pool suddenly closes",
        "Pool force closes itself",
        "the pool gets stucks",
        "Why does my script segfault?",
        "serve crashes after the upgrade",
        "Update to 2.0 crashes the server",
        "Test suite segfaults on 3.13",
        "Random sigsegvs",
        "double free error in the pool",
        "Double free corruption at exit",
        "[Bug]: engine dies when loading",
        "Trainer stuck at 0% on two nodes",
        "Crash daemon 2.1",
        "pool-resolved crash",
        "[BUG_UI] Crash pool on loading",
        "Lots of core dumps when a tutorial runs",
        "Segfault / crash on exit",
        "Stack smashing detected when printing",
        "Jobs often get lost because a worker dies",
        "Segfault avec deux flux",
        "Segmentation fault importing the pool",
        "The pool will crash if it is empty",
        "Killed while loading the pool",
        "Memory grows -> serve is killed",
        "Pool seems to crash on a second GPU",
        "serve hangs when the pool is full",
        "Process 27753 exited on signal 11",
        "serve die after some time",
        "serve.exe will instantly exit without a word",
        "The pool exits silently after a while",
        "serve stopped responding today",
        "The pool stops running after a while",
        "App stürzt beim Start sofort ab",
        "El pool se cierra solo al abrir un archivo",
        "Le pool plante au démarrage",
        "O pool fecha sozinho",
        "Пул вылетает при запуске",
        "运行久了会自动掉进程",
        "起動するとアプリが落ちる",
        "실행하면 강제 종료",
        "Zugriffsverletzungen",
        "The app fails at startup with stackoverflow",
        "Instant stack overflow on launch",
        "About a crash in poolview, please help",
        "Absturz beim Laden",
        "Debug view crashes the editor",
        "It crash down the pool",
        "Packaged pool exit without any error report",
        "[TEST] The pool test sometimes crashes",
        'installed pool 4.0.0 and "Segmentation fault: 11" error',
        "\u8fd0\u884c\u65f6\u51fa\u73b0Illegal instruction\u9519\u8bef",
        "\u670d\u52a1\u610f\u5916\u5d29\u6e83",
        "The pool randomly terminates",
        "Poolview closes the program randomly",
        "The pool keeps closing on every start",
        "Container always stops",
        "The server keeps restarting every hour",
        "Solver wheel crashes on this CPU",
        "Tracker crash on launch",
        "R encounterd a fatal error. The session was terminated.",
        "Crash camera apps after the video starts",
    ],
)
def test_a_title_that_reports(title: str) -> None:
    assert not is_of_work(title)
    assert is_reported(crash_in(title), Form.TITLE)


@pytest.mark.parametrize(
    "title",
    [
        "Fix segfault in the pool",
        "fix(pool): segfault on an empty list",
        "[Bugfix] Crash of the worker",
        "Prevent segmentation fault when take() is called twice",
        "Handle bus errors correctly",
        "Fix bug where the server crashes",
        "Add auto-restart on crash",
        "[Feature Request] restart after a crash",
        "How to debug a segmentation fault",
        "Print a stack on segfault",
        "stack trace on segfaults",
        "SIGSEGV handler",
        "Illegal instruction monitoring",
        "Worker crash auto-restart",
        "heap corruption spotter",
        "CVE-2026-10001: memory corruption in the pool",
        "Scenario 1: the server crashes",
        "crash命令",
        "Segfault colour scheme",
        "Enhance the SIGBUS log messages",
        "Debug a pool that crashes",
        "Patch the pool when it crashes",
        "segmentation fault n. an error of access",
        "If the assertion fails, the pool will crash",
        "Potential segfault in the parser",
        "No segfault any more",
        "Let users enable core dumps",
        "Support core dumps of the engine",
        "The pool should handle SIGSEGV",
        "own message when the app crashes?",
        "When the host crashes",
        "Code that crashes",
        "Coredump on segfault",
        "Recover crashed workers",
        "Handler for crashes",
        "Core dumps for crashes",
        "Whats the best way to send a core dump?",
        "Pool does not restart after the server hangs",
        "\u5982\u4f55\u89e3\u51b3Segmentation fault",
        "\u4f60\u542f\u52a8\u65f6\u4f1a\u51fa\u73b0Segmentation fault",
        "Dropdown randomly closes",
        "Please add an option to kill a pool that hangs",
        "Ability to skip steps that hang",
    ],
)
def test_a_title_of_a_change_a_wish_a_lesson_or_a_doubt(title: str) -> None:
    assert is_of_work(title) or not is_reported(crash_in(title), Form.TITLE)


@pytest.mark.parametrize(
    "sentence",
    [
        "Illegal instruction, what does that mean?",
        "sometimes the game just randomly sigsegvs",
        "It just crashed on me twice.",
        "- It closes, with a bus error.",
        "While loading it appears to just crash the pool.",
        "But in server mode, it will crash even with 16",
        "The app keeps closing or crashing on my phone",
        "she got the following error after the second import of it: `illegal hardware instruction`",
        "it turns out to be a segmentation fault on their side",
        "segfault with -O2, none without",
        "The module loads and then I get a bus error",
        "which results in a segmentation fault.",
        "On this system only, the pool seems to crash when loading.",
        "All was well until we noticed that when a worker segfaults, the pool waits.",
        "\u63d0\u793aIllegal instruction\uff0c\u8bf7\u5e2e\u5fd9",
        "The server CRASH exactly before it is ready",
    ],
)
def test_a_sentence_that_reports(sentence: str) -> None:
    assert is_reported(crash_in(sentence), Form.MESSAGE)


@pytest.mark.parametrize(
    "sentence",
    [
        "Until now the second call would cause a segfault.",
        "fixes a segfault when the pool is closed",
        "it helps with debugging segfaults",
        "A segmentation fault is an error of access.",
        "Should we catch SIGSEGV and print a stack?",
        "In case of segfault a stack is printed",
        "A crash can be triggered by anything.",
        "Any pod that needs more is killed.",
        "SIGSEGV would be sent to the worker",
        "The window freezes and must be killed.",
        "Ensure that the executor gets killed first.",
        "The status of a process killed with SIGKILL",
        "Die Folgen reichen bis zum Absturz des Programms",
        "We should look for inputs that may cause a crash",
        "It allows others to cause a crash.",
        "Crash 20260115 is without a page",
        "The tests verify that none crashes",
        "Pool crashes often occur due to bugs.",
        "Causes of Pool Crashes",
        "No client survives its own end, even in crash scenarios",
        "Closes #12, a crash",
        "We looked into things that can make software crash",
        "Allow users to opt in to crash and error collection",
        'I get the error "crash: read error" from the tool',
        "SIGSEGV",
        "There is a checkbox on the app crashed dialog.",
        "So a crashed member restarts from where it began.",
        "Double free is a defect that occurs when a program frees twice. Below, we look at it.",
        "A double free is a kind of memory corruption",
        "It is a memory corruption issue that occurs when a program frees twice.",
        "There are no messages in your logs that suggest the server crashed.",
    ],
)
def test_a_sentence_that_only_speaks_of_it(sentence: str) -> None:
    assert not is_reported(crash_in(sentence), Form.MESSAGE)


@pytest.mark.parametrize(
    ("words", "signal"),
    [
        ("segmentarion fault(core dumped)", "SIGSEGV"),
        ("Segmentation falut", "SIGSEGV"),
        ("seqfault", "SIGSEGV"),
        ("exit code 139", "SIGSEGV"),
        ("error 139 exit code", "SIGSEGV"),
        ("exit code -6", "SIGABRT"),
        ("bus-error", "SIGBUS"),
        ("Speicherzugriffsfehler beim Start", "SIGSEGV"),
        ("Ungültiger Maschinenbefehl", "SIGILL"),
        ("Zugriffsverletzung beim Lesen", "SIGSEGV"),
        ("Aborted ( core dumped )", "SIGABRT"),
        ("Abort Trap 6 when opening a file", "SIGABRT"),
        ("the server was killed", "SIGKILL"),
        ("Unexpected OOM kills of a pod", "SIGKILL"),
        ("Pods getting OOM'd with the default limit", "SIGKILL"),
    ],
)
def test_a_signal_in_somebodys_words(words: str, signal: str) -> None:
    assert signal_of(crash_in(words)) == signal


@pytest.mark.parametrize(
    ("title", "place"),
    [
        ("python segfault in libpool.so", "libpool.so"),
        ("Segfault in ns::Pool::take", "ns::Pool::take"),
        ("segfault when calling take(3)", "take"),
        ("`pool.take()` segfaults", "pool.take"),
        ("Segmentation fault in `pool.nn.take`", "pool.nn.take"),
        ("segfault at pool.cpp:125", None),
        ("Crash in version 2.0.1", None),
        ("Segfault when __take__ is called", "__take__"),
        ("segfault from calling `_take` of a pool", "_take"),
        ("crash in take function in pool.c", "take"),
        ("Null pointer crash in Pool_Take", "Pool_Take"),
        ("Segfault on startup", None),
        ("Crash in x86_64 machine", None),
    ],
)
def test_the_place_that_a_title_names(title: str, place: str | None) -> None:
    match = crash_in(title)
    call = place_named(title, match.start(), match.end())

    assert (call and (call.module or call.function)) == place


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("vLLM crashes with SIGSEGV", "vLLM"),
        ("python crash when importing pool", "python"),
        ('serve fails with "core dumped"', "serve"),
        ("The program ./build/serve segfaults", "serve"),
        ("Segmentation fault in EngineCore_DP0 when serving", "EngineCore_DP0"),
        ("Random crash", None),
        ("Segfault when starting pool 2.1", "pool"),
        ("It crashes", None),
        ("supervisor killed my worker", "worker"),
        ("Calling take(3) crashes", None),
        ("Occasional crashes while serving", None),
        ("Last update crashes on open", None),
        ("poold keeps crashing", "poold"),
        ("When it is resized, poolview crashes", "poolview"),
        ("the pool crashes", None),
        ("take() with POOL crashes", None),
        ("Pool 2.1 crash on start", "Pool"),
        ("The pool server crashes", "server"),
        ("Starting Pool results in a segfault", "Pool"),
        ("found 3 crashes", None),
        ("Export: crashes on start", None),
        ("`poold` Pod gets killed", "poold"),
        ("pool-svc pods are being OOM killed", "pool-svc"),
        ("Docker container crashes", None),
        ("2.0-rc3/main segfaults", None),
        ("thread 'main' crashes", None),
        ("Pool Mapper crashes when closed", "Pool Mapper"),
        ("Pool Mapper Crashes When Closed", None),
        ("Random Mapper crashes", None),
        ("Poold childs die after some time", None),
        ("Pool crashed with a fatal error: fatal error: Segmentation fault", "Pool"),
        ("This plugin crashes the server", "server"),
        ("pool.take() crashes Python", "Python"),
        ("Segfault in the pool scheduler", "scheduler"),
        ("Raylet causes segfault if a pool is empty", "Raylet"),
        ("Poolview causes segfault if it is empty", None),
        ("Pool Assistant 2.1 failed to start on armv6 (Illegal instruction)", "Pool Assistant"),
        ("poold won't start: segfault", "poold"),
        ("Illegal instruction trying to start poolview", "poolview"),
        ("Poolview crash when a file is opened", "Poolview"),
        ("Sudden Poolview crash", "Poolview"),
        ("Startup crash on two machines", None),
        ("Poolview will crash if it is empty", "Poolview"),
        ("Each results in Poolview crashing", "Poolview"),
        ("An empty list causes poolview to crash", "poolview"),
        ("Pool host terminated unexpectedly", "Pool host"),
        ("Segfault when running query against another table", None),
        ("[macOS] Segmentation fault with a new pool", None),
        ("Swoop causes crash in console Poolview", "Poolview"),
        ("Swoop causes crash in Release mode", None),
        ("PoolOperator pod gets OOMkilled", "PoolOperator"),
        ("pool-" * 12 + "0 gets OOM killed", "pool-" * 12 + "0"),
        ("it stops with poolview error code 139", "poolview"),
        ("it returns exit code 139", None),
        ("Poolview abort.", "Poolview"),
        ("Poolview's window freezes", "Poolview"),
        ("Poolview continued to crash on startup", "Poolview"),
        ("Poolview 3.2.0-alpha crashes on export", "Poolview"),
        ("Opening it will crash the editor", "editor"),
        ("That makes Poolview crash the same", "Poolview"),
        ("Qwen3-VL-30B-A3B crashes on two GPUs", None),
        ("Llama-4 segfaults", None),
        ("Coredump occurs on poolmd.", "poolmd"),
        ("Crash on FreeBSD", None),
        ("poolsession process group crashes with a new script", "poolsession"),
        ("I saw pool-internal jobs get killed via SIGKILL", "pool-internal"),
        ("Nightly jobs crash", None),
        ("I install it and start the poolview, and then it crashes", "poolview"),
        ("Whenever I open this file, it crashes", None),
        ("Illegal instruction when running without a GPU", None),
        ("Segfault on ssd", None),
        ("Segfault when running any poolview command", "poolview"),
        ("Poolview / Takelist segfaults on a new file", "Poolview"),
    ],
)
def test_the_process_that_a_title_names(title: str, name: str | None) -> None:
    match = crash_in(title)

    assert process_named(match, is_verb=is_verb(match)) == name


def test_who_is_named_before_what_a_title_quotes_said_it() -> None:
    assert speaker_of("pool-resolved: `Program terminated with signal SIGABRT`") == "pool-resolved"
    assert speaker_of("Export: Program terminated with signal SIGABRT") is None


def test_a_page_that_is_labelled_as_a_wish() -> None:
    assert is_labelled_a_wish("labels: enhancement, web")
    assert not is_labelled_a_wish("labels: enhancement, bug")
    assert not is_labelled_a_wish("labels: triage")
