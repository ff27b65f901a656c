#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "supervisor/core_minifier.h"
#include "supervisor/json_events.h"
#include "supervisor/launcher.h"
#include "supervisor/live_capture.h"
#include "supervisor/options.h"
#include "supervisor/snapshot.h"
#include "supervisor/tracer.h"

namespace forensics {
namespace {

/// A shell's view of a status that wait(2) gave: 128 + n for signal n.
int shell_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int supervise(const Options& options) {
  const JsonEvents events = options.events.empty() ? JsonEvents() : JsonEvents(options.events);
  Launcher program(options.command, events.file());
  Tracer tracer(program, options.capture, events);
  return shell_status(tracer.run(options.command[0]));
}

}  // namespace
}  // namespace forensics

int main(int argc, char** argv) {
  try {
    const forensics::Options options = forensics::parse_options(argc, argv);
    if (options.show_help) {
      static_cast<void>(std::fputs(forensics::kUsage, stdout));
      return 0;
    }
    if (!options.minify.empty()) {
      forensics::minify_core(options.minify, options.minified, options.capture);
      return 0;
    }
    if (options.snapshot != 0) {
      const forensics::WrittenCore core =
          forensics::snapshot_process(options.snapshot, options.capture);
      static_cast<void>(std::printf("%s\n", core.path.c_str()));
      return 0;
    }
    return forensics::supervise(options);
  } catch (const std::exception& error) {
    static_cast<void>(std::fprintf(stderr, "forensics-supervisor: %s\n", error.what()));
    return 125;  // what env(1) and timeout(1) use for a failure of their own
  }
}
