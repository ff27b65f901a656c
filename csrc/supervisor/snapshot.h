#ifndef VLLM_FORENSICS_SUPERVISOR_SNAPSHOT_H_
#define VLLM_FORENSICS_SUPERVISOR_SNAPSHOT_H_

#include <sys/types.h>

#include "supervisor/live_capture.h"

namespace forensics {

/// Writes a minicore of a living process that nobody traces. Its threads are stopped only
/// meanwhile; they are let go even if the writing fails. Throws std::exception with the reason.
WrittenCore snapshot_process(pid_t pid, const CaptureOptions& options);

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_SNAPSHOT_H_
