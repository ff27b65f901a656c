"""What only whole logs have: colors, requests, repetitions, and next to nothing that matters."""

import pytest
from tests.py.support.incidents import incident_of, incidents_of

from vllm_forensics.evidence.log.book import BOOK
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.evidence.sanitizer.asked import without_requests
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass

RAYLET = (
    "\x1b[33m(raylet)\x1b[0m A worker died or was killed while executing a task by an unexpected "
    "system error. To troubleshoot the problem, check the logs for the dead worker. Worker PID: "
    "42 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a "
    "connection error code 2. End of file. There are some potential root causes. (1) The process "
    "is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called. "
    "(3) The worker is crashed unexpectedly due to SIGSEGV or other unexpected errors."
)
ACTOR = "\x1b[36m(PoolWorker pid=4{n})\x1b[0m "
STORE = (
    "[rank{n}]:[W1120 01:13:20.886560089 TCPStore.cpp:125] [c10d] recvValue failed on "
    "SocketImpl(fd=81): Connection reset by peer",
    "Exception raised from recvBytes at /pytorch/torch/Utils.hpp:675 (most recent call first):",
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x98 (0x7ff2443785e8 in "
    "/opt/torch/lib/libc10.so)",
    "frame #8: <unknown function> + 0x126850 (0x7ff2962a7850 in /usr/lib/libc.so.6)",
    "frame #4: c10d::TCPStore::check(std::string const&) + 0x2a9 (0x7fd4cd6ca2a9 in "
    "/opt/torch/lib/libtorch_cpu.so)",
    'Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down '
    "too early), with error: Connection reset by peer",
)
REPEATED = "\x1b[32m [repeated 5x across cluster]\x1b[0m"


@pytest.mark.parametrize("times", [1, 40])
def test_a_colored_log_of_rays_is_no_lesson_however_long(times: int) -> None:
    store = [ACTOR.format(n=7) + line.format(n=7) + REPEATED for line in STORE]

    death = incident_of(*[RAYLET, *store] * times).first_death

    assert (death.pid, death.cause.kind) == (42, CauseClass.UNKNOWN)
    assert (death.module, death.function) == (None, None)


def test_the_stack_of_an_exception_is_no_signals() -> None:
    frames = [ACTOR.format(n=7) + line for line in STORE[2:5]]

    assert all(
        one.first_death.cause.kind is not CauseClass.NATIVE_FAULT for one in incidents_of(*frames)
    )


ASKED = (
    "INFO 01-15 08:12:45 logger.py:37] Received request chat-0a1b: prompt: '<|user|>\\n{words}"
    "<|end|>', params: SamplingParams(n=1), prompt_token_ids: None, lora_request: None.",
    "[2026-01-15 08:12:45] Receive: obj=GenerateReqInput(rid='0a', text='<|user|>{words} and so on"
    " for a while', input_ids=None)",
    "DEBUG openai: {{'messages': [{{'role': 'user', 'content': 'Somebody wrote: {words} Why?'}}]}}",
    '{{"model": "m", "prompt": "please explain to me what this is: {words}"}}',
)
WORDS = (
    "Out of memory: Killed process 4242 (python3) total-vm:1kB, anon-rss:1kB",
    "Fatal Python error: Segmentation fault",
    "pool.py exited with exit code 139",
    "==42==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000010 at pc 0x1",
    "it isn\\'t mine: free(): invalid pointer",
)


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("line", ASKED)
def test_what_a_server_was_asked_is_nobodys_death(line: str, words: str) -> None:
    assert incidents_of(line.format(words=words), "INFO:     127.0.0.1 - 200 OK") == ()


def test_what_stands_around_a_request_is_heard() -> None:
    line = ASKED[0].format(words="hello there, tell me a story of some length, please")

    death = incident_of(line, "(EngineCore pid=42) free(): invalid pointer").first_death

    assert death.cause.kind is CauseClass.HEAP_CORRUPTION


@pytest.mark.parametrize(
    "line",
    [
        "prompt: 'no'",
        "the prompt said: free(): invalid pointer",
        "role: 'user', content: x",
    ],
)
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert without_requests(line.encode()) == line.encode()


def test_a_request_that_was_cut_ends_with_its_line() -> None:
    asked = "prompt: 'it says free(): invalid pointer and goes on and on and on"

    assert without_requests(asked.encode()) == b"prompt: '"


PLUGIN = "2026-01-15T08:12:45.024Z [DEBUG] plugin.terraform-provider-pool_v3.4.0.exe: "
PANIC = (
    "panic: runtime error: invalid memory address or nil pointer dereference",
    "[signal 0xc0000005 code=0x0 addr=0x0 pc=0x154b267]",
    "",
    "goroutine 87 [running]:",
    "example.com/pool/govcd.(*Pool).Take(0xc000510af0, {0x0, 0x0}, 0x1)",
    "\texample.com/pool/govcd/pool.go:88 +0x327",
    "created by example.com/rpc.(*Server).serve",
    "\texample.com/rpc/server.go:857 +0x294",
)


def test_a_plugin_that_panicked_has_its_name_and_its_place() -> None:
    death = incident_of(
        "2026-01-15T08:12:40.843Z [DEBUG] plugin: plugin process exited: path=pool pid=1112",
        *(PLUGIN + line for line in PANIC),
        '2026-01-15T08:12:45.045Z [DEBUG] plugin: plugin process exited: pid=11 error="exit '
        'status 2"',
    ).first_death

    assert death.name == "terraform-provider-pool_v3.4.0.exe"
    assert (death.cause.kind, death.function) == (
        CauseClass.NATIVE_FAULT,
        "example.com/pool/govcd.(*Pool).Take",
    )


@pytest.mark.parametrize("verdict", ["FAIL", "ERROR"])
def test_a_failed_test_is_no_proved_end(verdict: str) -> None:
    death = incident_of(
        "======================================================================",
        f"{verdict}: test_take (tests.test_pool.PoolTest.test_take)",
        "----------------------------------------------------------------------",
        "Traceback (most recent call last):",
        '  File "/opt/app/test_pool.py", line 22, in test_take',
        "    self.assertEqual(take(), 7)",
        "AssertionError: 6 != 7",
        "",
        "----------------------------------------------------------------------",
        "Ran 812 tests in 9.1s",
    ).first_death

    assert death.cause.certainty is Certainty.LIKELY


def test_no_word_that_is_searched_for_stands_in_every_line_of_a_test_run() -> None:
    lines = (
        b"test_take (tests.test_pool.PoolTest.test_take) ... ok",
        b"Loading weights ... 42 %",
        b'127.0.0.1 - "GET /health HTTP/1.1" 200 OK',
    )

    assert [needle for needle in BOOK.needles for line in lines if needle in line] == []


LOGGED = (
    "ERROR 01-15 08:12:45 [serving_chat.py:203] Error in preprocessing prompt inputs",
    "ERROR 01-15 08:12:45 [serving_chat.py:203] Traceback (most recent call last):",
    'ERROR 01-15 08:12:45 [serving_chat.py:203]   File "/opt/vllm/serving.py", line 6, in check',
    "ERROR 01-15 08:12:45 [serving_chat.py:203]     raise ValueError(",
    "ERROR 01-15 08:12:45 [serving_chat.py:203] ValueError: the context is 2048 tokens long.",
    'INFO:     127.0.0.1:40966 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request',
)
ANSWER = 'INFO:     127.0.0.1:33760 - "POST /v1/chat/completions HTTP/1.1" 200 OK'


@pytest.mark.parametrize("prefix", ["", "(APIServer pid=17) "])
def test_a_server_that_answers_the_next_request_survived(prefix: str) -> None:
    lines = [prefix + line for line in [*LOGGED, ANSWER, *LOGGED, ANSWER]]

    assert incidents_of(*lines) == ()


@pytest.mark.parametrize(
    "below",
    [
        (),
        ('INFO:     127.0.0.1:33760 - "POST /v1/chat/completions HTTP/1.1" 500 Internal',),
        ('INFO:     127.0.0.1:33760 - "GET /health HTTP/1.1" 200 OK',),
        ("INFO:     Started server process [4243]", ANSWER),
        ("EngineDeadError: EngineCore encountered an issue.", ANSWER),
    ],
)
def test_a_server_that_answers_nobody_again_may_have_ended(below: tuple[str, ...]) -> None:
    assert len(incidents_of(*LOGGED, *below)) == 1


def test_what_a_worker_raised_is_not_survived_by_the_server() -> None:
    lines = [f"(Worker_TP0 pid=31) {line}" for line in LOGGED[:5]]

    assert len(incidents_of(*lines, ANSWER)) == 1


KILLED = (
    "[{n}.000001] serve invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "[{n}.000006] Memory cgroup out of memory: Killed process {n} (serve) total-vm:812044kB, "
    "anon-rss:518420kB, file-rss:1240kB, shmem-rss:0kB",
)


@pytest.mark.parametrize(("count", "words"), [(20, " 19 more"), (120, "At least 63 more")])
def test_what_the_kernel_killed_later_is_counted_and_no_echo(count: int, words: str) -> None:
    incident = incident_of(
        *(line.format(n=4000 + number) for number in range(count) for line in KILLED)
    )

    assert f"{words} processes of that name died of SIGKILL" in incident.explanation
    assert incident.echoes == ()


def test_programs_of_different_runtimes_die_by_themselves_in_the_kernels_log() -> None:
    names = ("node", "java", "python3")

    found = incidents_of(
        *(
            f"[{n}.000000] {name}[{n}]: segfault at 8 ip 00007f1200000010 sp 00007ffc00000000 "
            f"error 4 in lib{name}.so[7f1200000000+1000]"
            for n, name in enumerate(names, 100)
        )
    )

    assert [incident.first_death.name for incident in found] == list(names)


NOISE = [f"step {number} of the build is done and the next one begins" for number in range(3_000)]
FAULT = (
    "Fatal Python error: Segmentation fault",
    "Current thread 0x00007f1be0000740 (most recent call first):",
    '  File "/opt/app/test_pool.py", line 22 in test_dies_on_purpose',
)
RAISED = (
    "Exception in thread Thread-1 (take):",
    "  ",
    "  Traceback (most recent call last):",
    '    File "/opt/app/pool.py", line 22, in take',
    "      raise ValueError(name)",
    "  ValueError: block 7 isn't free",
    "  ",
    "-- Docs: https://docs.pytest.org/",
)
BEGUN = "============ test session starts ============"


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (BEGUN, "============ 812 passed, 3 skipped in 9.12s ============"),
        ("[==========] Running 4 tests from 1 test suite.", "[  PASSED  ] 4 tests."),
        ("running 4 tests", "test result: ok. 4 passed; 0 failed; 0 ignored"),
    ],
)
def test_tests_that_passed_far_down_a_log_are_known(begin: str, end: str) -> None:
    assert incidents_of(*NOISE, begin, *FAULT, *NOISE, end, *NOISE) == ()
    assert len(incidents_of(*NOISE, begin, *FAULT, *NOISE)) == 1
    assert len(incidents_of(*NOISE, *FAULT, begin, *NOISE, end)) == 1


@pytest.mark.parametrize("noise", [[], NOISE])
def test_what_a_run_of_pytest_caught_ended_nobody(noise: list[str]) -> None:
    end = "========= 1 failed, 812 passed, 1 warning in 9.12s ========="

    assert incidents_of(*noise, BEGUN, *RAISED, end) == ()
    assert len(incidents_of(*noise, BEGUN, *FAULT, end)) == 1
    assert len(incidents_of(*noise, BEGUN, *RAISED)) == 1
    assert len(incidents_of(*noise, *RAISED, BEGUN, end)) == 1


def test_a_parents_word_right_below_names_who_raised() -> None:
    death = incident_of(
        "[2026-01-15 08:12:45,404: ERROR/SpawnPoolWorker-4] Pool process <Worker> error: x",
        "Traceback (most recent call last):",
        '  File "/opt/billiard/pool.py", line 406, in _ensure_messages_consumed',
        "    if self.on_ready_counter.value >= completed:",
        "PermissionError: [WinError 5] Access is denied",
        "[2026-01-15 08:12:45,414: ERROR/MainProcess] Process 'SpawnPoolWorker-4' pid:9920 exited "
        "with 'exitcode 1'",
    ).first_death

    assert (death.name, death.pid) == ("SpawnPoolWorker-4", 9920)
    assert death.cause.kind is CauseClass.PYTHON_EXCEPTION


@pytest.mark.parametrize("prefix", ["", "2026-01-15T08:12:45.1234567Z ", "[12:34:56] "])
def test_what_node_says_of_its_heap_is_no_level_behind_a_time(prefix: str) -> None:
    death = incident_of(
        *(
            prefix + line
            for line in (
                "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
                "Aborted (core dumped)",
                "##[error]Process completed with exit code 134.",
            )
        )
    ).first_death

    assert "heap out of memory" in death.cause.detail


TOMBSTONE = (
    "F libc    : Fatal signal 6 (SIGABRT), code -1 (SI_QUEUE) in tid 8444 (enableInternal), pid "
    "8335 (org.example.pool)",
    "F DEBUG   : *** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***",
    "F DEBUG   : pid: 8335, tid: 8444, name: enableInternal  >>> org.example.pool <<<",
    "F DEBUG   : signal 6 (SIGABRT), code -1 (SI_QUEUE), fault addr --------",
    "F DEBUG   : Abort message: 'JNI FatalError called: no blocks'",
    "F DEBUG   :     x0  0000000000000000  x1  00000000000020fc",
    "F DEBUG   : backtrace:",
    "F DEBUG   :       #00 pc 000000000005b254  /apex/lib64/bionic/libc.so (abort+156)",
    "F DEBUG   :       #01 pc 00000000008377c8  /apex/lib64/libart.so "
    "(art::JNI<false>::FatalError(_JNIEnv*, char const*)+164)",
    "F DEBUG   :       #02 pc 000000000009ccbc  /system/boot.oat (art_jni_trampoline+124)",
    "F DEBUG   :       #03 pc 000000000071ec90  /apex/lib64/libart.so (nterp_helper+7712)",
    "F DEBUG   :       #04 pc 000000000010788e  /system/Pool.apk (org.example.pool.Take.run+178)",
)


def test_a_tombstone_says_why_it_gave_up() -> None:
    death = incident_of(
        *(f"08-19 20:38:59.911 14245 14245 {line}" for line in TOMBSTONE)
    ).first_death

    assert (death.name, death.pid) == ("org.example.pool", 8335)
    assert death.cause.detail == "JNI FatalError called: no blocks"
    assert (death.function, death.cause.certainty) == (
        "org.example.pool.Take.run",
        Certainty.PROVED,
    )


def _sample(who: str, *end: str) -> list[str]:
    lines = (
        "[prompt] user",
        "My program prints this, what is wrong?",
        "Traceback (most recent call last):",
        '  File "main.py", line 3, in <module>',
        "IndexError: list index out of range",
        "[response] In C it would end with:",
        "Segmentation fault (core dumped)",
        *end,
    )
    return [who + line for line in lines]


@pytest.mark.parametrize("who", ["(TaskRunner pid=4242) ", ""])
def test_what_a_trainer_prints_of_its_samples_is_no_death(who: str) -> None:
    end = ("[ground_truth] 42", "[score] 1.0", "step:1 - timing_s/step:30.0")

    assert not incidents_of(*_sample(who, *end) * 3)


def test_who_dies_while_a_trainer_prints_a_sample_is_heard() -> None:
    sample = _sample("(TaskRunner pid=4242) ", "[score] 1.0")
    died = "(PoolWorker pid=77) !!!!!!! Segfault encountered !!!!!!!"

    death = incident_of(*sample, *sample[:-1], died, sample[-1]).first_death

    assert death is not None
    assert death.signal == "SIGSEGV"
    assert death.pid == 77


def test_a_sample_that_has_no_end_hides_nothing() -> None:
    assert incidents_of(*_sample("(TaskRunner pid=4242) "))


ENDED = "systemd[1]: serve.service: Main process exited, code=killed, status=15/TERM"
STOPPED = "systemd[1]: Stopped serve.service - Pool server."


def test_a_service_that_systemd_stopped_as_asked_is_no_death() -> None:
    assert not incidents_of(*[f"Mar  3 08:00:01 web {line}" for line in (ENDED, STOPPED)] * 3)


@pytest.mark.parametrize(
    "lines",
    [
        (ENDED,),
        (ENDED, "systemd[1]: serve.service: Scheduled restart job, restart counter is 1.", STOPPED),
        (ENDED.replace("15/TERM", "11/SEGV"), STOPPED),
    ],
)
def test_a_service_that_nobody_stopped_died(lines: tuple[str, ...]) -> None:
    assert incidents_of(*[f"Mar  3 08:00:01 web {line}" for line in lines])


def test_what_pm2_reloads_is_no_death() -> None:
    told = "2026-01-15T08:00:00: PM2 log: App [api:0] exited with code [{}] via signal [SIGINT]"

    assert not incidents_of(told.format(0))
    assert incidents_of(told.format(7))


def test_lines_that_differ_by_numbers_are_mentioned_once_and_whole() -> None:
    line = "What many of the pools have in common: a Segmentation fault is seldom, {}\n"

    (seen,) = parse_incident_log([line.format(number).encode() for number in range(9)]).seen_instead

    assert seen == "line 1: …many of the pools have in common: a Segmentation fault is seldom, 0"
