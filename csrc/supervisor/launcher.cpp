#include "supervisor/launcher.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace forensics {
namespace {

std::pair<UniqueFd, UniqueFd> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
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

Launcher::Launcher(char* const* command) {
  auto [go_read, go_write] = make_pipe();
  auto [failure_read, failure_write] = make_pipe();
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
    static_cast<void>(::write(failure_write.get(), &error, sizeof error) == 0);
    ::_exit(error == ENOENT ? 127 : 126);  // as shells do
  }
  go_ = std::move(go_write);
  failure_ = std::move(failure_read);
}

void Launcher::release() { go_.reset(); }

int Launcher::exec_error() const {
  int error = 0;
  const ssize_t got = ::read(failure_.get(), &error, sizeof error);
  return got == static_cast<ssize_t>(sizeof error) ? error : 0;
}

}  // namespace forensics
