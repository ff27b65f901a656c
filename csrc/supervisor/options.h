#ifndef VLLM_FORENSICS_SUPERVISOR_OPTIONS_H_
#define VLLM_FORENSICS_SUPERVISOR_OPTIONS_H_

#include <sys/types.h>

#include <string>

#include "supervisor/live_capture.h"

namespace forensics {

extern const char* const kUsage;

/// What the command line asks for.
struct Options {
  CaptureOptions capture;
  std::string events;              // empty: none
  char* const* command = nullptr;  // borrowed from argv; ends in a null pointer
  std::string minify;              // a core to cut down, instead of a command
  std::string minified;            // where to
  pid_t snapshot = 0;              // a living process, instead of a command
  bool show_help = false;
};

/// Throws std::invalid_argument with what is wrong.
[[nodiscard]] Options parse_options(int argc, char** argv);

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_OPTIONS_H_
