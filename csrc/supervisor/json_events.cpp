#include "supervisor/json_events.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <system_error>

namespace forensics {
namespace {

JsonObject named(const char* name, pid_t pid) {
  JsonObject event;
  event.add("event", name);
  event.add("pid", pid);
  return event;
}

void add_command(JsonObject& event, const std::vector<std::string>& arguments) {
  if (!arguments.empty()) {
    event.add("command", arguments.front());
  }
  event.add("arguments", arguments.empty() ? 0 : arguments.size() - 1);
}

}  // namespace

JsonEvents::JsonEvents(const std::string& path)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY,
                   S_IRUSR | S_IWUSR)) {
  if (!file_) {
    throw std::system_error(errno, std::generic_category(), path);
  }
}

void JsonEvents::start(pid_t pid, pid_t parent, const std::vector<std::string>& arguments) const {
  JsonObject event = named("start", pid);
  event.add("parent", parent);
  add_command(event, arguments);
  write(event);
}

void JsonEvents::exec(pid_t pid, const std::vector<std::string>& arguments) const {
  JsonObject event = named("exec", pid);
  add_command(event, arguments);
  write(event);
}

void JsonEvents::fault(pid_t pid, pid_t tid, const siginfo_t& signal, bool handled) const {
  JsonObject event = named("fault", pid);
  event.add("tid", tid);
  event.add("signo", signal.si_signo);
  event.add("code", signal.si_code);
  if (signal.si_code > 0 && signal.si_code != SI_KERNEL) {  // which comes without an address
    event.add_hex("address", reinterpret_cast<std::uint64_t>(signal.si_addr));
  } else {
    event.add_raw("address", "null");
  }
  if (signal.si_code <= 0) {
    event.add("sender_pid", signal.si_pid);
  }
  event.add("handled", handled);
  write(event);
}

void JsonEvents::core(pid_t pid, const std::string& path, std::uint64_t bytes,
                      std::uint64_t ms) const {
  wrote("core", pid, path, bytes, ms);
}

void JsonEvents::snapshot(pid_t pid, const std::string& path, std::uint64_t bytes,
                          std::uint64_t ms) const {
  wrote("snapshot", pid, path, bytes, ms);
}

void JsonEvents::wrote(const char* what, pid_t pid, const std::string& path, std::uint64_t bytes,
                       std::uint64_t ms) const {
  JsonObject event = named(what, pid);
  event.add("path", path);
  event.add("bytes", bytes);
  event.add("milliseconds", ms);
  write(event);
}

void JsonEvents::exit(pid_t pid, int status, std::optional<std::uint64_t> oom_kills_before,
                      std::optional<std::uint64_t> oom_kills_after) const {
  JsonObject event = named("exit", pid);
  if (WIFSIGNALED(status)) {
    event.add_raw("status", "null");
    event.add("signal", WTERMSIG(status));
  } else {
    event.add("status", WEXITSTATUS(status));
    event.add_raw("signal", "null");
  }
  if (oom_kills_before && oom_kills_after) {
    event.add("oom_kills_before", *oom_kills_before);
    event.add("oom_kills_after", *oom_kills_after);
  }
  write(event);
}

void JsonEvents::error(pid_t pid, const std::string& what) const {
  JsonObject event = named("error", pid);
  event.add("message", what);
  write(event);
}

void JsonEvents::write(JsonObject& event) const {
  if (!file_) {
    return;
  }
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::string ms = std::to_string(now.tv_nsec / 1'000'000);
  event.add_raw("time", std::to_string(now.tv_sec) + "." + std::string(3 - ms.size(), '0') + ms);
  const std::string line = event.text() + "\n";
  // A full disk loses the line: there is nobody to tell, and the program goes on.
  while (::write(file_.get(), line.data(), line.size()) < 0 && errno == EINTR) {
  }
}

}  // namespace forensics
