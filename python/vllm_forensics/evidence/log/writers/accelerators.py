"""What the runtimes of GPUs and other accelerators report: errors that happened earlier."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import NCCL_WATCHDOG, ClueKind

_FAULT_IN_TITLE: Final = (
    r"^# (?=.{0,200}(?:GPU|gfx\d|\bMI\d{2,3}|(?i:ROCm)|HIP\b|HSA|[Pp]age not present)).{0,160}?"
    r"(?P<detail>[Mm]emory [Aa]ccess [Ff]ault\b.{0,100})"
)
_ILLEGAL_IN_TITLE: Final = (
    r"^# .{0,200}?(?P<detail>\b(?:CUDA|HIP|GPU|NPU) [Ii]llegal "
    r"(?:instruction|memory access|address)\b.{0,100})"
)
_DRIVERS: Final = (
    "ILLEGAL_ADDRESS|ILLEGAL_INSTRUCTION|MISALIGNED_ADDRESS|INVALID_ADDRESS_SPACE|INVALID_PC|"
    "LAUNCH_FAILED|LAUNCH_TIMEOUT|HARDWARE_STACK_ERROR|ASSERT|ECC_UNCORRECTABLE"
)
_RUNTIMES: Final = (
    "IllegalAddress|IllegalInstruction|MisalignedAddress|InvalidAddressSpace|InvalidPc|"
    "LaunchFailure|LaunchTimeOut|HardwareStackError|Assert|ECCUncorrectable"
)
WATCHDOG: Final = Family(
    source=NCCL_WATCHDOG,
    phrases=(
        Phrase(  # of its stack, where its own words are cut off
            ClueKind.STACK,
            "WorkNCCL::checkTimeout",
            r"^frame #\d{1,3}: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout\(",
            "frame #1: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<long>) + 0x1d2 "
            "(0x7f1be0001234 in /opt/torch/lib/libtorch_cuda.so)",
            detail="a collective operation took too long",
        ),
    ),
)
GPU: Final = Family(
    source="the GPU runtime",
    phrases=(
        Phrase(
            ClueKind.HANG,
            "aught collective operation timeout",
            r"(?:\[[^\]]{0,60}?(?P<name>Rank \d{1,20})\] )?"
            r"(?P<detail>Watchdog caught collective operation timeout.{0,160})",
            "[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, "
            "OpType=ALLREDUCE, NumelIn=4096, Timeout(ms)=600000) ran for 600010 milliseconds "
            "before timing out.",
        ),
        Phrase(
            ClueKind.HANG,
            " detected by watchdog at work",
            r"\[[^\]]{0,60}?(?P<name>Rank \d{1,20})\] {1,3}"
            r"(?P<detail>(?:Exception \(either an error or timeout\)|failure) detected by watchdog "
            r"at work.{0,120})",
            "[PG ID 2 PG GUID 3 Rank 3] Exception (either an error or timeout) detected by "
            "watchdog at work: 32, last enqueued NCCL work: 32, last completed NCCL work: 31.",
        ),
        Phrase(
            ClueKind.HANG,
            "watchdog got stuck for ",
            r"(?:\[[^\]]{0,60}?(?P<name>Rank \d{1,20})\] )?"
            r"(?P<detail>ProcessGroupNCCL's watchdog got stuck for \d{1,9} seconds.{0,120})",
            "[rank1]: ProcessGroupNCCL's watchdog got stuck for 480 seconds without making "
            "progress",
        ),
        Phrase(
            ClueKind.HANG,
            "ProcessGroupNCCL watchdog hang",
            r"(?P<detail>(?:Terminating the process .{0,80})?due to ProcessGroupNCCL watchdog "
            r"hang)",
            "[rank1]: Terminating the process after attempting to dump debug info, due to "
            "ProcessGroupNCCL watchdog hang.",
        ),
        Phrase(
            ClueKind.EXCEPTION,
            " out of memory",
            r"(?P<detail>(?:OutOfMemoryError|RuntimeError): (?:CUDA|HIP|XPU|MPS|NPU|MLU|MUSA)"
            r"(?: backend)? out of memory(?:\. | \().{0,160})",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        ),
        Phrase(  # Intel's driver
            ClueKind.GPU,
            "Segmentation fault from GPU at ",
            r"(?P<detail>Segmentation fault from GPU at 0x[0-9a-f]{1,16}\b.{0,160})",
            "Segmentation fault from GPU at 0xff00ffffffe00000, ctx_id: 1 (CCS) type: 0 "
            "(NotPresent), level: 1 (PDE), access: 0 (Read), banned: 1, aborting.",
            signal="SIGABRT",
        ),
        *(
            Phrase(  # a title that only names it; " error" alone stands in healthy lines
                ClueKind.GPU,
                f"{runtime} error",
                rf"^# .{{0,160}}?(?P<detail>\b{runtime} error\b(?!:).{{0,120}})",
                f"# [Bug] Crash with {runtime} error when two clients connect",
            )
            for runtime in ("CUDA", "HIP", "ROCm", "cuBLAS")
        ),
        Phrase(
            ClueKind.GPU,
            "CUDA error: ",
            r"(?:^.{0,120}?(?P<name>Rank \d{1,5})\].{0,160}?)?"
            r"(?P<detail>\bCUDA error: (?!invalid device ordinal|out of memory|"
            r"no kernel image|CUDA driver version is insuff).{1,120})",
            "RuntimeError: CUDA error: an illegal memory access was encountered",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "no kernel image is available",
            r"(?P<detail>(?:CUDA|HIP) error.{0,10}no kernel image is available for execution on "
            r"the device)",
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "CUDA driver version is insufficient",
            r"(?P<detail>\bCUDA error: CUDA driver version is insufficient for CUDA runtime)",
            "CUDA error: CUDA driver version is insufficient for CUDA runtime version",
        ),
        Phrase(  # cuda-gdb
            ClueKind.GPU,
            "CUDA Exception: ",
            r"(?P<detail>CUDA Exception: (?:Warp|Lane|Device|Cluster|Assert) ?[\w ]{0,60})",
            "CUDA Exception: Warp Illegal Address",
        ),
        *(
            Phrase(
                ClueKind.GPU,
                f"{runtime} error: ",
                rf"(?P<detail>(?<![A-Za-z]){runtime} error: (?!out of memory).{{1,160}})",
                f"RuntimeError: {runtime} error: an illegal memory access was encountered",
            )
            for runtime in ("HIP", "MUSA", "CNRT", "NPU function", "HCCL function")
        ),
        *(
            Phrase(  # the names of errors that a kernel made
                ClueKind.GPU,
                needle,
                rf"(?P<detail>\b{needle}(?:{names})\b.{{0,120}})",
                f"RuntimeError: the driver says {needle}{names.partition('|')[0]}",
                in_prose=True,
            )
            for needle, names in (
                ("CUDA_ERROR_", _DRIVERS),
                ("cudaError", _RUNTIMES),
                ("hipError", _RUNTIMES),
            )
        ),
        Phrase(
            ClueKind.GPU,
            "CUDA runtime error",
            r"(?P<detail>CUDA runtime error(?: in .{1,160})?(?: \(\d{1,4}\))?: "
            r"(?!out of memory|invalid device ordinal).{1,120})",
            "RuntimeError: CUDA runtime error: misaligned address",
        ),
        *(
            Phrase(ClueKind.GPU, needle, rf"(?P<detail>{pattern})", example)
            for needle, pattern, example in (
                # Ascend's: what was asked for, and its library's own records
                (
                    "stream synchronize failed",
                    r"\bACL stream synchronize failed, error code: ?\d{1,9}",
                    "RuntimeError: ACL stream synchronize failed, error code:507035",
                ),
                (
                    "Inner Error!",
                    r"\bE[A-Z]\d{4}: Inner Error!",
                    "EH9999: Inner Error!",
                ),
                (
                    "aicore e",
                    r"there is an? [\w ]{0,40}\baicore (?:error|exception).{0,120}",
                    "from device(chipId:4), there is an exception of aicore error, core id is 4",
                ),
                # Intel's, SYCL's and Vulkan's
                (
                    "Native API failed",
                    r"Native API failed\. Native API returns: "
                    r"(?!.{1,12}OUT_OF_\w{1,10}_MEMORY).{1,80}",
                    "RuntimeError: Native API failed. Native API returns: 20 (DEVICE_LOST)",
                ),
                (
                    "backend failed with error: ",
                    r"\w{3,20} backend failed with error: "
                    r"(?!.{1,12}OUT_OF_\w{1,10}_MEMORY).{1,80}",
                    "RuntimeError: level_zero backend failed with error: 20 (DEVICE_LOST)",
                ),
                (
                    "_DEVICE_LOST",
                    r"\b[A-Z]{2,8}_(?:RESULT_)?ERROR_DEVICE_LOST\b.{0,80}",
                    "error: UR_RESULT_ERROR_DEVICE_LOST",
                ),
                ("DeviceLost", r"\b\w{0,12}(?:::|Error)DeviceLost.{0,80}", "vk::DeviceLostError"),
                # Gaudi's
                (
                    "synStatus",
                    r"\bsynStatus=? ?(?!0\b|1\b)\d{1,3} \[.{1,60}\].{0,80}",
                    "RuntimeError: synStatus=26 [Generic failure] Device acquire failed.",
                ),
            )
        ),
        Phrase(
            ClueKind.GPU,
            "CUDA Error",
            r"(?P<detail>(?:CUDA|Cuda) [Ee]rror[^:]{0,80}: ?.{1,120})",
            "CUDA Error: unspecified launch failure",
        ),
        Phrase(
            ClueKind.GPU,
            "CUDA error ",
            r"(?P<detail>CUDA error \d{1,4} at \S{1,300}:\d{1,6}: (?!out of memory|invalid device|"
            r"initialization|no kernel).{1,120})",
            "CUDA error 716 at /src/ggml-cuda.cu:7104: misaligned address",
        ),
        Phrase(
            ClueKind.GPU,
            "CUDA failure ",
            r"(?P<detail>Cuda failure (?:\d{1,20} )?'[^']{1,100}')",
            "NCCL WARN Cuda failure 'an illegal memory access was encountered' CUDA failure x",
        ),
        Phrase(  # as after a fork: no work of the GPU's failed before
            ClueKind.ENVIRONMENT,
            "'initialization error'",
            r"(?P<detail>Cuda failure (?:\d{1,20} )?'initialization error')",
            "NCCL WARN Cuda failure 3 'initialization error'",
        ),
        Phrase(
            ClueKind.GPU,
            "Cuda failure ",
            r"(?P<detail>Cuda failure (?:\d{1,20} )?'(?!initialization error)[^']{1,100}')",
            "NCCL WARN Cuda failure 700 'an illegal memory access was encountered'",
        ),
        Phrase(
            ClueKind.GPU,
            "], thread: [",
            r"(?P<detail>(?<!\S)\S{1,200}:\d{1,20}: .{0,900}?block: \[[\d,]{1,200}\], thread:"
            r" \[[\d,]{1,200}\],? "
            r"Assertion .{1,200})",
            "/src/kernel.cu:12: void f(int): block: [0,0,0], thread: [1,0,0] Assertion `i < n' "
            "failed.",
        ),
        Phrase(
            ClueKind.GPU,
            "device-side assert",
            r"(?P<detail>device-side assert triggered)",
            "RuntimeError: device-side assert triggered",
        ),
        Phrase(
            ClueKind.GPU,
            "Memory access fault by GPU",
            r"(?P<detail>Memory access fault by GPU.{0,120})",
            "Memory access fault by GPU node-1 (Agent handle: 0x5581) on address 0x7f1be0000000. "
            "Reason: Unknown.",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.GPU,
            "NCCL error",
            r"(?P<detail>NCCL error(?: in| \d{1,4})?(?:: ?| at |, | '|$).{0,160})",
            "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        ),
        *(
            Phrase(
                ClueKind.GPU,
                needle,
                rf"(?P<detail>(?:\bNCCL.{{0,40}}?)?\b[Uu]{needle}.{{0,120}})",
                f"RuntimeError: the communicator 0x5581: u{needle}",
            )
            for needle in ("nhandled cuda error", "nhandled system error")
        ),
        Phrase(
            ClueKind.GPU,
            "DistBackendError",
            r"(?P<detail>DistBackendError: .{1,160})",
            "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 1.",
        ),
        Phrase(
            ClueKind.GPU,
            "CUBLAS_STATUS_",
            r"(?P<detail>(?:CUDA error: )?CUBLAS_STATUS_(?!SUCCESS)\w{1,60}.{0,80})",
            "RuntimeError: CUBLAS_STATUS_EXECUTION_FAILED when calling cublasGemmEx",
        ),
        *(
            Phrase(ClueKind.GPU, needle, pattern, example)
            for needle, pattern, example in (
                (
                    "CUDA driver error: ",
                    r"(?P<detail>CUDA driver error: (?!invalid device|out of memory).{1,120})",
                    "RuntimeError: CUDA driver error: an unknown error occurred",
                ),
                (
                    "HSA_STATUS_ERROR_",
                    r"(?P<detail>HSA_STATUS_ERROR_\w{1,60}.{0,120})",
                    "Queue 0x7f1be0000000 aborting with error : HSA_STATUS_ERROR_EXCEPTION: fault",
                ),
                (
                    "_L2_PROTECTION_FAULT_STATUS",
                    r"(?P<detail>\b\w{0,3}VM_L2_PROTECTION_FAULT_STATUS: ?0x(?!0{8})"
                    r"[0-9A-Fa-f]{8})",
                    "amdgpu 0000:c6:00.0: amdgpu: VM_L2_PROTECTION_FAULT_STATUS:0x00341051",
                ),
                (
                    "amdgpu:  for process ",
                    r"(?P<detail>amdgpu: {1,3}for process (?P<name>[\w.-]{1,40}) "
                    r"pid (?P<pid>\d{1,9}) thread )",
                    "amdgpu 0000:66:00.0: amdgpu:  for process serve pid 42 thread serve pid 42)",
                ),
                (
                    " illegal ",
                    _ILLEGAL_IN_TITLE,
                    "# [Bug]: CUDA illegal instruction during decode on a GB10",
                ),
                (
                    "emory access fault",
                    _FAULT_IN_TITLE,
                    "# Memory access fault - page not present or supervisor privilege",
                ),
                (
                    "emory Access Fault",
                    _FAULT_IN_TITLE,
                    "# [Issue]: Memory Access Fault When Running a Model on MI300X",
                ),
                (
                    "page fault (src_id:",
                    r"(?P<detail>\[\w{3,10}\] (?:no-retry )?page fault \(src_id:.{0,90}?"
                    r"(?: for process (?P<name>[\w.-]{1,40}) pid (?P<pid>\d{1,9})\b.{0,60}|$|\)))",
                    "amdgpu 0000:41:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8)",
                ),
            )
        ),
        *(
            Phrase(  # torch's advice below an error, of which it is all that is left
                ClueKind.STACK,
                needle,
                rf"^For debugging consider passing {needle}",
                f"For debugging consider passing {needle}1",
                detail="an error of the GPU, whose own line is cut off",
            )
            for needle in ("CUDA_LAUNCH_BLOCKING=", "AMD_SERIALIZE_KERNEL=", "HIP_LAUNCH_BLOCKING=")
        ),
        Phrase(  # 63: memory was exchanged for spare memory; 92: many errors that were corrected
            ClueKind.GPU,
            "NVRM: Xid ",
            r"(?P<detail>NVRM: Xid \(.{1,30}\): (?!63,|92,)\d{1,20}, (?:pid='?(?P<pid>\d{1,20})'?"
            r"(?:, name=(?P<name>[\w./:+-]{1,60}))?)?.{0,120})",
            "NVRM: Xid (PCI:0000:41:00): 31, pid=4242, name=python, Ch 00000008, MMU Fault",
        ),
    ),
)
