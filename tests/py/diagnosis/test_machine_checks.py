"""Every judgement of the doctor, on facts alone."""

from dataclasses import replace

import pytest

from vllm_forensics.diagnosis.machine import PATTERN_BYTES, expand_pattern, judge
from vllm_forensics.model.machine import (
    Check,
    CompilerFacts,
    MachineFacts,
    SanitizerFacts,
    Verdict,
)

HEALTHY = MachineFacts(
    core_pattern="/srv/cores/core.%e.%p",
    core_limit_soft=-1,
    core_limit_hard=-1,
    core_uses_pid=0,
    suid_dumpable=2,
    coredump_filter=0x33,
    working_folder="/work",
    is_root=False,
    core_folder="/srv/cores",
    core_folder_writable=True,
    core_folder_free=64 << 30,
    container=None,
    cgroup_version=2,
    memory_limit=None,
    shm_size=8 << 30,
    shm_free=8 << 30,
    ptrace_scope=1,
    seccomp=0,
    gdb="GNU gdb 13.1",
    gdb_has_python=True,
    compilers=("g++",),
    sanitizer_runtimes=("/usr/lib/libasan.so.8",),
    mmap_rnd_bits=28,
    cpu_features=("avx2", "avx512f"),
)


def check(name: str, **changes: object) -> Check:
    """The one check of that name on a healthy machine with these changes."""
    facts = replace(HEALTHY, **changes)  # type: ignore[arg-type]
    [found] = [found for found in judge(facts) if found.name == name]
    return found


def test_a_healthy_machine_has_nothing_to_say() -> None:
    checks = judge(HEALTHY)

    assert {found.verdict for found in checks} == {Verdict.GOOD}
    assert not any(found.remedy for found in checks)


def test_every_complaint_has_a_remedy() -> None:
    sick = replace(
        HEALTHY,
        core_pattern="|/bin/false",
        core_limit_soft=0,
        core_limit_hard=0,
        coredump_filter=0,
        container="docker",
        shm_size=64 << 20,
        ptrace_scope=3,
        gdb=None,
        compilers=(),
        mmap_rnd_bits=32,
    )

    complaints = [found for found in judge(sick) if found.verdict is not Verdict.GOOD]

    assert len(complaints) >= 9
    assert all(found.remedy for found in complaints)


@pytest.mark.parametrize(
    ("pattern", "verdict", "words"),
    [
        (None, Verdict.BAD, "cannot be read"),
        ("", Verdict.BAD, "no cores are written"),
        ("core", Verdict.WARNING, "a second crash overwrites the first"),
        ("core.%e", Verdict.WARNING, "a second crash overwrites the first"),
        ("core.%%p", Verdict.WARNING, "a second crash overwrites the first"),
        ("core.%p", Verdict.GOOD, "core.PID"),
        ("core.%t", Verdict.GOOD, "core.TIME"),
        ("x" * PATTERN_BYTES, Verdict.BAD, "the kernel cuts at 127"),
        ("|/usr/lib/systemd/systemd-coredump %P %u", Verdict.WARNING, "systemd keeps the cores"),
        ("|/usr/share/apport/apport -p%p", Verdict.WARNING, "in /var/crash"),
        ("|/usr/libexec/abrt-hook-ccpp %s", Verdict.WARNING, "abrt keeps the cores"),
        ("|/bin/false", Verdict.WARNING, "a pipe to /bin/false"),
        ("|", Verdict.WARNING, "a pipe to nothing"),
    ],
)
def test_the_core_pattern_is_judged(pattern: str | None, verdict: Verdict, words: str) -> None:
    found = check("core pattern", core_pattern=pattern)

    assert found.verdict is verdict
    assert words in found.found


def test_core_uses_pid_makes_names_differ() -> None:
    assert check("core pattern", core_pattern="core", core_uses_pid=1).verdict is Verdict.GOOD


def test_a_pipe_in_a_container_runs_on_the_host() -> None:
    found = check("core pattern", core_pattern="|/opt/collect", container="docker")

    assert "on the host, not in this container" in found.found


@pytest.mark.parametrize(
    ("pattern", "expanded"),
    [
        ("core.%e.%p", "core.THREAD.PID"),
        ("%%p", "%p"),
        ("a%", "a"),
        ("a%zb", "ab"),
        ("%h/%s-%u", "HOST/SIGNAL-UID"),
        ("", ""),
    ],
)
def test_codes_are_expanded(pattern: str, expanded: str) -> None:
    assert expand_pattern(pattern) == expanded


@pytest.mark.parametrize(
    ("soft", "hard", "root", "verdict", "words"),
    [
        (-1, -1, False, Verdict.GOOD, "unlimited"),
        (0, -1, False, Verdict.BAD, "0: no core is written"),
        (1 << 20, -1, False, Verdict.WARNING, "1.0 MiB: larger cores are cut off"),
        (0, 0, False, Verdict.BAD, "the hard limit is 0 too"),
        (0, 0, True, Verdict.BAD, "0: no core is written"),
    ],
)
def test_the_limit_is_judged(
    soft: int, hard: int, root: bool, verdict: Verdict, words: str
) -> None:
    found = check("core limit", core_limit_soft=soft, core_limit_hard=hard, is_root=root)

    assert found.verdict is verdict
    assert words in found.found


def test_a_hard_limit_of_zero_is_lifted_from_outside() -> None:
    found = check("core limit", core_limit_soft=0, core_limit_hard=0)

    assert found.remedy == "as root: prlimit --pid $$ --core=unlimited"


def test_root_lifts_a_hard_limit_of_zero_itself() -> None:
    found = check("core limit", core_limit_soft=0, core_limit_hard=0, is_root=True)

    assert found.remedy == "ulimit -c unlimited"


def test_a_pipe_handler_does_not_mind_the_limit() -> None:
    found = check("core limit", core_limit_soft=0, core_pattern="|/bin/cat")

    assert found.verdict is Verdict.WARNING
    assert "called all the same" in found.found


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({"core_folder_writable": False}, Verdict.BAD, "not writable for this user"),
        ({"core_folder_free": 1 << 20}, Verdict.WARNING, "1.0 MiB free"),
        ({}, Verdict.GOOD, "64.0 GiB free"),
        ({"core_folder_free": None}, Verdict.GOOD, "/srv/cores"),
    ],
)
def test_the_folder_is_judged(changes: dict[str, object], verdict: Verdict, words: str) -> None:
    found = check("core folder", **changes)

    assert found.verdict is verdict
    assert words in found.found


def test_where_no_folder_is_known_nothing_is_said_of_it() -> None:
    assert "core folder" not in {found.name for found in judge(replace(HEALTHY, core_folder=None))}


@pytest.mark.parametrize(
    ("bits", "verdict", "words"),
    [
        (0x33, Verdict.GOOD, "coredump_filter 0x33"),
        (0x23, Verdict.WARNING, "ELF headers are left out"),
        (0x32, Verdict.BAD, "heap and stacks are left out"),
    ],
)
def test_the_filter_is_judged(bits: int, verdict: Verdict, words: str) -> None:
    found = check("core contents", coredump_filter=bits)

    assert found.verdict is verdict
    assert words in found.found


def test_an_unreadable_filter_is_passed_over() -> None:
    facts = replace(HEALTHY, coredump_filter=None)

    assert "core contents" not in {found.name for found in judge(facts)}


@pytest.mark.parametrize(
    ("scope", "seccomp", "verdict", "words"),
    [
        (0, 0, Verdict.GOOD, "allowed for own children"),
        (1, 0, Verdict.GOOD, "allowed for own children"),
        (None, None, Verdict.GOOD, "allowed for own children"),
        (2, 0, Verdict.WARNING, "gdb cannot attach"),
        (1, 2, Verdict.GOOD, "a seccomp filter is on"),
    ],
)
def test_ptrace_is_judged(
    scope: int | None, seccomp: int | None, verdict: Verdict, words: str
) -> None:
    found = check("ptrace", ptrace_scope=scope, seccomp=seccomp)

    assert found.verdict is verdict
    assert words in found.found


def test_suid_dumpable_is_mentioned_where_it_is_off() -> None:
    assert "leave no core" in check("suid_dumpable", suid_dumpable=0).found


def test_a_container_is_named_with_its_memory() -> None:
    found = check("container", container="kubepods", memory_limit=4 << 30)

    assert found.verdict is Verdict.WARNING
    assert "kubepods, cgroup v2, 4.0 GiB of memory" in found.found


@pytest.mark.parametrize(
    ("size", "verdict", "words"),
    [
        (None, Verdict.BAD, "is not there"),
        (64 << 20, Verdict.WARNING, "die of SIGBUS when it is full"),
        (8 << 30, Verdict.GOOD, "8.0 GiB"),
    ],
)
def test_shared_memory_is_judged(size: int | None, verdict: Verdict, words: str) -> None:
    found = check("/dev/shm", shm_size=size, shm_free=size)  # noqa: S108 - a name

    assert found.verdict is verdict
    assert words in found.found


@pytest.mark.parametrize(
    ("name", "changes", "verdict", "words"),
    [
        ("gdb", {"gdb": None}, Verdict.BAD, "not installed"),
        ("gdb", {"gdb_has_python": False}, Verdict.WARNING, "without Python"),
        ("compiler", {"compilers": ()}, Verdict.WARNING, "no sanitizer builds"),
        ("sanitizers", {"sanitizer_runtimes": ()}, Verdict.WARNING, "no shared runtime"),
        ("sanitizers", {}, Verdict.GOOD, "libasan.so.8"),
        ("address space", {"mmap_rnd_bits": 32}, Verdict.WARNING, "fail at start"),
        ("processor", {"cpu_features": ("avx2",)}, Verdict.GOOD, "die of SIGILL here"),
        ("processor", {}, Verdict.GOOD, "avx512f"),
    ],
)
def test_tools_are_judged(
    name: str, changes: dict[str, object], verdict: Verdict, words: str
) -> None:
    found = check(name, **changes)

    assert found.verdict is verdict
    assert words in found.found


WELL = SanitizerFacts(
    compilers=(
        CompilerFacts(name="g++", major=12, runtimes=("/usr/lib/libasan.so.8",)),
        CompilerFacts(name="clang++", major=14),
    ),
    start="",
    overcommit=0,
    valgrind="valgrind-3.19.0",
    scudo="/usr/lib/libclang_rt.scudo_standalone-x86_64.so",
)


def test_a_machine_that_is_fit_for_sanitizers_has_nothing_to_say() -> None:
    checks = judge(replace(HEALTHY, sanitizers=WELL))

    assert {found.verdict for found in checks} == {Verdict.GOOD}
    assert {"g++ runtimes", "clang++ runtimes", "sanitizer start", "valgrind"} <= {
        found.name for found in checks
    }


@pytest.mark.parametrize(
    ("name", "changes", "verdict", "words"),
    [
        (
            "g++ runtimes",
            {"compilers": (CompilerFacts(name="g++", major=12, missing=("tsan",), remedy="apt"),)},
            Verdict.WARNING,
            "tsan cannot be preloaded",
        ),
        (
            "sanitizer start",
            {"start": "==9==Shadow memory range interleaves with an existing memory mapping."},
            Verdict.BAD,
            "its shadow was taken",
        ),
        ("sanitizer start", {"start": "odd words\nmore"}, Verdict.BAD, "odd words"),
        ("LD_PRELOAD", {"preloaded": ("/x/libjemalloc.so.2",)}, Verdict.WARNING, "jemalloc"),
        ("LD_PRELOAD", {"preloaded": ("/x/libz.so",)}, Verdict.WARNING, "must come before"),
        ("address limit", {"address_space_limit": 8 << 30}, Verdict.BAD, "limited to 8"),
        ("address limit", {"overcommit": 2}, Verdict.BAD, "overcommit_memory is 2"),
        (
            "ASAN_OPTIONS",
            {"options": (("ASAN_OPTIONS", "verify_asan_link_order", "0"),)},
            Verdict.BAD,
            "hides that the runtime came too late",
        ),
        (
            "ASAN_OPTIONS",
            {"options": (("ASAN_OPTIONS", "detect_leaks", "1"),)},
            Verdict.WARNING,
            "with ptrace",
        ),
        (
            "TSAN_OPTIONS",
            {"options": (("TSAN_OPTIONS", "exitcode", "1"),)},
            Verdict.WARNING,
            "Python exception",
        ),
        (
            "ASAN_OPTIONS",
            {"options": (("ASAN_OPTIONS", "log_path", "/no/x"),), "unwritable": ("/no/x",)},
            Verdict.BAD,
            "cannot be written",
        ),
        ("sampling", {"scudo": None}, Verdict.GOOD, "libclang-rt"),
    ],
)
def test_each_trap_of_sanitizers_is_judged(
    name: str, changes: dict[str, object], verdict: Verdict, words: str
) -> None:
    found = check(name, sanitizers=replace(WELL, **changes))  # type: ignore[arg-type]

    assert (found.verdict, words in found.found) == (verdict, True)
    assert bool(found.remedy) is (verdict is not Verdict.GOOD)


@pytest.mark.parametrize(("major", "warned"), [(13, True), (14, False)])
def test_wide_addresses_trouble_old_compilers_only(major: int, *, warned: bool) -> None:
    compilers = (CompilerFacts(name="g++", major=major),)
    facts = replace(HEALTHY, mmap_rnd_bits=32, sanitizers=replace(WELL, compilers=compilers))

    names = [found.name for found in judge(facts)]

    assert ("address space" in names) is warned


def test_a_runtime_in_a_folder_with_a_space_cannot_be_preloaded_by_hand() -> None:
    compilers = (CompilerFacts(name="g++", major=13, runtimes=("/opt/my gcc/libasan.so.8",)),)

    found = [
        one
        for one in judge(replace(HEALTHY, sanitizers=replace(WELL, compilers=compilers)))
        if one.name == "g++ runtimes"
    ]

    assert "LD_PRELOAD cannot hold" in found[-1].found
