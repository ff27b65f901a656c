#include "supervisor/snapshot.h"

#include <dirent.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

namespace forensics {
namespace {

constexpr std::chrono::seconds kPatience{2};
constexpr useconds_t kPause = 100;

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

std::vector<pid_t> list_threads(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/task";
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir(path.c_str()));
  if (!folder) {
    throw std::system_error(errno, std::generic_category(), "process " + std::to_string(pid));
  }
  std::vector<pid_t> threads;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread reads this folder
  while (const dirent* entry = ::readdir(folder.get())) {
    const long tid = std::strtol(static_cast<const char*>(entry->d_name), nullptr, 10);
    if (tid > 0) {
      threads.push_back(static_cast<pid_t>(tid));
    }
  }
  return threads;
}

/// Threads of a process that are attached, and let go at the end whatever happens.
class StoppedThreads {
 public:
  explicit StoppedThreads(pid_t pid) {
    // A thread may start another while it is looked at: until nothing new is found.
    bool is_new = true;
    while (is_new) {
      is_new = false;
      for (const pid_t tid : list_threads(pid)) {
        is_new = attach(tid, pid) || is_new;
      }
    }
  }
  StoppedThreads(const StoppedThreads&) = delete;
  StoppedThreads& operator=(const StoppedThreads&) = delete;
  StoppedThreads(StoppedThreads&&) = delete;
  StoppedThreads& operator=(StoppedThreads&&) = delete;
  ~StoppedThreads() {
    for (const pid_t tid : attached_) {
      ::ptrace(PTRACE_DETACH, tid, nullptr, nullptr);
    }
  }

  [[nodiscard]] const std::vector<pid_t>& stopped() const { return stopped_; }
  [[nodiscard]] std::size_t missing() const { return attached_.size() - stopped_.size(); }

 private:
  bool attach(pid_t tid, pid_t pid) {
    if (std::find(attached_.begin(), attached_.end(), tid) != attached_.end()) {
      return false;
    }
    if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
      if (tid == pid) {
        throw std::system_error(errno, std::generic_category(),
                                "process " + std::to_string(pid) + " cannot be looked into");
      }
      return false;  // it ended meanwhile
    }
    attached_.push_back(tid);
    if (::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) == 0 && wait_for_stop(tid)) {
      stopped_.push_back(tid);
    }
    return true;
  }

  static bool wait_for_stop(pid_t tid) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      int status = 0;
      const pid_t got = ::waitpid(tid, &status, WNOHANG | __WALL);
      if (got != 0) {
        return got == tid && WIFSTOPPED(status);
      }
      ::usleep(kPause);
    }
    return false;  // in the kernel, and not to be interrupted
  }

  std::vector<pid_t> attached_;
  std::vector<pid_t> stopped_;
};

}  // namespace

WrittenCore snapshot_process(pid_t pid, const CaptureOptions& options) {
  const StoppedThreads threads(pid);
  DyingProcess process;
  process.pid = pid;
  process.crashed = pid;
  process.missing_threads = threads.missing();
  for (const pid_t tid : threads.stopped()) {
    if (tid != pid) {
      process.others.push_back(tid);
    }
  }
  return write_minicore(process, options);
}

}  // namespace forensics
