#ifndef VLLM_FORENSICS_SUPERVISOR_JSON_EVENTS_H_
#define VLLM_FORENSICS_SUPERVISOR_JSON_EVENTS_H_

#include <sys/types.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/json_object.h"
#include "supervisor/unique_fd.h"

namespace forensics {

/// Appends what happens to a file, one JSON object a line, one write a line. Arguments behind the
/// first are counted, never written: they may hold secrets.
class JsonEvents {
 public:
  /// Writes nothing at all.
  JsonEvents() = default;

  /// Throws std::system_error if `path` cannot be opened.
  explicit JsonEvents(const std::string& path);

  [[nodiscard]] bool is_on() const { return static_cast<bool>(file_); }

  /// -1 where it writes nothing.
  [[nodiscard]] int file() const { return file_.get(); }

  void start(pid_t pid, pid_t parent, const std::vector<std::string>& arguments) const;
  void exec(pid_t pid, const std::vector<std::string>& arguments) const;
  void fault(pid_t pid, pid_t tid, const siginfo_t& signal, bool handled) const;
  void snapshot(pid_t pid, const std::string& path, std::uint64_t bytes, std::uint64_t ms) const;
  void core(pid_t pid, const std::string& path, std::uint64_t bytes, std::uint64_t ms) const;
  /// `status` as wait(2) gives it.
  void exit(pid_t pid, int status, std::optional<std::uint64_t> oom_kills_before,
            std::optional<std::uint64_t> oom_kills_after) const;
  /// `what` went wrong, and what follows from it.
  void error(pid_t pid, const std::string& what) const;

 private:
  void wrote(const char* what, pid_t pid, const std::string& path, std::uint64_t bytes,
             std::uint64_t ms) const;
  void write(JsonObject& event) const;

  UniqueFd file_;
};

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_JSON_EVENTS_H_
