// Bad pointers: null, wild and non-canonical.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "victim.h"

namespace victims {

// Not in the unnamed namespace: else the compiler knows all its kinds and calls without a table.
struct Shape {
  virtual ~Shape() = default;
  virtual int corners() const { return 4; }
};

namespace {

struct Block {
  char header[0x48];
  std::int64_t references;
  std::int32_t state;
  std::int16_t kind;
  std::uint8_t flags;

  VICTIM_NOINLINE std::int64_t reference_count() const;
  VICTIM_NOINLINE void mark(std::int32_t value);
};

std::int64_t Block::reference_count() const { return references; }

void Block::mark(std::int32_t value) { state = value; }

constexpr std::uintptr_t kWild = 0x123456789000;
constexpr std::uintptr_t kNonCanonical = 0xdeadbeefcafef00d;

}  // namespace

VICTIM(null_read) {
  const auto* value = pointer_to<std::int32_t>(0);
  sink = *value;  // CRASH:null_read
  sink = 1;
}

VICTIM(null_write) {
  auto* value = pointer_to<std::int64_t>(0);
  *value = HIDE(7);  // CRASH:null_write
  sink = 1;
}

VICTIM(null_member_read) {
  const auto* block = pointer_to<Block>(0);
  sink = block->references;  // CRASH:null_member_read
  sink = 1;
}

VICTIM(null_member_write) {
  auto* block = pointer_to<Block>(0);
  block->kind = static_cast<std::int16_t>(HIDE(3));  // CRASH:null_member_write
  sink = 1;
}

VICTIM(null_array_element) {
  const auto* bytes = pointer_to<std::uint8_t>(0);
  sink = bytes[HIDE(std::size_t{1234})];  // CRASH:null_array_element
  sink = 1;
}

VICTIM(null_this_accessor) {
  const auto* block = pointer_to<Block>(0);
  const auto count = block->reference_count();  // CRASH:null_this_accessor
  sink = count;
}

VICTIM(null_this_mutator) {
  auto* block = pointer_to<Block>(0);
  block->mark(HIDE(5));  // CRASH:null_this_mutator
  sink = 1;
}

VICTIM(null_unique_ptr) {
  std::vector<std::unique_ptr<Block>> table(3);
  table[HIDE(std::size_t{1})].reset();
  const auto& entry = table[HIDE(std::size_t{1})];
  asm volatile("" : : "r"(&entry) : "memory");
  Block* block = HIDE(entry.get());
  sink = block->flags;  // CRASH:null_unique_ptr
  sink = 1;
}

VICTIM(null_memcpy_source) {
  char target[64];
  const void* source = pointer_to<void>(0);
  auto* start = HIDE(static_cast<char*>(target));
  const std::size_t size = HIDE(sizeof target);
  std::memcpy(start, source, size);  // CRASH:null_memcpy_source
  sink = static_cast<std::uint64_t>(target[0]);
}

VICTIM(null_memset_target) {
  std::memset(pointer_to<void>(0x10), 0, HIDE(std::size_t{48}));  // CRASH:null_memset_target
  sink = 1;
}

VICTIM(null_strlen) {
  sink = std::strlen(pointer_to<const char>(0));  // CRASH:null_strlen
  sink = 1;
}

VICTIM(null_string_size) {
  const auto* text = pointer_to<std::string>(0);
  sink = text->size();  // CRASH:null_string_size
  sink = 1;
}

VICTIM(null_vector_index) {
  const auto* numbers = pointer_to<std::vector<std::int64_t>>(0);
  sink = (*numbers)[HIDE(std::size_t{3})];  // CRASH:null_vector_index
  sink = 1;
}

VICTIM(null_virtual_call) {
  const auto* shape = pointer_to<Shape>(0);
  sink = shape->corners();  // CRASH:null_virtual_call
  sink = 1;
}

VICTIM(null_function_call) {
  auto* callback = pointer_to<int(int)>(0);
  sink = callback(3);  // CRASH:null_function_call
  sink = 1;
}

VICTIM(wild_read) {
  const auto* value = pointer_to<std::int64_t>(kWild);
  sink = *value;  // CRASH:wild_read
  sink = 1;
}

VICTIM(wild_write) {
  auto* value = pointer_to<std::int32_t>(kWild + 0x20);
  *value = HIDE(9);  // CRASH:wild_write
  sink = 1;
}

VICTIM(wild_read_modify_write) {
  auto* value = pointer_to<std::uint8_t>(kWild + 0x31);
  asm volatile("lock incb %0" : "+m"(*value));  // CRASH:wild_read_modify_write
  sink = 1;
}

VICTIM(wild_call) {
  auto* callback = pointer_to<int(int)>(kWild);
  sink = callback(3);  // CRASH:wild_call
  sink = 1;
}

VICTIM(wild_kernel_half) {
  const auto* value = pointer_to<std::int16_t>(0xffff800000001000);
  sink = *value;  // CRASH:wild_kernel_half
  sink = 1;
}

VICTIM(wild_map_failed) {
  const auto* bytes = pointer_to<std::uint8_t>(static_cast<std::uintptr_t>(-1));
  sink = *bytes;  // CRASH:wild_map_failed
  sink = 1;
}

VICTIM(use_after_free_of_large_block) {
  const std::size_t size = HIDE(std::size_t{4} << 20);
  auto* block = HIDE(new char[size]);
  std::memset(block, 1, size);
  announce("address", block + 0x2000);
  const volatile char* stale = HIDE(block);
  delete[] block;
  sink = static_cast<std::uint64_t>(stale[0x2000]);  // CRASH:use_after_free_of_large_block
  sink = 1;
}

VICTIM(noncanonical_read) {
  const auto* value = pointer_to<std::int64_t>(kNonCanonical);
  sink = *value;  // CRASH:noncanonical_read
  sink = 1;
}

VICTIM(noncanonical_write) {
  auto* block = pointer_to<Block>(0x4141414141414141);
  block->state = HIDE(2);  // CRASH:noncanonical_write
  sink = 1;
}

VICTIM(noncanonical_indexed_read) {
  const auto* values = pointer_to<std::int32_t>(0x8000000000000000);
  sink = values[HIDE(std::size_t{0x1000})];  // CRASH:noncanonical_indexed_read
  sink = 1;
}

VICTIM(noncanonical_memcpy_source) {
  char target[64];
  const void* source = pointer_to<void>(kNonCanonical);
  auto* start = HIDE(static_cast<char*>(target));
  const std::size_t size = HIDE(sizeof target);
  std::memcpy(start, source, size);  // CRASH:noncanonical_memcpy_source
  sink = static_cast<std::uint64_t>(target[0]);
}

VICTIM(noncanonical_copy_by_string_instruction) {
  char target[16];
  void* to = HIDE(static_cast<char*>(target));
  const void* from = pointer_to<void>(kNonCanonical);
  std::size_t count = HIDE(sizeof target);
  asm volatile(  // CRASH:noncanonical_copy_by_string_instruction
      "rep movsb"
      : "+D"(to), "+S"(from), "+c"(count)
      :
      : "memory");
  sink = static_cast<std::uint64_t>(target[0]);
}

VICTIM(noncanonical_call) {
  auto* callback = pointer_to<int(int)>(kNonCanonical);
  sink = callback(3);  // CRASH:noncanonical_call
  sink = 1;
}

VICTIM(noncanonical_return) {
  const std::uintptr_t target = HIDE(kNonCanonical);
  asm volatile("push %0\n\tret" : : "r"(target));  // CRASH:noncanonical_return
  sink = 1;
}

// The CPU sends an access relative to rbp or rsp to the stack-fault vector: SIGBUS, not SIGSEGV.
VICTIM(noncanonical_through_frame_pointer) {
  const std::uintptr_t address = HIDE(kNonCanonical);
  asm volatile(  // CRASH:noncanonical_through_frame_pointer
      "mov %%rbp, %%rcx\n\tmov %0, %%rbp\n\tmov 0x10(%%rbp), %%rax\n\tmov %%rcx, %%rbp"
      :
      : "r"(address)
      : "rax", "rcx");
  sink = 1;
}

}  // namespace victims
