// Pages that are there and say no: read-only, protected, not executable, cut off, or the stack's
// end.
#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "victim.h"

namespace victims {

namespace {

constexpr std::size_t kPage = 4096;

const char kConstantText[] = "a constant in .rodata";
std::uint8_t writable_code[16] = {0x90, 0xc3};

void require(bool fulfilled) {
  if (!fulfilled) std::_Exit(4);
}

std::uint8_t* map_pages(std::size_t count, int protection) {
  void* pages = mmap(nullptr, count * kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(pages != MAP_FAILED);
  return static_cast<std::uint8_t*>(pages);
}

/// Maps two pages of a file that then loses its second.
std::uint8_t* map_and_truncate(int file) {
  require(file >= 0 && ftruncate(file, 2 * kPage) == 0);
  void* pages = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  require(pages != MAP_FAILED && ftruncate(file, kPage) == 0);
  close(file);
  return static_cast<std::uint8_t*>(pages);
}

void announce_stack() {
  pthread_attr_t attributes;
  void* low = nullptr;
  std::size_t size = 0;
  require(pthread_getattr_np(pthread_self(), &attributes) == 0);
  require(pthread_attr_getstack(&attributes, &low, &size) == 0);
  pthread_attr_destroy(&attributes);
  announce("address_low", static_cast<char*>(low) - (std::size_t{80} << 20));
  announce("address_high", static_cast<char*>(low) + (std::size_t{1} << 20));
}

}  // namespace

VICTIM(write_to_string_literal) {
  const char* text = "a literal";
  auto* writable = const_cast<char*>(HIDE(text));
  announce("address", writable + 2);
  writable[2] = 'x';  // CRASH:write_to_string_literal
  sink = 1;
}

VICTIM(write_to_constant) {
  auto* writable = const_cast<char*>(HIDE(static_cast<const char*>(kConstantText)));
  announce("address", writable);
  const std::uint32_t value = HIDE(0x20202020U);
  std::memcpy(writable, &value, sizeof value);  // CRASH:write_to_constant
  sink = 1;
}

VICTIM(write_to_code) {
  auto* code = pointer_to<std::uint8_t>(reinterpret_cast<std::uintptr_t>(&std::_Exit));
  code = HIDE(reinterpret_cast<std::uint8_t*>(&write_to_code));
  announce("address", code);
  *code = static_cast<std::uint8_t>(HIDE(0xcc));  // CRASH:write_to_code
  sink = 1;
}

VICTIM(write_after_mprotect) {
  auto* page = map_pages(1, PROT_READ | PROT_WRITE);
  page[0] = 1;
  require(mprotect(page, kPage, PROT_READ) == 0);
  auto* slot = HIDE(reinterpret_cast<std::uint64_t*>(page + 0x80));
  announce("address", slot);
  *slot = HIDE(std::uint64_t{5});  // CRASH:write_after_mprotect
  sink = 1;
}

VICTIM(protected_page_read) {
  auto* page = HIDE(map_pages(1, PROT_NONE));
  announce("address", page + 0x10);
  sink = *reinterpret_cast<std::uint32_t*>(page + 0x10);  // CRASH:protected_page_read
  sink = 1;
}

VICTIM(protected_page_write_past_buffer) {
  auto* pages = map_pages(2, PROT_READ | PROT_WRITE);
  require(mprotect(pages + kPage, kPage, PROT_NONE) == 0);
  auto* buffer = HIDE(reinterpret_cast<volatile std::uint16_t*>(pages));
  const std::size_t count = HIDE(std::size_t{kPage});
  announce("address", pages + kPage);
  for (std::size_t i = 0; i < count; ++i) buffer[i] = 7;  // CRASH:protected_page_write_past_buffer
  sink = 1;
}

VICTIM(execute_heap) {
  auto* code = HIDE(static_cast<std::uint8_t*>(std::malloc(64)));
  code[0] = 0xc3;
  announce("address", code);
  reinterpret_cast<void (*)()>(code)();  // CRASH:execute_heap
  sink = 1;
}

VICTIM(execute_data) {
  auto* code = HIDE(static_cast<std::uint8_t*>(writable_code));
  announce("address", code);
  reinterpret_cast<void (*)()>(code)();  // CRASH:execute_data
  sink = 1;
}

VICTIM(execute_stack) {
  std::uint8_t code[16] = {0xc3};
  auto* start = HIDE(static_cast<std::uint8_t*>(code));
  announce("address", start);
  reinterpret_cast<void (*)()>(start)();  // CRASH:execute_stack
  sink = code[0];
}

VICTIM(truncated_file_read) {
  auto* pages = map_and_truncate(open("mapping.bin", O_RDWR | O_CREAT | O_TRUNC, 0600));
  auto* value = HIDE(reinterpret_cast<std::uint64_t*>(pages + kPage + 0x18));
  announce("address", value);
  sink = *value;  // CRASH:truncated_file_read
  sink = 1;
}

VICTIM(truncated_deleted_file_write) {
  const int file = open("gone.bin", O_RDWR | O_CREAT | O_TRUNC, 0600);
  unlink("gone.bin");
  auto* pages = map_and_truncate(file);
  auto* value = HIDE(pages + kPage + 0x21);
  announce("address", value);
  *value = static_cast<std::uint8_t>(HIDE(1));  // CRASH:truncated_deleted_file_write
  sink = 1;
}

VICTIM(truncated_shared_memory_read) {
  char name[64];
  std::snprintf(name, sizeof name, "/victim-%d", static_cast<int>(getpid()));
  const int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
  shm_unlink(name);
  auto* pages = map_and_truncate(file);
  auto* value = HIDE(reinterpret_cast<std::uint32_t*>(pages + kPage));
  announce("address", value);
  sink = *value;  // CRASH:truncated_shared_memory_read
  sink = 1;
}

VICTIM_NOINLINE std::uint64_t recurse_forever(std::uint64_t depth) {  // CRASH:recurse_forever
  volatile std::uint64_t local[32];                                   // CRASH:recurse_forever
  local[depth % 32] = depth;                                          // CRASH:recurse_forever
  if (depth == ~std::uint64_t{0}) return local[0];
  const auto below = recurse_forever(HIDE(depth + 1));  // CRASH:recurse_forever
  return below + local[depth % 32];
}

VICTIM(stack_overflow_main_thread) {
  announce_stack();
  sink = recurse_forever(HIDE(std::uint64_t{0}));
}

namespace {
void* overflow_thread(void* argument) {
  announce_stack();
  sink = recurse_forever(HIDE(std::uint64_t{0}));
  return argument;
}
}  // namespace

VICTIM(stack_overflow_in_thread) {
  pthread_t thread;
  require(pthread_create(&thread, nullptr, overflow_thread, nullptr) == 0);
  pthread_join(thread, nullptr);
  sink = 1;
}

VICTIM(stack_overflow_by_alloca) {
  announce_stack();
  const std::size_t size = HIDE(std::size_t{64} << 20);
  auto* buffer = HIDE(static_cast<volatile char*>(alloca(size)));  // CRASH:stack_overflow_by_alloca
  buffer[0] = 1;                                                   // CRASH:stack_overflow_by_alloca
  sink = static_cast<std::uint64_t>(buffer[HIDE(size) - 1]);
}

}  // namespace victims
