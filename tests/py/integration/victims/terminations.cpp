// Deaths that the C++ runtime decides on.
#undef NDEBUG
#include <unistd.h>

#include <cassert>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "victim.h"

namespace victims {

class OutOfBlocks : public std::exception {
 public:
  explicit OutOfBlocks(int wanted) : wanted_(wanted) {}
  const char* what() const noexcept override { return wanted_ > 0 ? "no block left" : "none"; }

 private:
  int wanted_;
};

struct PlainError {
  int code;
};

VICTIM_NOINLINE void throw_invalid_block(int id) {
  const auto text = "Invalid block id: " + std::to_string(id);
  if (HIDE(id) >= 0) throw std::runtime_error(text);  // CRASH:throw_invalid_block
  sink = 1;
}

VICTIM_NOINLINE void throw_bad_argument(int id) {
  if (HIDE(id) >= 0) throw std::invalid_argument("negative stride");  // CRASH:throw_bad_argument
  sink = 1;
}

VICTIM(uncaught_runtime_error) {
  throw_invalid_block(42);
  sink = 1;
}

VICTIM(uncaught_out_of_range) {
  std::vector<int> table(3);
  sink = table.at(HIDE(std::size_t{7}));  // CRASH:uncaught_out_of_range
  sink = 1;
}

VICTIM(uncaught_int) {
  if (HIDE(1) == 1) throw 42;  // CRASH:uncaught_int
  sink = 1;
}

VICTIM(uncaught_custom_exception) {
  if (HIDE(1) == 1) throw OutOfBlocks(HIDE(3));  // CRASH:uncaught_custom_exception
  sink = 1;
}

VICTIM(uncaught_plain_struct) {
  if (HIDE(1) == 1) throw PlainError{HIDE(3)};  // CRASH:uncaught_plain_struct
  sink = 1;
}

VICTIM(uncaught_bad_alloc) {
  auto* block = HIDE(new char[HIDE(std::size_t{1} << 60)]);  // CRASH:uncaught_bad_alloc
  sink = static_cast<std::uint64_t>(block[0]);
}

VICTIM(uncaught_bad_function_call) {
  std::function<int()> callback;
  asm volatile("" : : "r"(&callback) : "memory");
  sink = callback();  // CRASH:uncaught_bad_function_call
  sink = 1;
}

VICTIM_NOINLINE void must_not_throw() noexcept {
  throw_bad_argument(HIDE(1));
  sink = 1;
}

VICTIM(exception_in_noexcept) {
  must_not_throw();
  sink = 1;
}

VICTIM(exception_in_thread) {
  std::thread worker(throw_bad_argument, 2);
  worker.join();
  sink = 1;
}

VICTIM(joinable_thread_destroyed) {
  std::thread worker([] { pause(); });
  asm volatile("" : : "r"(&worker) : "memory");
  sink = 1;
}  // CRASH:joinable_thread_destroyed

VICTIM(assertion) {
  const int count = HIDE(3);
  const int limit = HIDE(2);
  assert(count <= limit);  // CRASH:assertion
  sink = 1;
}

// Not in the unnamed namespace: else the compiler knows the only kind and calls it directly.
struct Base {
  VICTIM_NOINLINE Base();
  virtual ~Base() = default;
  virtual int size() const = 0;
};

struct Derived : Base {
  int size() const override { return 3; }
};

namespace {
VICTIM_NOINLINE void call_size(const Base* object) {
  sink = object->size();  // CRASH:pure_virtual_call
  sink = 2;
}
}  // namespace

Base::Base() {
  call_size(HIDE(this));
  sink = 1;
}

VICTIM(pure_virtual_call) {
  Derived object;
  asm volatile("" : : "r"(&object) : "memory");
  sink = 1;
}

VICTIM(plain_abort) {
  if (HIDE(1) == 1) std::abort();  // CRASH:plain_abort
  sink = 1;
}

VICTIM(wait_for_signal) {
  announce("ready", std::uintptr_t{1});
  for (;;) {
    pause();  // CRASH:wait_for_signal
    sink = 1;
  }
}

}  // namespace victims
