"""What system calls prove: real traces, and made ones for what they must not claim."""

import json
from pathlib import Path

import pytest

from vllm_forensics.diagnosis.joined.traced_processes import lineage_of
from vllm_forensics.diagnosis.syscalls import explain_syscalls
from vllm_forensics.evidence.strace import parse_strace_log
from vllm_forensics.model.syscalls import SyscallFinding, SyscallKind

DATA = Path(__file__).resolve().parents[1] / "data" / "strace"
CASES = sorted(folder.name for folder in DATA.iterdir())
MAPPED = "7 1.0 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE, -1, 0) = 0x10000\n"
FAULT = (
    "7 2.0 --- SIGSEGV {{si_signo=SIGSEGV, si_code={code}, si_addr=0x11008}} ---\n"
    "7 2.1 +++ killed by SIGSEGV +++\n"
)
MISSED = FAULT.format(code="SEGV_MAPERR")
REFUSED = FAULT.format(code="SEGV_ACCERR")
THREAD = "7 0.5 clone3({flags=CLONE_VM|CLONE_THREAD}, 88) = 8\n"
FORK = "7 1.2 clone(child_stack=NULL, flags=SIGCHLD) = 9\n"
DIES = "7 2.1 +++ killed by SIGABRT +++\n"


def explain(text: str, shm_free: int | None = None) -> tuple[SyscallFinding, ...]:
    return explain_syscalls(parse_strace_log(text, shm_free=shm_free))


def kinds(text: str, shm_free: int | None = None) -> list[SyscallKind]:
    return [finding.kind for finding in explain(text, shm_free)]


@pytest.mark.parametrize("case", CASES)
def test_a_recorded_trace_is_explained(case: str) -> None:
    expected = json.loads((DATA / case / "expected.json").read_text(encoding="utf-8"))
    text = (DATA / case / "input.log").read_text(encoding="utf-8")

    findings = explain(text, expected["shm_free"])

    assert [
        {
            "pid": found.pid,
            "kind": found.kind.value,
            "sentence": found.sentence,
            "proof": list(found.proof),
        }
        for found in findings
    ] == expected["findings"]
    trace = parse_strace_log(text)
    processes = [(record.pid, record.exit) for record in lineage_of(trace).records()]
    assert processes == [(record["pid"], record["exit"]) for record in expected["processes"]]


@pytest.mark.parametrize("case", CASES)
def test_every_proof_is_a_line_of_the_trace(case: str) -> None:
    text = (DATA / case / "input.log").read_text(encoding="utf-8")
    lines = {" ".join((line.split()[0], line.split(maxsplit=2)[2])) for line in text.splitlines()}

    for finding in explain(text, 1 << 20):
        for line in finding.proof:
            assert line in lines or "<unfinished ...>" in text


def test_the_thread_that_unmapped_the_page_is_named() -> None:
    [found] = explain(THREAD + MAPPED + "8 1.9 munmap(0x10000, 8192) = 0\n" + MISSED)

    assert found.kind is SyscallKind.UNMAPPED
    assert "unmapped 100.0 ms before by thread 8 with munmap" in found.sentence


@pytest.mark.parametrize(
    "between",
    [
        "7 1.5 munmap(0x10000, 8192) = -1 EINVAL (Invalid argument)\n",
        "7 1.5 munmap(0x10000, 4096) = 0\n",
        "7 1.5 munmap(0x20000, 8192) = 0\n",
        "9 1.5 munmap(0x10000, 8192) = 0\n",
        "7 2.05 munmap(0x10000, 8192) = 0\n",
        "7 1.4 munmap(0x10000, 8192) = 0\n7 1.5 mmap(0x10000, 8192, PROT_WRITE) = 0x10000\n",
        '7 1.4 munmap(0x10000, 8192) = 0\n7 1.5 execve("/bin/x", [...], 0x7) = 0\n',
    ],
)
def test_what_did_not_take_the_page_away_is_not_blamed(between: str) -> None:
    assert explain(MAPPED + between + MISSED) == ()


def test_a_size_that_is_no_whole_page_reaches_to_the_pages_end() -> None:
    assert kinds(MAPPED + "7 1.5 munmap(0x10000, 4097) = 0\n" + MISSED) == [SyscallKind.UNMAPPED]


def test_a_child_is_not_blamed_for_what_it_unmapped_of_its_own() -> None:
    assert explain(MAPPED + FORK + "9 1.5 munmap(0x10000, 8192) = 0\n" + MISSED) == ()


def test_a_child_inherits_what_was_unmapped_before_the_fork_only() -> None:
    dies = MISSED.replace("7 2", "9 2")
    before = MAPPED + "7 1.1 munmap(0x10000, 8192) = 0\n" + FORK + dies
    after = MAPPED + FORK + "7 1.3 munmap(0x10000, 8192) = 0\n" + dies

    assert kinds(before) == [SyscallKind.UNMAPPED]
    assert kinds(after) == []


def test_a_protected_page_is_told_from_an_unmapped_one() -> None:
    protect = "7 1.5 mprotect(0x11000, 4096, PROT_READ) = 0\n"

    [found] = explain(MAPPED + protect + REFUSED)

    assert found.kind is SyscallKind.PROTECTED
    assert "given PROT_READ only" in found.sentence
    assert explain(MAPPED + protect + MISSED) == ()


SHM = (
    "7 1.0 ftruncate(3</dev/shm/kv>, 8192) = 0\n"
    "7 1.1 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3</dev/shm/kv>, 0) = 0x10000\n"
    "7 2.0 --- SIGBUS {si_signo=SIGBUS, si_code=BUS_ADRERR, si_addr=0x11008} ---\n"
    "7 2.1 +++ killed by SIGBUS +++\n"
)


@pytest.mark.parametrize(("free", "blamed"), [(4096, True), (8192, False), (None, False)])
def test_shared_memory_is_blamed_only_where_it_was_too_small(
    free: int | None, blamed: bool
) -> None:
    assert kinds(SHM, free) == ([SyscallKind.SHARED_MEMORY_FULL] if blamed else [])


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("mmap(NULL, 4096, PROT_READ) = -1 ENOMEM (x)", SyscallKind.MEMORY_REFUSED),
        ("mprotect(0x1000, 4096, PROT_READ) = -1 ENOMEM (x)", SyscallKind.MEMORY_REFUSED),
        ("mremap(0x1000, 1, 2, 0) = -1 ENOMEM (x)", SyscallKind.MEMORY_REFUSED),
        ("clone3({flags=CLONE_THREAD}, 88) = -1 EAGAIN (x)", SyscallKind.THREAD_REFUSED),
        ("clone(flags=SIGCHLD) = -1 ENOMEM (x)", SyscallKind.THREAD_REFUSED),
        ('openat(AT_FDCWD, "/a", O_RDONLY) = -1 EMFILE (x)', SyscallKind.DESCRIPTORS_EXHAUSTED),
        ('openat(AT_FDCWD, "/dev/shm/a", O_RDWR) = -1 EACCES (x)', SyscallKind.FILE_MISSING),
        ("fallocate(3</dev/shm/a>, 0, 0, 9) = -1 ENOSPC (x)", SyscallKind.NO_SPACE),
        ("mmap(NULL, 4096, PROT_READ) = -1 EINVAL (x)", None),
        ('openat(AT_FDCWD, "/etc/a", O_RDONLY) = -1 ENOENT (x)', None),
    ],
)
def test_refusals_are_told_apart(call: str, kind: SyscallKind | None) -> None:
    assert kinds(f"7 1.0 {call}\n{DIES}") == ([] if kind is None else [kind])


def test_what_was_refused_long_before_is_not_blamed() -> None:
    early = "7 1.0 mmap(NULL, 4096, PROT_READ) = -1 ENOMEM (x)\n"

    assert explain(early + DIES.replace("2.1", "60.0")) == ()


def test_what_a_healthy_process_was_refused_is_not_told() -> None:
    assert explain("7 1.0 mmap(NULL, 9) = -1 ENOMEM (x)\n7 2.0 +++ exited with 0 +++\n") == ()


def test_refusals_of_one_kind_are_counted() -> None:
    text = "7 1.0 mmap(NULL, 4096) = -1 ENOMEM (x)\n7 1.1 mmap(NULL, 2097152) = -1 ENOMEM (x)\n"

    [found] = explain(text + DIES)

    assert "mmap of 2.0 MiB was refused with ENOMEM 1.0 s before the end, 2 times" in found.sentence
    assert "vm.max_map_count" in found.sentence


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("prlimit64(0, RLIMIT_AS, {rlim_cur=1024*1024, rlim_max=1024*1024}, NULL) = 0", True),
        ("setrlimit(RLIMIT_AS, {rlim_cur=1048576, rlim_max=1048576}) = 0", True),
        ("prlimit64(0, RLIMIT_AS, NULL, {rlim_cur=1024*1024}) = 0", False),
        ("prlimit64(0, RLIMIT_AS, {rlim_cur=RLIM64_INFINITY}, NULL) = 0", False),
        ("prlimit64(0, RLIMIT_AS, {rlim_cur=1048576}, NULL) = -1 EPERM (x)", False),
        ("prlimit64(0, RLIMIT_CORE, {rlim_cur=1048576}, NULL) = 0", False),
    ],
)
def test_who_set_the_limit_is_found_among_the_ancestors(call: str, named: bool) -> None:
    child = "9 2.0 mmap(NULL, 9) = -1 ENOMEM (x)\n" + DIES.replace("7 2", "9 2")

    [found] = explain(f"7 1.0 {call}\n{FORK}{child}")

    assert ("process 7 had set RLIMIT_AS to 1.0 MiB" in found.sentence) is named


@pytest.mark.parametrize(
    ("looked_for", "told"),
    [
        (["/a/libx.so.1"], True),
        (["/a/libx.so.1", "/b/libx.so.1"], True),
        (["/a/m.cpython-311-x86_64-linux-gnu.so"], False),
        (["/a/m.abi3.so"], False),
        (["/a/notes.txt"], False),
    ],
)
def test_a_library_that_is_nowhere_is_told(looked_for: list[str], told: bool) -> None:
    text = "".join(
        f'7 1.0 openat(AT_FDCWD, "{path}", O_RDONLY) = -1 ENOENT (x)\n' for path in looked_for
    )

    assert kinds(text + DIES) == ([SyscallKind.FILE_MISSING] if told else [])


def test_a_library_that_was_found_elsewhere_is_not_told() -> None:
    text = (
        '7 1.0 openat(AT_FDCWD, "/a/libx.so.1", O_RDONLY) = -1 ENOENT (x)\n'
        '7 1.1 openat(AT_FDCWD, "/b/libx.so.1", O_RDONLY) = 3</b/libx.so.1>\n'
    )

    assert explain(text + DIES) == ()


TERMINATED = "7 2.1 +++ killed by SIGTERM +++\n"


@pytest.mark.parametrize(
    ("lines", "by"),
    [
        ("5 2.0 kill(7, SIGTERM) = 0\n", "by process 5."),
        ("5 2.0 kill(-7, SIGTERM) = 0\n", "by process 5."),
        ("7 2.0 tgkill(7, 7, SIGTERM) = 0\n", "by itself"),
        (
            "7 2.0 --- SIGTERM {si_signo=SIGTERM, si_code=SI_USER, si_pid=99, si_uid=0} ---\n",
            "by process 99, which was not started here",
        ),
    ],
)
def test_who_sent_the_last_signal_is_told(lines: str, by: str) -> None:
    [found] = explain(lines + TERMINATED)

    assert found.kind is SyscallKind.KILLED
    assert by in found.sentence


@pytest.mark.parametrize(
    "lines",
    [
        "",
        "5 2.0 kill(7, SIGHUP) = 0\n",
        "5 2.0 kill(8, SIGTERM) = 0\n",
        "5 2.0 kill(7, SIGTERM) = -1 EPERM (x)\n",
        "5 2.2 kill(7, SIGTERM) = 0\n",
    ],
)
def test_nobody_is_blamed_without_proof(lines: str) -> None:
    assert explain(lines + TERMINATED) == ()


def test_a_handler_that_sends_the_fault_again_is_not_the_sender() -> None:
    again = (
        "7 2.0 --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x48} ---\n"
        "7 2.1 tgkill(7, 7, SIGSEGV) = 0\n"
        "7 2.1 --- SIGSEGV {si_signo=SIGSEGV, si_code=SI_TKILL, si_pid=7, si_uid=0} ---\n"
        "7 2.2 +++ killed by SIGSEGV +++\n"
    )

    assert explain(again) == ()


def test_numbers_that_are_used_again_make_no_endless_tree() -> None:
    text = "7 1.0 fork() = 8\n8 1.1 fork() = 7\n7 1.2 mmap(NULL, 9) = -1 ENOMEM (x)\n"

    assert kinds(text + DIES) == [SyscallKind.MEMORY_REFUSED]
