"""Every family of phrases, in the order in which they are tried: the first that fits decides."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.accelerators import GPU, WATCHDOG
from vllm_forensics.evidence.log.apple import APPLE
from vllm_forensics.evidence.log.containers import CONTAINERS
from vllm_forensics.evidence.log.coredumps import COREDUMPS
from vllm_forensics.evidence.log.daemons import DAEMONS, POSTGRES, RUNNERS
from vllm_forensics.evidence.log.engine import VLLM
from vllm_forensics.evidence.log.exit_statuses import STATUSES
from vllm_forensics.evidence.log.faulthandler import DUMPS
from vllm_forensics.evidence.log.glibc import GLIBC
from vllm_forensics.evidence.log.handler_frames import HANDLER_FRAMES, PANIC_FRAMES
from vllm_forensics.evidence.log.harnesses import COMPILERS, LIMITS, NOTEBOOKS, SERVERS, TESTS
from vllm_forensics.evidence.log.inits import INITS
from vllm_forensics.evidence.log.interpreters import ENDS, FAULTS
from vllm_forensics.evidence.log.kernel import KERNEL
from vllm_forensics.evidence.log.kernels_abroad import KERNELS_ABROAD
from vllm_forensics.evidence.log.languages import (
    ANDROID,
    BACKWARD,
    FRAMEWORKS,
    JAVA,
    JULIA,
    NODE,
    PADDLE,
    RUBY,
    TVM,
    R,
)
from vllm_forensics.evidence.log.launchers import BATCH, MACHINE
from vllm_forensics.evidence.log.masters import MASTERS
from vllm_forensics.evidence.log.oops import KERNELS
from vllm_forensics.evidence.log.parents import PYTHON, RAY
from vllm_forensics.evidence.log.phrases import PhraseBook
from vllm_forensics.evidence.log.runtimes import CXX, HANDLERS, PANICS
from vllm_forensics.evidence.log.schedulers import SCHEDULERS
from vllm_forensics.evidence.log.services import LOADER, SHARED_MEMORY, SHELL
from vllm_forensics.evidence.log.shells import ABROAD, RESTARTS, SENDERS
from vllm_forensics.evidence.log.strangers import (
    BROWSERS,
    DATABASES,
    DOTNET,
    GAMES,
    INTERPRETERS,
    MINIDUMPS,
)
from vllm_forensics.evidence.log.systemd import SYSTEMD
from vllm_forensics.evidence.log.toolkits import QT, TCL
from vllm_forensics.evidence.log.traced import STRACE

FAMILIES: Final = (
    KERNEL, KERNELS_ABROAD, KERNELS,
    # what the dying process itself writes
    GLIBC, HANDLERS, DUMPS, FAULTS, ENDS, DAEMONS, APPLE, WATCHDOG, GPU, PANICS, CXX, JAVA, JULIA,
    NODE, R, RUBY, ANDROID, BACKWARD, PADDLE, FRAMEWORKS, QT, TCL, COMPILERS, BROWSERS, DATABASES,
    GAMES, TVM, MINIDUMPS, INTERPRETERS, DOTNET, HANDLER_FRAMES, PANIC_FRAMES,
    # what it lacks
    LOADER, SHARED_MEMORY, LIMITS,
    # what others say of it, the ones that know most first
    RAY, VLLM, STRACE, TESTS, NOTEBOOKS, SERVERS, PYTHON, COREDUMPS, SYSTEMD, INITS, BATCH,
    SCHEDULERS, RUNNERS, SHELL, POSTGRES, MASTERS, CONTAINERS, ABROAD, STATUSES, MACHINE,
    RESTARTS, SENDERS,
)  # fmt: skip
BOOK: Final = PhraseBook(FAMILIES)
