#ifndef VLLM_FORENSICS_SUPERVISOR_SIGNAL_FORWARDER_H_
#define VLLM_FORENSICS_SUPERVISOR_SIGNAL_FORWARDER_H_

#include <sys/types.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <optional>
#include <vector>

namespace forensics {

/// Passes signals that were meant for the program on to it, and not those that reached it anyway.
///
/// A terminal sends to a whole process group: the kernel is the sender then, and the program has
/// its own copy. `kill -TERM -GROUP` looks like `kill -TERM SUPERVISOR` here: such a signal waits a
/// moment, to see whether the program stops for a copy of it from the same sender.
class SignalForwarder {
 public:
  using Clock = std::chrono::steady_clock;

  /// `traced`: will `saw_delivery` be told of the program's signals?
  SignalForwarder(pid_t program, bool traced) : program_(program), traced_(traced) {}

  /// The supervisor got a signal.
  void received(const siginfo_t& signal);

  /// The program stopped before the delivery of one.
  void saw_delivery(const siginfo_t& signal);

  /// Sends what has waited long enough.
  void send_due();

  /// When to call `send_due` next.
  [[nodiscard]] std::optional<Clock::time_point> next_due() const;

 private:
  struct Waiting {
    siginfo_t signal;
    Clock::time_point due;
  };
  struct Delivery {
    int signal = 0;
    pid_t sender = 0;
    Clock::time_point when;
  };

  [[nodiscard]] bool shares_group() const;
  void send(const siginfo_t& signal) const;

  pid_t program_;
  bool traced_;
  std::vector<Waiting> waiting_;
  std::array<Delivery, 8> recent_{};
  std::size_t next_recent_ = 0;
};

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_SIGNAL_FORWARDER_H_
