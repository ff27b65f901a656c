// Programs that do not get on, one a word on the command line. Each says "ready" before.

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<int> first_steps{0};

/// Both have taken their first lock when this returns.
void meet() {
  ++first_steps;
  while (first_steps < 2) {
    std::this_thread::yield();
  }
}

void ready() {
  std::puts("ready");
  std::fflush(stdout);
}

template <typename Lock>
[[noreturn]] void lock_crosswise(Lock& one, Lock& two) {
  // One after the other: of two that close a circle of priority inheritance at the same moment, the
  // kernel may refuse both, and nobody waits for anybody then.
  const auto take = [](Lock& first, Lock& second, std::chrono::milliseconds delay) {
    first.lock();
    meet();
    std::this_thread::sleep_for(delay);
    second.lock();
  };
  std::thread other(take, std::ref(one), std::ref(two), std::chrono::milliseconds{0});
  ready();
  take(two, one, std::chrono::milliseconds{100});
  other.join();
  std::exit(3);
}

/// A pthread mutex with attributes.
class Mutex {
 public:
  Mutex(int protocol, int robust) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    pthread_mutexattr_setrobust(&attributes, robust);
    pthread_mutex_init(&mutex_, &attributes);
  }
  void lock() { pthread_mutex_lock(&mutex_); }

 private:
  pthread_mutex_t mutex_{};
};

std::mutex one;
std::mutex two;
std::shared_mutex shared_one;
std::shared_mutex shared_two;
std::condition_variable never;

void await_forever(std::mutex& mutex) {
  std::unique_lock<std::mutex> lock(mutex);
  meet();
  never.wait(lock, [] { return false; });
}

volatile unsigned long spins = 0;

[[noreturn]] void spin_forever() {
  for (;;) {
    spins = spins + 1;
  }
}

volatile sig_atomic_t signals = 0;

void count_signals(int wanted) {
  struct sigaction action{};
  action.sa_handler = [](int) { signals = signals + 1; };
  sigaction(SIGRTMIN, &action, nullptr);
  ready();
  while (signals < wanted) {
    spins = spins + 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "mutex") {
    lock_crosswise(one, two);
  }
  if (what == "twice") {
    ready();
    one.lock();
    one.lock();  // NOLINT: the planted fault
  }
  if (what == "priority") {
    Mutex mine(PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
    Mutex other(PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
    lock_crosswise(mine, other);
  }
  if (what == "robust") {
    Mutex mine(PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
    Mutex other(PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
    lock_crosswise(mine, other);
  }
  if (what == "shared_mutex") {
    lock_crosswise(shared_one, shared_two);
  }
  if (what == "condition") {
    std::thread other(await_forever, std::ref(one));
    ready();
    await_forever(two);
    other.join();
  }
  if (what == "spin") {
    ready();
    spin_forever();
  }
  if (what == "threads") {
    std::vector<std::thread> many;
    for (int index = 0; index < std::atoi(argv[2]); ++index) {
      many.emplace_back([] { pause(); });
    }
    ready();
    pause();
  }
  if (what == "without_main") {
    std::thread([] {
      ready();
      spin_forever();
    }).detach();
    pthread_exit(nullptr);
  }
  if (what == "signals") {
    count_signals(std::atoi(argv[2]));
    return 0;
  }
  return 2;
}
