"""Every family of phrases, in the order in which they are tried: the first that fits decides."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import PhraseBook
from vllm_forensics.evidence.log.stacks.faulthandler import DUMPS
from vllm_forensics.evidence.log.stacks.handler_frames import HANDLER_FRAMES, PANIC_FRAMES
from vllm_forensics.evidence.log.traced import STRACE
from vllm_forensics.evidence.log.writers.accelerators import GPU, WATCHDOG
from vllm_forensics.evidence.log.writers.apple import APPLE
from vllm_forensics.evidence.log.writers.applications import BACKENDS, BLENDER, RPCS3
from vllm_forensics.evidence.log.writers.containers import CONTAINERS
from vllm_forensics.evidence.log.writers.coredumps import COREDUMPS
from vllm_forensics.evidence.log.writers.daemons import DAEMONS, POSTGRES, RUNNERS
from vllm_forensics.evidence.log.writers.embedded import EMBEDDED
from vllm_forensics.evidence.log.writers.engine import VLLM
from vllm_forensics.evidence.log.writers.exit_statuses import STATUSES
from vllm_forensics.evidence.log.writers.fatal_logs import FATAL_LOGS
from vllm_forensics.evidence.log.writers.glibc import GLIBC
from vllm_forensics.evidence.log.writers.harnesses import (
    COMPILERS,
    LIMITS,
    NOTEBOOKS,
    SERVERS,
    TESTS,
)
from vllm_forensics.evidence.log.writers.inits import INITS
from vllm_forensics.evidence.log.writers.interpreters import ENDS, ERLANG, FAULTS
from vllm_forensics.evidence.log.writers.kernel import KERNEL
from vllm_forensics.evidence.log.writers.kernels_abroad import KERNELS_ABROAD
from vllm_forensics.evidence.log.writers.languages import (
    ANDROID,
    BACKWARD,
    FRAMEWORKS,
    GO,
    JAVA,
    JULIA,
    NODE,
    PADDLE,
    RUBY,
    TVM,
    R,
)
from vllm_forensics.evidence.log.writers.launchers import BATCH, MACHINE, ROBOTS
from vllm_forensics.evidence.log.writers.listings import LISTINGS
from vllm_forensics.evidence.log.writers.masters import MASTERS, PHP_FPM
from vllm_forensics.evidence.log.writers.oops import KERNELS
from vllm_forensics.evidence.log.writers.parents import PYTHON, RAY
from vllm_forensics.evidence.log.writers.runtimes import CXX, HANDLERS, PANICS
from vllm_forensics.evidence.log.writers.sanitizers import SANITIZERS
from vllm_forensics.evidence.log.writers.schedulers import SCHEDULERS
from vllm_forensics.evidence.log.writers.services import CHILDREN, LOADER, SHARED_MEMORY
from vllm_forensics.evidence.log.writers.shells import ABROAD, RESTARTS, SENDERS
from vllm_forensics.evidence.log.writers.strangers import (
    BROWSERS,
    CLICKHOUSE,
    DATABASES,
    DOTNET,
    GAMES,
    INTERPRETERS,
    MATLAB,
    MINIDUMPS,
    UNREAL,
)
from vllm_forensics.evidence.log.writers.systemd import SYSTEMD
from vllm_forensics.evidence.log.writers.toolkits import GLIB, QT, TCL
from vllm_forensics.evidence.log.writers.windows_kernel import DELPHI, HANGS, STOPS
from vllm_forensics.evidence.log.writers.workers import WORKERS

FAMILIES: Final = (
    KERNEL, KERNELS_ABROAD, KERNELS, STOPS, HANGS,
    # what the dying process itself writes
    GLIBC, HANDLERS, DUMPS, FAULTS, ENDS, ERLANG, DAEMONS, APPLE, WATCHDOG, GPU, PANICS, CXX,
    FATAL_LOGS, JAVA, JULIA, NODE, R, RUBY, ANDROID, BACKWARD, PADDLE, FRAMEWORKS, QT, GLIB, TCL,
    COMPILERS, BROWSERS, CLICKHOUSE, DATABASES, GAMES, UNREAL, TVM, MATLAB, MINIDUMPS,
    INTERPRETERS, DOTNET, DELPHI, HANDLER_FRAMES, SANITIZERS, PANIC_FRAMES,
    EMBEDDED, PHP_FPM, GO, BACKENDS, BLENDER, RPCS3,
    # what it lacks
    LOADER, SHARED_MEMORY, LIMITS,
    # what others say of it, the ones that know most first
    RAY, VLLM, ROBOTS, STRACE, TESTS, NOTEBOOKS, SERVERS, PYTHON, WORKERS, COREDUMPS, SYSTEMD,
    INITS, BATCH, SCHEDULERS, RUNNERS, CHILDREN, POSTGRES, MASTERS, CONTAINERS, LISTINGS, ABROAD,
    STATUSES, MACHINE, RESTARTS, SENDERS,
)  # fmt: skip
BOOK: Final = PhraseBook(FAMILIES)
