// Programs that handle their own fatal signals before they die of them.
#undef NDEBUG
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cassert>
#include <cstdlib>
#include <cstring>

#include "victim.h"

namespace victims {

namespace {

alignas(16) char alternate_stack[64 * 1024];

void say(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) std::_Exit(4);
}

void restore_default(int number) {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(number, &action, nullptr);
}

void install(int number, void (*handler)(int), int flags) {
  stack_t stack = {};
  stack.ss_sp = alternate_stack;
  stack.ss_size = sizeof alternate_stack;
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  if (sigaltstack(&stack, nullptr) != 0 || sigaction(number, &action, nullptr) != 0) std::_Exit(4);
}

struct Node {
  char padding[0x58];
  std::int64_t value;
};

}  // namespace

VICTIM_NOINLINE void raise_again(int number) {
  say("handler: raising again\n");
  restore_default(number);
  raise(number);
  sink = 1;
}

VICTIM_NOINLINE void kill_self(int number) {
  say("handler: killing this process\n");
  restore_default(number);
  kill(getpid(), number);
  sink = 1;
}

VICTIM_NOINLINE void print_and_abort(int) {
  say("handler: aborting\n");
  std::abort();
}

VICTIM_NOINLINE void restore_and_return(int number) {
  say("handler: returning\n");
  restore_default(number);
}

VICTIM_NOINLINE void read_field_of_null() {
  const auto* node = pointer_to<Node>(0);
  sink = node->value;  // CRASH:read_field_of_null
  sink = 1;
}

VICTIM_NOINLINE void write_noncanonical() {
  auto* node = pointer_to<Node>(0xdead000000000100);
  node->value = HIDE(1);  // CRASH:write_noncanonical
  sink = 1;
}

VICTIM_NOINLINE void divide_in_vain() {
  sink = HIDE(10U) / HIDE(0U);  // CRASH:divide_in_vain
  sink = 1;
}

VICTIM_NOINLINE void call_null() {
  pointer_to<void()>(0)();  // CRASH:call_null
  sink = 1;
}

VICTIM_NOINLINE std::uint64_t recurse_again(std::uint64_t depth) {  // CRASH:recurse_again
  volatile std::uint64_t local[32];                                 // CRASH:recurse_again
  local[depth % 32] = depth;                                        // CRASH:recurse_again
  if (depth == ~std::uint64_t{0}) return local[0];
  const auto below = recurse_again(HIDE(depth + 1));  // CRASH:recurse_again
  return below + local[depth % 32];
}

// As Python's faulthandler does it.
VICTIM(handler_raises_again) {
  install(SIGSEGV, raise_again, SA_NODEFER | SA_ONSTACK);
  read_field_of_null();
  sink = 1;
}

VICTIM(handler_kills_self) {
  install(SIGSEGV, kill_self, SA_NODEFER);
  read_field_of_null();
  sink = 1;
}

// SIGSEGV is blocked while its handler runs: the raised signal arrives when the handler returns.
VICTIM(handler_raises_blocked_signal) {
  install(SIGSEGV, raise_again, 0);
  read_field_of_null();
  sink = 1;
}

VICTIM(handler_aborts) {
  install(SIGSEGV, print_and_abort, SA_ONSTACK);
  read_field_of_null();
  sink = 1;
}

VICTIM(handler_returns) {
  install(SIGSEGV, restore_and_return, 0);
  read_field_of_null();
  sink = 1;
}

VICTIM(handler_raises_noncanonical) {
  install(SIGSEGV, raise_again, SA_NODEFER | SA_ONSTACK);
  write_noncanonical();
  sink = 1;
}

VICTIM(handler_raises_divide_by_zero) {
  install(SIGFPE, raise_again, SA_NODEFER | SA_ONSTACK);
  divide_in_vain();
  sink = 1;
}

VICTIM(handler_raises_null_call) {
  install(SIGSEGV, raise_again, SA_NODEFER | SA_ONSTACK);
  call_null();
  sink = 1;
}

VICTIM(handler_raises_stack_overflow) {
  pthread_attr_t attributes;
  void* low = nullptr;
  std::size_t size = 0;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_destroy(&attributes);
  announce("address_low", static_cast<char*>(low) - (std::size_t{1} << 20));
  announce("address_high", static_cast<char*>(low) + (std::size_t{1} << 20));
  install(SIGSEGV, raise_again, SA_NODEFER | SA_ONSTACK);
  sink = recurse_again(HIDE(std::uint64_t{0}));
}

VICTIM(handler_raises_assertion) {
  install(SIGABRT, raise_again, SA_NODEFER | SA_ONSTACK);
  const int free_blocks = HIDE(-1);
  assert(free_blocks >= 0);  // CRASH:handler_raises_assertion
  sink = 1;
}

namespace {
void* fault_in_thread(void* argument) {
  read_field_of_null();
  sink = 1;
  return argument;
}
}  // namespace

VICTIM(handler_raises_in_thread) {
  install(SIGSEGV, raise_again, SA_NODEFER);
  pthread_t thread;
  pthread_create(&thread, nullptr, fault_in_thread, nullptr);
  pthread_join(thread, nullptr);
  sink = 1;
}

}  // namespace victims
