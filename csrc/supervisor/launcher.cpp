#include "supervisor/launcher.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace forensics {
namespace {

std::pair<UniqueFd, UniqueFd> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::vector<int> open_files() {
  std::vector<int> files;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    files.push_back(std::stoi(entry.path().filename().string()));
  }
  return files;
}

/// The program alone decides when a pipe's or a terminal's other end sees it closed.
void let_go_of(const std::vector<int>& files, int keep) {
  for (const int file : files) {
    if (file > STDERR_FILENO && file != keep) {
      ::close(file);
    }
  }
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::dup2(nothing.get(), file);
  }
}

}  // namespace

sigset_t awaited_signals() {
  sigset_t set{};
  sigfillset(&set);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS}) {
    sigdelset(&set, signal);
  }
  return set;
}

Launcher::Launcher(char* const* command, int keep) {
  const std::vector<int> inherited_files = open_files();
  auto [go_read, go_write] = make_pipe();
  const sigset_t awaited = awaited_signals();
  sigset_t before{};
  sigprocmask(SIG_SETMASK, &awaited, &before);
  // Ignored, SIGCHLD would never be sent, and ended children would vanish unseen.
  struct sigaction standard{};
  struct sigaction inherited{};
  standard.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &standard, &inherited);

  pid_ = ::fork();
  if (pid_ < 0) {
    throw std::system_error(errno, std::generic_category(), "fork");
  }
  if (pid_ == 0) {
    go_write.reset();
    sigaction(SIGCHLD, &inherited, nullptr);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    char word = 0;
    while (::read(go_read.get(), &word, 1) < 0 && errno == EINTR) {
    }
    ::execvp(command[0], command);
    const int error = errno;
    static_cast<void>(::dprintf(STDERR_FILENO, "forensics-supervisor: %s: %s\n", command[0],
                                std::strerror(error)));
    ::_exit(error == ENOENT ? 127 : 126);  // as shells do
  }
  go_ = std::move(go_write);
  let_go_of(inherited_files, keep);
}

void Launcher::release() { go_.reset(); }

}  // namespace forensics
