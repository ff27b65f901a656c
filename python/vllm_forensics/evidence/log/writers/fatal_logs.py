"""The last line of what logs an error as fatal and ends: glog, absl, TensorFlow, klog, Ray."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

_PLACE: Final = r"[\w./+-]{1,200}\.(?:cc|cpp|cxx|cu|h|hpp|inl|go|rs|py):\d{1,6}\]"
_GLOG: Final = r"F(?:0\d|1[0-2])[0-3]\d \d\d:\d\d:\d\d\.\d{3,9} {1,8}\d{1,9} "
FATAL_LOGS: Final = Family(
    source="the C++ runtime",
    phrases=(
        Phrase(
            ClueKind.ABORT,
            "Attempting to fetch value instead of handling error",
            r"(?P<detail>Attempting to fetch value instead of handling error.{0,200})",
            "2026-01-15 08:12:45.123: F tsl/platform/statusor.cc:33] Attempting to fetch value "
            "instead of handling error INTERNAL: no device",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.GPU,
            " == cudaSuccess (",
            r"(?P<detail>Check failed: \w{1,40} == cudaSuccess \(\d{1,4} vs\. 0\) {1,4}"
            r"(?!out of memory|invalid device|no kernel).{1,120})",
            "F0115 08:12:45.123456 4242 pool.hpp:18] Check failed: error == cudaSuccess (77 vs. 0) "
            " an illegal memory access was encountered",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "Check failed: ",
            r"(?P<detail>Check failed: .{1,200})",
            "F0115 08:12:45.123456 4242 allocator.cc:77] Check failed: block != nullptr",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "Non-OK-status: ",
            r"(?P<detail>Non-OK-status: .{1,200})",
            "F tensorflow/core/pool.cc:12] Non-OK-status: Load(&pool) status: INTERNAL: broken",
            signal="SIGABRT",
        ),
        *(
            Phrase(  # the level, and the month's first digit
                ClueKind.ABORT,
                needle,
                rf"(?:^|[\s|]){_GLOG}(?P<detail>{_PLACE} \S.{{0,200}})",
                f"{needle}115 08:12:45.123456 4242 server.cc:108] cannot open the pool",
            )
            for needle in ("F0", "F1")
        ),
        *(
            Phrase(
                ClueKind.ABORT,
                needle,
                rf"(?:^|[\s|])F (?P<detail>{_PLACE} \S.{{0,200}})",
                f"2026-01-15 08:12:45.123: {needle}pool/take.cc:33] cannot take a block",
                signal="SIGABRT",
            )
            for needle in ("F tensorflow/", "F external/", "F tsl/", "F xla/")
        ),
    ),
)
