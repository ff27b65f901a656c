#ifndef VLLM_FORENSICS_SUPERVISOR_CORE_MINIFIER_H_
#define VLLM_FORENSICS_SUPERVISOR_CORE_MINIFIER_H_

#include <cstdint>
#include <string>

#include "supervisor/live_capture.h"

namespace forensics {

/// Cuts the core at `source` down to a minicore at `target`, by the choice that is made of a live
/// process. Its notes are taken over; `options.folder` is not used. Throws std::exception.
std::uint64_t minify_core(const std::string& source, const std::string& target,
                          const CaptureOptions& options);

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_CORE_MINIFIER_H_
