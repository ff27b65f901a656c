// What malloc finds out.
#include <cstdlib>
#include <cstring>

#include "victim.h"

namespace victims {

namespace {

alignas(16) char static_buffer[256];

struct Owner {
  VICTIM_NOINLINE explicit Owner(std::size_t size) : data(HIDE(new char[size])) { data[0] = 1; }
  VICTIM_NOINLINE ~Owner();
  char* data;
};

Owner::~Owner() {
  delete[] data;  // CRASH:double_delete_by_copied_owner
  sink = 2;
}

}  // namespace

VICTIM(heap_overflow_zeroes_next_size) {
  auto* first = HIDE(static_cast<char*>(std::malloc(24)));
  auto* second = HIDE(static_cast<char*>(std::malloc(24)));
  std::memset(first, 0, HIDE(std::size_t{32}));
  std::free(second);  // CRASH:heap_overflow_zeroes_next_size
  sink = 1;
}

VICTIM(heap_overflow_by_one_element) {
  auto* first = HIDE(static_cast<std::uint64_t*>(std::malloc(24)));
  auto* second = HIDE(static_cast<char*>(std::malloc(24)));
  const std::size_t count = HIDE(std::size_t{3});
  for (std::size_t i = 0; i <= count; ++i) first[i] = HIDE(std::uint64_t{17});
  std::free(second);  // CRASH:heap_overflow_by_one_element
  sink = 1;
}

VICTIM(heap_overflow_text_over_next_size) {
  auto* first = HIDE(static_cast<char*>(std::malloc(24)));
  auto* second = HIDE(static_cast<char*>(std::malloc(24)));
  std::memset(first, 'A', HIDE(std::size_t{32}));
  std::free(second);  // CRASH:heap_overflow_text_over_next_size
  sink = 1;
}

VICTIM(heap_overflow_over_top) {
  auto* last = HIDE(static_cast<char*>(std::malloc(5000)));
  std::memset(last, 0xff, HIDE(std::size_t{5000 + 16}));
  auto* next = HIDE(std::malloc(HIDE(std::size_t{6000})));  // CRASH:heap_overflow_over_top
  sink = next != nullptr ? 1 : 2;
}

VICTIM(heap_write_after_free) {
  auto* first = HIDE(static_cast<std::uintptr_t*>(std::malloc(40)));
  auto* second = HIDE(static_cast<std::uintptr_t*>(std::malloc(40)));
  auto* stale = HIDE(second);
  std::free(first);
  std::free(second);
  // malloc keeps this link xor its own address >> 12: what comes out is misaligned at any address.
  stale[0] = 0x4141414141414148 ^ (reinterpret_cast<std::uintptr_t>(stale) >> 12);
  sink = reinterpret_cast<std::uintptr_t>(HIDE(std::malloc(40)));
  sink = reinterpret_cast<std::uintptr_t>(HIDE(std::malloc(40)));  // CRASH:heap_write_after_free
  sink = 1;
}

VICTIM(double_free_small) {
  auto* block = HIDE(static_cast<char*>(std::malloc(32)));
  auto* stale = HIDE(block);
  std::free(block);
  std::free(stale);  // CRASH:double_free_small
  sink = 1;
}

VICTIM(double_free_large) {
  auto* block = HIDE(static_cast<char*>(std::malloc(2000)));
  auto* neighbour = HIDE(static_cast<char*>(std::malloc(2000)));
  auto* stale = HIDE(block);
  std::free(block);
  std::free(stale);  // CRASH:double_free_large
  std::free(neighbour);
}

VICTIM(double_free_fastbin) {
  char* blocks[8];
  for (auto& block : blocks) block = HIDE(static_cast<char*>(std::malloc(48)));
  for (auto* block : blocks) std::free(HIDE(block));
  auto* stale = HIDE(blocks[7]);
  std::free(stale);  // CRASH:double_free_fastbin
  sink = 1;
}

VICTIM(double_delete_by_copied_owner) {
  Owner owner(HIDE(std::size_t{100}));
  Owner copy(owner);
  sink = static_cast<std::uint64_t>(copy.data[0]);
}

VICTIM(invalid_free_interior) {
  auto* block = HIDE(static_cast<char*>(std::malloc(64)));
  std::free(HIDE(block + 8));  // CRASH:invalid_free_interior
  sink = 1;
}

VICTIM(invalid_free_stack) {
  alignas(16) char local[64] = {};
  std::free(HIDE(static_cast<char*>(local) + 16));  // CRASH:invalid_free_stack
  sink = static_cast<std::uint64_t>(local[0]);
}

VICTIM(invalid_free_static) {
  std::free(HIDE(static_cast<char*>(static_buffer) + 32));  // CRASH:invalid_free_static
  sink = 1;
}

VICTIM(stack_smashing) {
  char name[24];
  std::memset(HIDE(static_cast<char*>(name)), 'A', HIDE(std::size_t{44}));
  sink = static_cast<std::uint64_t>(name[HIDE(0)]);
}  // CRASH:stack_smashing

}  // namespace victims
