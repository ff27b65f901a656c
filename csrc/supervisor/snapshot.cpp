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
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "supervisor/proc_files.h"

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
    for (const Attached& thread : attached_) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): ptrace(2) takes numbers as its pointers
      ::ptrace(PTRACE_DETACH, thread.tid, nullptr, reinterpret_cast<void*>(thread.signal));
    }
  }

  [[nodiscard]] std::vector<pid_t> stopped() const {
    std::vector<pid_t> tids;
    for (const Attached& thread : attached_) {
      if (thread.is_stopped) {
        tids.push_back(thread.tid);
      }
    }
    return tids;
  }
  [[nodiscard]] std::size_t missing() const { return attached_.size() - stopped().size(); }

 private:
  struct Attached {
    pid_t tid = 0;
    bool is_stopped = false;
    long signal = 0;  // one that was about to be delivered, and still must be
  };

  bool attach(pid_t tid, pid_t pid) {
    const auto is_this = [tid](const Attached& thread) { return thread.tid == tid; };
    if (std::any_of(attached_.begin(), attached_.end(), is_this)) {
      return false;
    }
    if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
      const int reason = errno;
      if (tid == pid && !is_over(pid)) {
        throw std::system_error(reason, std::generic_category(),
                                "process " + std::to_string(pid) + " cannot be looked into");
      }
      return false;  // it ended, perhaps before the other threads
    }
    Attached thread{tid};
    if (::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) == 0) {
      wait_for_stop(thread);
    }
    attached_.push_back(thread);
    return true;
  }

  static bool is_over(pid_t pid) {
    const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat").value_or("");
    const std::size_t name_end = stat.rfind(") ");
    const char state = name_end == std::string::npos ? 'X' : stat[name_end + 2];
    return state == 'Z' || state == 'X';
  }

  static void wait_for_stop(Attached& thread) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      int status = 0;
      const pid_t got = ::waitpid(thread.tid, &status, WNOHANG | __WALL);
      if (got != 0) {
        thread.is_stopped = got == thread.tid && WIFSTOPPED(status);
        // Without an event it is a stop before a signal's delivery: a plain detach would lose it.
        if (thread.is_stopped && static_cast<unsigned int>(status) >> 16U == 0) {
          thread.signal = WSTOPSIG(status);
        }
        return;
      }
      ::usleep(kPause);
    }
    // It is in the kernel, and not to be interrupted.
  }

  std::vector<Attached> attached_;
};

}  // namespace

WrittenCore snapshot_process(pid_t pid, const CaptureOptions& options) {
  const StoppedThreads threads(pid);
  const std::vector<pid_t> stopped = threads.stopped();
  if (stopped.empty()) {
    throw std::runtime_error("process " + std::to_string(pid) +
                             " ended meanwhile, or no thread of it can be stopped");
  }
  DyingProcess process;
  process.pid = pid;
  process.crashed = stopped.front();  // not always `pid`: the first thread may end before others
  process.missing_threads = threads.missing();
  process.others.assign(stopped.begin() + 1, stopped.end());
  return write_minicore(process, options);
}

}  // namespace forensics
