#include "supervisor/signal_forwarder.h"

#include <unistd.h>

#include <algorithm>

namespace forensics {
namespace {

constexpr std::chrono::milliseconds kMoment{20};

}  // namespace

void SignalForwarder::received(const siginfo_t& signal) {
  if (signal.si_code > 0) {  // SI_KERNEL: a terminal, for the whole group
    return;
  }
  if (!traced_ || !shares_group()) {
    send(signal);
    return;
  }
  const Clock::time_point now = Clock::now();
  for (Delivery& delivery : recent_) {
    if (delivery.signal == signal.si_signo && delivery.sender == signal.si_pid &&
        now - delivery.when < kMoment) {
      delivery.signal = 0;
      return;
    }
  }
  waiting_.push_back({signal, now + kMoment});
}

void SignalForwarder::saw_delivery(const siginfo_t& signal) {
  if (signal.si_code > 0 || signal.si_pid == ::getpid()) {
    return;
  }
  const auto same = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& other) {
    return other.signal.si_signo == signal.si_signo && other.signal.si_pid == signal.si_pid;
  });
  if (same != waiting_.end()) {
    waiting_.erase(same);
    return;
  }
  recent_.at(next_recent_) = {signal.si_signo, signal.si_pid, Clock::now()};
  next_recent_ = (next_recent_ + 1) % recent_.size();
}

void SignalForwarder::send_due() {
  const Clock::time_point now = Clock::now();
  while (!waiting_.empty() && waiting_.front().due <= now) {
    send(waiting_.front().signal);
    waiting_.erase(waiting_.begin());
  }
}

std::optional<SignalForwarder::Clock::time_point> SignalForwarder::next_due() const {
  return waiting_.empty() ? std::nullopt : std::make_optional(waiting_.front().due);
}

bool SignalForwarder::shares_group() const { return ::getpgid(program_) == ::getpgrp(); }

void SignalForwarder::send(const siginfo_t& signal) const {
  if (signal.si_code == SI_QUEUE) {
    ::sigqueue(program_, signal.si_signo, signal.si_value);
  } else {
    ::kill(program_, signal.si_signo);
  }
}

}  // namespace forensics
