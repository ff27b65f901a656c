#include "arena.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VLLM_ADDRESS_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define VLLM_ADDRESS_SANITIZER 1
#endif

#if defined(VLLM_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) \
  (static_cast<void>(address), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) \
  (static_cast<void>(address), static_cast<void>(size))
#endif

namespace vllm {

namespace {

/// Large enough for any element and for ASan's shadow, which describes 8 bytes at a time.
constexpr std::size_t kAlignment = 16;

constexpr std::size_t round_up(std::size_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

bool built_with_address_sanitizer() noexcept {
#if defined(VLLM_ADDRESS_SANITIZER)
  return true;
#else
  return false;
#endif
}

Arena::Arena(std::size_t num_blocks, std::size_t block_bytes)
    : num_blocks_(num_blocks),
      block_bytes_(block_bytes),
      stride_(static_cast<std::ptrdiff_t>(round_up(block_bytes))),
      storage_(std::make_unique<std::byte[]>(num_blocks * round_up(block_bytes))) {
  ASAN_POISON_MEMORY_REGION(storage_.get(), num_blocks_ * stride_bytes());
}

Arena::~Arena() { ASAN_UNPOISON_MEMORY_REGION(storage_.get(), num_blocks_ * stride_bytes()); }

void Arena::poison(std::size_t index) const noexcept {
  ASAN_POISON_MEMORY_REGION(block(static_cast<std::ptrdiff_t>(index)), block_bytes_);
}

void Arena::unpoison(std::size_t index) const noexcept {
  ASAN_UNPOISON_MEMORY_REGION(block(static_cast<std::ptrdiff_t>(index)), block_bytes_);
}

}  // namespace vllm
