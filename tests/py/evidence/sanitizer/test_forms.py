"""Forms that the samples do not hold: other platforms, older and newer wordings, every header."""

# ruff: noqa: E501 - a runtime's own lines stay whole

import json

import pytest

from vllm_forensics.evidence.sanitizer.asan import kind_of
from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.evidence.sanitizer.ubsan import check_of
from vllm_forensics.model.sanitizer import PrintedReport, Relation, Role

STACK = "    #0 0x10 in f(int) a.cc:1:2\n    #1 0x11 in main a.cc:9:2\n\n"


def reports(text: str) -> tuple[PrintedReport, ...]:
    return parse_sanitizer_log([text.encode()]).reports


def only(text: str) -> PrintedReport:
    (report,) = reports(text)
    return report


def roles(report: PrintedReport) -> list[tuple[str, str | None]]:
    return [(event.role.value, event.thread) for event in report.chain]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("heap-use-after-free on address 0x60 at pc 0x1 bp 0x2 sp 0x3", "heap-use-after-free"),
        ("attempting double-free on 0x60 in thread T0:", "double-free"),
        ("attempting free on address which was not malloc()-ed: 0x60 in thread T0", "bad-free"),
        ("attempting free on address in vmem which was not malloc()-ed: 0x6", "bad-free"),
        (
            "attempting to call malloc_usable_size() for pointer which is not owned: 0x60",
            "bad-malloc_usable_size",
        ),
        (
            "attempting to call __sanitizer_get_allocated_size() for pointer which is not owned:",
            "bad-__sanitizer_get_allocated_size",
        ),
        (
            "calloc parameters overflow: count * size (2 * 9) cannot be represented in type size_t",
            "calloc-overflow",
        ),
        ("reallocarray parameters overflow: count * size (2 * 9)", "reallocarray-overflow"),
        ("pvalloc parameters overflow: size 0xffff rounded up", "pvalloc-overflow"),
        ("invalid allocation alignment: 3, alignment must be", "invalid-allocation-alignment"),
        (
            "invalid alignment requested in aligned_alloc: 3, alignment",
            "invalid-aligned-alloc-alignment",
        ),
        (
            "invalid alignment requested in posix_memalign: 3",
            "invalid-posix-memalign-alignment",
        ),
        ("requested allocation size 0xfff (0x1000 after", "allocation-size-too-big"),
        ("specified RSS limit exceeded, currently set to soft_rss", "rss-limit-exceeded"),
        ("allocator is out of memory trying to allocate 0x6 bytes", "out-of-memory"),
        ("out of memory: allocator is trying to allocate 0x6 bytes", "out-of-memory"),
        ("alloc-dealloc-mismatch (malloc vs operator delete) on 0x60", "alloc-dealloc-mismatch"),
        ("new-delete-type-mismatch on 0x60 in thread T0:", "new-delete-type-mismatch"),
        ("memmove-param-overlap: memory ranges [0x1,0x2)", "memmove-param-overlap"),
        ("negative-size-param: (size=-5)", "negative-size-param"),
        ("odr-violation (0x60):", "odr-violation"),
        ("invalid-pointer-pair: 0x60 0x61", "invalid-pointer-pair"),
        (
            "bad parameters to __sanitizer_annotate_double_ended_contiguous_container:",
            "bad-__sanitizer_annotate_double_ended_contiguous_container",
        ),
        ("SEGV on unknown address 0x0 (pc 0x1 bp 0x2 sp 0x3 T0)", "segv"),
        ("BUS on unknown address (pc 0x1 bp 0x2 sp 0x3 T0)", "bus"),
        ("TRAP on unknown address 0x1 (pc 0x1", "trap"),
        ("access-violation on unknown address 0x1 (pc 0x1", "segv"),
        ("illegal-instruction on unknown address 0x1 (pc", "ill"),
        ("int-divide-by-zero on unknown address 0x1 (pc", "fpe"),
        ("breakpoint on unknown address 0x1 (pc", "trap"),
        ("stack-overflow on address 0x1 (pc", "stack-overflow"),
        ("unknown-crash on address 0x60 at pc 0x1", "unknown-crash"),
        ("intra-object-overflow on address 0x60 at pc 0x1", "intra-object-overflow"),
        ("CHECK failed: asan_thread.cpp:1", "check-failed"),
    ],
)
def test_the_kind_of_a_header_is_its_summary_name(message: str, kind: str) -> None:
    assert kind_of(message) == kind

    report = only(f"==7==ERROR: AddressSanitizer: {message}\n{STACK}")
    assert (report.kind, report.pid, report.truncated) == (kind, 7, True)
    assert roles(report) == [("use", report.thread)]


@pytest.mark.parametrize(
    ("message", "check"),
    [
        ("signed integer overflow: 1 + 2 cannot be represented in type 'int'", "signed-integer-overflow"),
        ("negation of 1 cannot be represented in type 'unsigned int'", "unsigned-integer-overflow"),
        ("division of -2147483648 by -1 cannot be represented in type 'int'", "signed-integer-overflow"),
        ("shift exponent -1 is negative", "shift-exponent"),
        ("left shift of 1 by 31 places cannot be represented in type 'int'", "shift-base"),
        ("member call on misaligned address 0x1 for type 'T', which requires", "alignment"),
        ("assumption of 32 byte alignment for pointer of type 'int *' failed", "alignment"),
        ("load of address 0x1 with insufficient space for an object of type 'T'", "object-size"),
        ("downcast of address 0x1 which does not point to an object of type 'T'", "vptr"),
        ("applying zero offset to null pointer", "pointer-overflow"),
        ("applying non-zero offset to non-null pointer 0x1 produced null pointer", "pointer-overflow"),
        ("addition of unsigned offset to 0x1 overflowed to 0x0", "pointer-overflow"),
        ("subtraction of unsigned offset from 0x1 overflowed to 0x2", "pointer-overflow"),
        ("load of value 3, which is not a valid value for type '_Bool'", "bool"),
        ("member access within null pointer of type 'T'", "null"),
        ("reference binding to null pointer of type 'T'", "null"),
        ("upcast of null pointer of type 'T'", "null"),
        ("null pointer returned from function declared to never return null", "returns-nonnull-attribute"),
        ("control flow integrity check for type 'f' failed during indirect function call", "cfi"),
        ("passing zero to __builtin_clz(), which is not a valid argument", "builtin"),
        ("-3.1 is outside the range of representable values of type 'unsigned int'", "float-cast-overflow"),
        ("something that no table knows", None),
    ],
)  # fmt: skip
def test_a_message_stands_for_a_check(message: str, check: str | None) -> None:
    assert check_of(message) == check


def test_a_check_that_no_table_knows_is_a_report_where_a_stack_follows() -> None:
    line = "a.cc:1:2: runtime error: a thing that nobody foresaw\n"

    assert reports(line) == ()
    assert only(line + STACK).message == "a thing that nobody foresaw"


TRAPS = {
    "build flags": "c++ -fsanitize=address -O1 a.cc # AddressSanitizer\n",
    "the compiler": "LLVM ERROR: AddressSanitizer pass failed\n",
    "a prose mention": "We saw ERROR: AddressSanitizer: heap-use-after-free in CI last week.\n",
    "allocation warning": "==7==WARNING: AddressSanitizer failed to allocate 0x10 bytes\n",
    "interceptor": "==7==AddressSanitizer: failed to intercept 'x'\n",
    "docker build": "#3 0.2 Step 1/4 with AddressSanitizer\n#4 0.3 done\n",
    "java": "ERROR: com.acme.HtmlSanitizer: tag <b> removed\n    #0 0x10 in f a.c:1\n",
    "html": "ERROR: HtmlSanitizer: bad input\n" + STACK,
    "go": "panic: runtime error: index out of range [5] with length 3\n\ngoroutine 1 [running]:\n",
    "go server": "http: panic serving 10.0.0.1:5678: runtime error: invalid memory address\n",
    "what()": "terminate: what():  std::runtime_error: runtime error: bad\n#0 0x10 in f a.c:1\n",
    "summary alone": "SUMMARY: AddressSanitizer: heap-use-after-free a.cc:1 in f\n",
    "libFuzzer's progress": "INFO: libFuzzer: running\n#2 INITED cov: 5\n",
    "a test's pattern": "// CHECK: ERROR: AddressSanitizer: {{.*}} on address\n",
    "deadly": "AddressSanitizer:DEADLYSIGNAL\n",
    "tsan's summary": "ThreadSanitizer: reported 1 warnings\n",
    "scudo in prose": 'the host aborted with "Scudo ERROR: invalid chunk state" on Android\n',
    "gwp in prose": "search the log for *** GWP-ASan detected a memory error ***\n",
}


@pytest.mark.parametrize("name", TRAPS)
def test_what_only_mentions_a_sanitizer_is_no_report(name: str) -> None:
    reading = parse_sanitizer_log([TRAPS[name].encode()])

    assert reading.reports == ()


def test_hwasan_on_android() -> None:
    report = only(
        "ERROR: HWAddressSanitizer: tag-mismatch on address 0x0042a0826510 at pc 0x007b24d90a0c\n"
        "WRITE of size 1 at 0x0042a0826510 tags: 32/3d (ptr/mem) in thread T0\n"
        "    #0 0x7b24d90a08  (/data/app/lib/arm64/libq.so+0x2a08)\n"
        "Cause: heap-buffer-overflow\n"
        "0x0042a0826510 is located 0 bytes to the right of 16-byte region "
        "[0x0042a0826500,0x0042a0826510)\n"
        "allocated here:\n    #0 0x7b92a322bc  (/apex/libclang_rt.hwasan.so+0x212bc)\n"
        "SUMMARY: HWAddressSanitizer: tag-mismatch (/data/app/lib/arm64/libq.so+0x2a08)\n"
    )

    assert (report.sanitizer, report.kind, report.pid) == (
        "HWAddressSanitizer",
        "tag-mismatch",
        None,
    )
    assert (report.address, report.thread) == ("0x0042a0826510", "T0")
    assert roles(report) == [("allocate", None), ("use", "T0")]
    assert report.region is not None
    assert report.region.relation is Relation.AFTER
    assert report.hints == ("cause: heap-buffer-overflow",)


def test_windows() -> None:
    report = only(
        "==13828==ERROR: AddressSanitizer: access-violation on unknown address 0x122c28e51812 "
        "(pc 0x7ffbd9498ab3 bp 0xffff sp 0x00700c5fd7a0 T0)\r\n"
        "==13828==The signal is caused by a WRITE memory access.\r\n"
        "==13828==*** WARNING: Failed to initialize DbgHelp!              ***\r\n"
        r"    #0 0x7ffbd9498ab2 in q::Builder::insert C:\a b\src\x.cpp:188" + "\r\n"
        r"    #1 0x7ffbd9498887 in q::`anonymous namespace'::g C:\a b\src\x.cpp:9" + "\r\n"
    )

    assert (report.kind, report.access and report.access.type) == ("segv", "WRITE")
    assert [frame.line for frame in report.chain[0].frames] == [188, 9]
    assert report.chain[0].frames[1].function == "q::`anonymous namespace'::g"


def test_named_threads_and_newer_words() -> None:
    report = only(
        "==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60 at pc 0x1 bp 0x2\n"
        "READ of size 8 at 0x60 thread T12 (Chrome_IOThread)\n" + STACK + "0x60 is located 0 bytes "
        "after 16-byte region [0x50,0x60)\n"
        "allocated by thread T0 (chrome) here:\n" + STACK + "Thread T12 (Chrome_IOThread) created "
        "by T0 (chrome) here:\n" + STACK + "SUMMARY: AddressSanitizer: heap-buffer-overflow\n"
    )

    assert report.thread == "T12"
    assert roles(report) == [("allocate", "T0"), ("use", "T12"), ("thread_create", "T12")]
    assert report.chain[2].created_by == "T0"
    assert report.region is not None
    assert (report.region.offset, report.region.relation) == (0, Relation.AFTER)


def test_threads_that_are_created_after_the_summary() -> None:
    report = only(
        "==7== ERROR: AddressSanitizer: heap-use-after-free on address 0x60 at pc 0x1 bp 0x2\n"
        "READ of size 8 at 0x60 thread T1\n" + STACK + "SUMMARY: AddressSanitizer: heap-use-after-"
        "free a.cc:1 f\nThread T1 created by T0 here:\n" + STACK + "==7== ABORTING\n"
    )

    assert roles(report) == [("use", "T1"), ("thread_create", "T1")]


def test_a_debuggers_stack_after_the_report_is_not_its() -> None:
    report = only(
        "==7==ERROR: AddressSanitizer: SEGV on unknown address 0x0 (pc 0x1 bp 0x2 sp 0x3 T0)\n"
        + STACK
        + "SUMMARY: AddressSanitizer: SEGV a.cc:1:2 in f(int)\n==7==ABORTING\n"
        "#0  0x0000555 in raise () from /lib/libc.so.6\n#1  0x01 in abort () at abort.c:79\n"
    )

    assert [len(event.frames) for event in report.chain] == [2]


def test_a_symbolised_copy_replaces_the_bare_one() -> None:
    head = (
        "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x60 at pc 0x10 bp 0x2\n"
        "READ of size 8 at 0x60 thread T0\n"
    )
    tail = "\nSUMMARY: AddressSanitizer: heap-use-after-free\n==7==ABORTING\n"

    report = only(
        head + "    #0 0x10  (/b/x+0x1)\n" + tail + head + "    #0 0x10 in f() a.cc:3\n" + tail
    )

    assert report.occurrences == 2
    assert report.chain[0].frames[0].function == "f()"


def test_gwp_asan() -> None:
    report = only(
        "*** GWP-ASan detected a memory error ***\n"
        "Use After Free at 0x7feccab26000 (0 bytes into a 41-byte allocation at 0x7feccab26000) "
        "by thread 31027 here:\n"
        "  #9 ./a.out(_Zf+0x45) [0x55585c0afa55]\n  #10 ./a.out(main+0x9f) [0x55585c0af7cf]\n\n"
        "0x7feccab26000 was deallocated by thread 31027 here:\n"
        "  #7 ./a.out(main+0x83) [0x55585c0af7b3]\n\n"
        "0x7feccab26000 was allocated by thread 31028 here:\n"
        "  #0 0x7f9c548958 (/lib/ld-musl.so.1+0x1ea958)\n\n*** End GWP-ASan report ***\n"
    )

    assert (report.sanitizer, report.kind, report.truncated) == (
        "GWP-ASan",
        "use-after-free",
        False,
    )
    assert roles(report) == [("allocate", "31028"), ("free", "31027"), ("use", "31027")]
    assert report.region is not None
    assert (report.region.size, report.region.end) == (41, "0x7feccab26029")


def test_scudo() -> None:
    report = only("Scudo ERROR: corrupted chunk header at address 0x7f12\n")

    assert (report.sanitizer, report.kind) == ("Scudo", "corrupted-chunk-header")
    assert report.address == "0x7f12"
    assert only("Abort message: 'Scudo ERROR: internal map failure (NO MEMORY)'\n").kind == (
        "internal-map-failure"
    )


def test_runtime_failures_that_are_reports() -> None:
    texts = {
        "==7==ERROR: AddressSanitizer failed to allocate 0x200 (512) bytes of x (error code: 12)\n": "out-of-memory",
        "==7==AddressSanitizer CHECK failed: a.cpp:1 \"((0)) != (0)\" (0x0, 0x0)\n" + STACK: "check-failed",
        "AddressSanitizer: CHECK failed: a.cpp:1 \"((0)) != (0)\" (0x0, 0x0) (tid=9)\n" + STACK: "check-failed",
        "==7==AddressSanitizer: hard rss limit exhausted (100Mb vs 102Mb)\n": "rss-limit-exceeded",
    }  # fmt: skip
    for text, kind in texts.items():
        assert only(text).kind == kind


def test_a_report_inside_a_string_of_another_language() -> None:
    text = (
        "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x60 at pc 0x1 bp 0x2\n"
        "READ of size 8 at 0x60 thread T0\n" + STACK + "SUMMARY: AddressSanitizer: heap-use-after-"
        "free a.cc:1:2 in f(int)\n"
    )
    wanted = only(text)

    for line in (
        f"E   AssertionError: {text.encode()!r}\n",
        json.dumps({"stderr": text}) + "\n",
        '"asan_log": ' + json.dumps(text.replace("\n", "\r\n")) + ",\n",
        "x," + json.dumps(json.dumps(text)) + "\n",
    ):
        assert only(line).chain == wanted.chain, line


def test_a_bug_trackers_export() -> None:
    report = only(
        "==2735==WARNING: MemorySanitizer: use-of-uninitialized-value  \n\n"
        "#0 0x5576a9356da9 in q::find(float, float\\*) third\\_party/q/src/q\\_path.cpp:568:13  \n\n"
        "#1 0x5576a935850e in q::get(bool) third\\_party/q/src/q.cpp:655:36  \n\n"
    )

    assert [frame.function for frame in report.chain[0].frames] == [
        "q::find(float, float*)",
        "q::get(bool)",
    ]
    assert report.chain[0].frames[0].file == "third_party/q/src/q_path.cpp"


def test_colours_whose_escape_was_lost() -> None:
    report = only(
        "[1m[31m==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x60 at pc 0x1\n"
        "[1m[0m[1m[34mREAD of size 8 at 0x60 thread T0[1m[0m\n" + STACK
    )

    assert report.access is not None
    assert report.access.size == 8


def test_ubsan_places_of_every_form() -> None:
    message = "signed integer overflow: 1 + 2 cannot be represented in type 'int'"
    places = {
        r"C:\a b\x.cc:8:5": r"C:\a b\x.cc:8:5",
        "/home/a b/x.cc:8:5": "/home/a b/x.cc:8:5",
        "[ RUN      ] Q.t src/x.cc:8:5": "src/x.cc:8:5",
        "x.cc:8": "x.cc:8",
    }
    for printed, location in places.items():
        assert only(f"{printed}: runtime error: {message}\n").location == location
    assert only(f"<unknown>: runtime error: {message}\n{STACK}").location == "<unknown>"


def test_a_race_with_its_locks_and_an_unrestored_stack() -> None:
    report = only(
        "WARNING: ThreadSanitizer: data race (pid=9)\n"
        "  Atomic write of size 4 at 0x10 by thread T2 'worker' (mutexes: write M1, read M2):\n"
        "    #0 f() /w/a.cc:1 (p+0x1)\n\n"
        "  Previous read of size 4 at 0x10 by thread T1 [failed to restore the stack]\n\n"
        "  Location is heap block of size 16 at 0x08 allocated by main thread:\n"
        "    #0 malloc <null> (p+0x2)\n\n"
        "  Mutex M1 (0x7b) created at:\n    #0 pthread_mutex_init <null> (p+0x3)\n\n"
        "SUMMARY: ThreadSanitizer: data race /w/a.cc:1 in f()\n==================\n"
    )

    assert roles(report) == [("allocate", "main thread"), ("use", "T2")]
    assert report.access is not None
    assert (report.access.type, report.access.size) == ("WRITE", 4)
    assert report.locks == ("Mutex M1 (0x7b) created at",)
    assert report.region is not None
    assert report.region.offset == 8
    assert report.first(Role.PREVIOUS_ACCESS) is None
