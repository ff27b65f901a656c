// What malloc finds out.
#include <cstdlib>
#include <cstring>

#include "victim.h"

namespace victims {

namespace {

alignas(16) char static_buffer[256];

struct Owner {
  VICTIM_NOINLINE explicit Owner(std::size_t size) : data(hide(new char[size])) { data[0] = 1; }
  VICTIM_NOINLINE ~Owner();
  char* data;
};

Owner::~Owner() {
  delete[] data;  // CRASH:double_delete_by_copied_owner
  sink = 2;
}

}  // namespace

VICTIM(heap_overflow_zeroes_next_size) {
  auto* first = hide(static_cast<char*>(std::malloc(24)));
  auto* second = hide(static_cast<char*>(std::malloc(24)));
  std::memset(first, 0, hide(std::size_t{32}));
  std::free(second);  // CRASH:heap_overflow_zeroes_next_size
  sink = 1;
}

VICTIM(heap_overflow_text_over_next_size) {
  auto* first = hide(static_cast<char*>(std::malloc(24)));
  auto* second = hide(static_cast<char*>(std::malloc(24)));
  std::memset(first, 'A', hide(std::size_t{32}));
  std::free(second);  // CRASH:heap_overflow_text_over_next_size
  sink = 1;
}

VICTIM(heap_overflow_over_top) {
  auto* last = hide(static_cast<char*>(std::malloc(5000)));
  std::memset(last, 0xff, hide(std::size_t{5000 + 16}));
  auto* next = hide(std::malloc(hide(std::size_t{6000})));  // CRASH:heap_overflow_over_top
  sink = next != nullptr ? 1 : 2;
}

VICTIM(heap_write_after_free) {
  auto* first = hide(static_cast<std::uintptr_t*>(std::malloc(40)));
  auto* second = hide(static_cast<std::uintptr_t*>(std::malloc(40)));
  auto* stale = hide(second);
  std::free(first);
  std::free(second);
  stale[0] = 0x4141414141414141;
  sink = reinterpret_cast<std::uintptr_t>(hide(std::malloc(40)));
  sink = reinterpret_cast<std::uintptr_t>(hide(std::malloc(40)));  // CRASH:heap_write_after_free
  sink = 1;
}

VICTIM(double_free_small) {
  auto* block = hide(static_cast<char*>(std::malloc(32)));
  auto* stale = hide(block);
  std::free(block);
  std::free(stale);  // CRASH:double_free_small
  sink = 1;
}

VICTIM(double_free_large) {
  auto* block = hide(static_cast<char*>(std::malloc(2000)));
  auto* neighbour = hide(static_cast<char*>(std::malloc(2000)));
  auto* stale = hide(block);
  std::free(block);
  std::free(stale);  // CRASH:double_free_large
  std::free(neighbour);
}

VICTIM(double_free_fastbin) {
  char* blocks[8];
  for (auto& block : blocks) block = hide(static_cast<char*>(std::malloc(48)));
  for (auto* block : blocks) std::free(hide(block));
  auto* stale = hide(blocks[7]);
  std::free(stale);  // CRASH:double_free_fastbin
  sink = 1;
}

VICTIM(double_delete_by_copied_owner) {
  Owner owner(hide(std::size_t{100}));
  Owner copy(owner);
  sink = static_cast<std::uint64_t>(copy.data[0]);
}

VICTIM(invalid_free_interior) {
  auto* block = hide(static_cast<char*>(std::malloc(64)));
  std::free(hide(block + 8));  // CRASH:invalid_free_interior
  sink = 1;
}

VICTIM(invalid_free_stack) {
  alignas(16) char local[64] = {};
  std::free(hide(static_cast<char*>(local) + 16));  // CRASH:invalid_free_stack
  sink = static_cast<std::uint64_t>(local[0]);
}

VICTIM(invalid_free_static) {
  std::free(hide(static_cast<char*>(static_buffer) + 32));  // CRASH:invalid_free_static
  sink = 1;
}

VICTIM(stack_smashing) {
  char name[24];
  std::memset(hide(static_cast<char*>(name)), 'A', hide(std::size_t{44}));
  sink = static_cast<std::uint64_t>(name[hide(0)]);
}  // CRASH:stack_smashing

}  // namespace victims
