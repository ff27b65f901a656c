"""Each trap by the words that a real runtime printed when it fell into it (gcc 12, LLVM 14)."""

import pytest

from vllm_forensics.diagnosis.sanitizer.traps import find_traps

PRINTED = {
    "link-order": "==20968==ASan runtime does not come first in initial library list; you should "
    "either link runtime to your application or manually preload it with LD_PRELOAD.",
    "shadow-memory": "==20972==Shadow memory range interleaves with an existing memory mapping. "
    "ASan cannot proceed correctly. ABORTING.",
    "address-space": "==20976==ERROR: AddressSanitizer failed to allocate 0xdfff0001000 "
    "(15392894357504) bytes at address 2008fff7000 (errno: 12)\n==20976==ReserveShadowMemoryRange "
    "failed while trying to map 0xdfff0001000 bytes. Perhaps you're using ulimit -v",
    "log-path": "AddressSanitizer:DEADLYSIGNAL\nERROR: Can't open file: /proc/nix/x.20980 "
    "(reason: 2)",
    "leaks-under-ptrace": "==20988==LeakSanitizer has encountered a fatal error.",
    "cxa-throw": "AddressSanitizer: CHECK failed: asan_interceptors.cpp:320 "
    '"((__interception::real___cxa_throw)) != (0)" (0x0, 0x0) (tid=20996)',
    "preload": "ERROR: ld.so: object '/tmp/a' from LD_PRELOAD cannot be preloaded (cannot open "
    "shared object file): ignored.",
    "foreign-runtime": "ImportError: /srv/_C.so: undefined symbol: "
    "__asan_option_detect_stack_use_after_return",
    "static-runtime": "==1==Your application is linked against incompatible ASan runtimes.",
    "deepbind": "==1==You are trying to dlopen a x.so shared library with RTLD_DEEPBIND flag which "
    "is incompatible with sanitizer runtime (see the issue for details).",
    "static-tls": "ImportError: libtsan.so.2: cannot allocate memory in static TLS block",
}
THREADS = (
    'ThreadSanitizer: CHECK failed: sanitizer_allocator_primary64.h:131 "((kSpaceBeg)) == '
    '((address_range.Init(TotalSpaceSize, PrimaryAllocatorName, kSpaceBeg)))" (0x7b0000000000)'
)


@pytest.mark.parametrize(("name", "text"), PRINTED.items())
def test_a_trap_is_known_by_its_words_and_names_its_fix(name: str, text: str) -> None:
    [trap] = find_traps(text)

    assert trap.name == name
    assert trap.remedy


def test_a_limit_of_the_address_space_stops_thread_sanitizer_too() -> None:
    assert [trap.name for trap in find_traps(THREADS)] == ["address-space"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x60b0",
        "==1==WARNING: AddressSanitizer failed to allocate 0xfff bytes",
    ],
)
def test_a_report_is_no_trap(text: str) -> None:
    assert find_traps(text) == ()
