#include "supervisor/options.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

namespace forensics {

const char* const kUsage =
    "usage: forensics-supervisor --output DIR [OPTION...] -- COMMAND [ARGUMENT...]\n"
    "       forensics-supervisor --minify CORE OUT [--budget BYTES]\n"
    "       forensics-supervisor --snapshot PID --output DIR [--budget BYTES]\n"
    "\n"
    "Runs COMMAND and everything that it starts; writes a small core dump of each process that\n"
    "dies of a fatal signal, whatever core_pattern and limits say. Needs no root.\n"
    "\n"
    "  --output DIR       where DIR/core.NAME.PID.SECONDS goes (mode 0600)\n"
    "  --budget BYTES     how much memory a core may hold (default 67108864; suffixes K, M, G)\n"
    "  --full             keep all that the kernel's core would hold\n"
    "  --events FILE      append what happens as JSON lines\n"
    "  --include-secrets  keep the environment and the arguments in the core\n"
    "  --minify CORE OUT  cut an existing core down by the same choice of pages\n"
    "  --snapshot PID     write a core of a living process, print its path, let the process go on\n"
    "\n"
    "Exit status: COMMAND's own, 128 + n if signal n ended it, 127 if it was not found, 126 if it\n"
    "could not be run, 125 if the supervisor failed before it ran.\n"
    "SIGKILL to the supervisor: the program runs on, unsupervised.\n"
    "SIGUSR2 to the supervisor: a core of every process of the tree, which then goes on.\n";

namespace {

std::uint64_t parse_bytes(std::string_view text) {
  char* end = nullptr;
  errno = 0;
  const std::string copy(text);
  const std::uint64_t number = std::strtoull(copy.c_str(), &end, 10);
  const std::string_view suffix(end);
  unsigned int shift = 0;
  if (suffix == "K") {
    shift = 10;
  } else if (suffix == "M") {
    shift = 20;
  } else if (suffix == "G") {
    shift = 30;
  } else if (!suffix.empty()) {
    shift = 64;
  }
  if (copy.empty() || copy.front() < '0' || copy.front() > '9' || errno != 0 || shift == 64 ||
      number > (UINT64_MAX >> shift)) {
    throw std::invalid_argument("--budget " + copy + ": give a number of bytes, as 64M");
  }
  return number << shift;
}

pid_t parse_pid(const std::string& text) {
  char* end = nullptr;
  const long number = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || number <= 0 || number > INT32_MAX) {
    throw std::invalid_argument("--snapshot " + text + ": give a process id");
  }
  return static_cast<pid_t>(number);
}

/// Walks over argv; an option that needs a value and has none is an error.
class Arguments {
 public:
  Arguments(int argc, char** argv) : argc_(argc), argv_(argv) {}

  [[nodiscard]] bool at_end() const { return next_ >= argc_; }
  [[nodiscard]] std::string_view take() { return argv_[next_++]; }
  [[nodiscard]] std::string value_of(std::string_view option) {
    if (at_end()) {
      throw std::invalid_argument(std::string(option) + " needs a value");
    }
    return argv_[next_++];
  }
  [[nodiscard]] char* const* rest() const { return argv_ + next_; }

 private:
  int argc_;
  char** argv_;
  int next_ = 1;
};

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  Arguments arguments(argc, argv);
  while (!arguments.at_end()) {
    const std::string_view option = arguments.take();
    if (option == "--") {
      break;
    }
    if (option == "--output") {
      options.capture.folder = arguments.value_of(option);
    } else if (option == "--budget") {
      options.capture.budget = parse_bytes(arguments.value_of(option));
    } else if (option == "--full") {
      options.capture.everything = true;
    } else if (option == "--events") {
      options.events = arguments.value_of(option);
    } else if (option == "--include-secrets") {
      options.capture.include_secrets = true;
    } else if (option == "--minify") {
      options.minify = arguments.value_of(option);
      options.minified = arguments.value_of(option);
    } else if (option == "--snapshot") {
      options.snapshot = parse_pid(arguments.value_of(option));
    } else if (option == "--help" || option == "-h") {
      options.show_help = true;
      return options;
    } else {
      throw std::invalid_argument("unknown option " + std::string(option) + "; see --help");
    }
  }
  options.command = arguments.rest();
  if (options.snapshot != 0 && !options.capture.folder.empty()) {
    return options;
  }
  if (options.minify.empty() && (arguments.at_end() || options.capture.folder.empty())) {
    throw std::invalid_argument("give --output DIR and, behind --, a command; see --help");
  }
  return options;
}

}  // namespace forensics
