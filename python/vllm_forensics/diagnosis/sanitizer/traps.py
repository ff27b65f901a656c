"""How a sanitizer fails before it finds anything: its own words, what they mean, what to do."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.model.report import Crash
from vllm_forensics.model.sanitized import Trap

ALLOCATORS: Final = ("jemalloc", "tcmalloc", "mimalloc", "hoard", "snmalloc")
"""Libraries that take malloc over, by a part of their file names."""
LINK_ORDER: Final = Trap(
    name="link-order",
    what="another library was loaded before AddressSanitizer's runtime, so part of the program "
    "allocates beside it",
    remedy="take jemalloc and tcmalloc out of LD_PRELOAD; of what is left, the runtime comes first",
)
LINK_ORDER_REFUSED: Final = Trap(
    name="verify-asan-link-order",
    what="verify_asan_link_order=0 hides that the runtime came too late: what was allocated before "
    "it is not watched, and freeing that is reported as a fault that is none",
    remedy="take it out of ASAN_OPTIONS: forensics run puts the runtime first",
)
SHADOW: Final = Trap(
    name="shadow-memory",
    what="the memory that AddressSanitizer needs for its shadow was taken: by a second runtime in "
    "the process, or by addresses that the kernel randomises too widely for GCC up to 13 and LLVM "
    "up to 17",
    remedy="one runtime only (forensics build --asan with one compiler); as root: sysctl "
    "vm.mmap_rnd_bits=28",
)
ADDRESS_SPACE: Final = Trap(
    name="address-space",
    what="the runtime could not reserve its shadow of many terabytes, of which it touches little",
    remedy="ulimit -v unlimited; as root: sysctl vm.overcommit_memory=0",
)
LOG_PATH: Final = Trap(
    name="log-path",
    what="the runtime cannot write its report where log_path points",
    remedy="give a --folder that the program's user may write to, and no log_path in ASAN_OPTIONS",
)
_TRAPS: Final = (
    (r"ASan runtime does not come first in initial library list", LINK_ORDER),
    (r"Shadow memory range interleaves with an existing memory mapping", SHADOW),
    (r"ThreadSanitizer: unexpected memory mapping", SHADOW),
    (r"(?i)incompatible ASan runtimes", Trap(
        name="static-runtime",
        what="one part of the program has AddressSanitizer's runtime linked in, another loads it",
        remedy="link every module with -shared-libsan (clang), without -static-libasan (gcc)",
    )),
    (r"undefined symbol: __(?:a|t|m|ub|hwa)san_", Trap(
        name="foreign-runtime",
        what="a module was built for the runtime of another compiler, or of a newer one, than the "
        "one in the process",
        remedy="forensics run --build DIR, the folder of the module: its own runtime is taken then",
    )),
    (r"ReserveShadowMemoryRange failed|(?:Address|Thread)Sanitizer failed to allocate "
     r"0x[0-9a-f]{9,}|address_range\.Init\(TotalSpaceSize", ADDRESS_SPACE),
    (r"ERROR: Can't (?:open file|create directory): ", LOG_PATH),
    (r"with RTLD_DEEPBIND flag which is incompatible with sanitizer", Trap(
        name="deepbind",
        what="a library is loaded with RTLD_DEEPBIND: its calls go past the runtime",
        remedy="load it without RTLD_DEEPBIND",
    )),
    (r"from LD_PRELOAD cannot be preloaded", Trap(
        name="preload",
        what="a library that LD_PRELOAD names is not there: a path with a space or a colon is two "
        "paths to the loader",
        remedy="forensics run --asan links such paths elsewhere; without it, use a link without "
        "spaces",
    )),
    (r"CHECK failed: [^\n]*real___cxa_throw", Trap(
        name="cxa-throw",
        what="libstdc++ came later than the runtime, which then knows no __cxa_throw: the first "
        "exception ends the program",
        remedy="preload libstdc++ behind the runtime, as forensics run --asan does",
    )),
    (r"LeakSanitizer does not work under ptrace|LeakSanitizer has encountered a fatal error", Trap(
        name="leaks-under-ptrace",
        what="leaks are looked for with ptrace, and a process has one tracer",
        remedy="ASAN_OPTIONS=detect_leaks=0, or forensics run with detect_leaks=1: it does not "
        "trace then",
    )),
    (r"Fatal error at startup: a function redirection", Trap(
        name="valgrind-redirection",
        what="valgrind needs the names inside of the C library's loader, which is stripped here",
        remedy="apt-get install libc6-dbg",
    )),
    (r"cannot allocate memory in static TLS block", Trap(
        name="static-tls",
        what="the runtime was loaded too late for its thread-local memory",
        remedy="preload it, or export GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096",
    )),
)  # fmt: skip
_COMPILED: Final = tuple((re.compile(pattern), trap) for pattern, trap in _TRAPS)
_MAX_TEXT: Final = 1 << 20


def trap_of_abort(crash: Crash) -> Trap | None:
    """Why a runtime ended a process without a report: what was mapped, and who was loading it.

    At its start a runtime complains on standard error, whatever log_path says.
    """
    runtimes = sorted(
        {
            module.path.rsplit("/", 1)[-1]
            for module in crash.modules
            if re.search(r"/lib(?:asan\.so|clang_rt\.asan)", module.path)
        }
    )
    if len(runtimes) > 1:
        return Trap(
            name=SHADOW.name,
            what=f"two runtimes of AddressSanitizer met in it, {' and '.join(runtimes)}: there is "
            "room for the shadow memory of one",
            remedy=SHADOW.remedy,
        )
    functions = {frame.function for thread in crash.threads for frame in thread.stack.frames}
    if runtimes and "_dl_init" in functions:
        return LINK_ORDER
    return None


def find_traps(text: str) -> tuple[Trap, ...]:
    """The traps whose words stand in what a program or its runtime printed."""
    head = text[:_MAX_TEXT]
    return tuple(trap for pattern, trap in _COMPILED if pattern.search(head))
