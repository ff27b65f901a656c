#ifndef VLLM_FORENSICS_ARENA_H_
#define VLLM_FORENSICS_ARENA_H_

#include <cstddef>
#include <memory>

namespace vllm {

/// Whether this code was compiled with AddressSanitizer.
[[nodiscard]] bool built_with_address_sanitizer() noexcept;

/// One piece of memory cut into equal blocks, side by side without redzones between them.
///
/// Blocks that are not allocated are poisoned under AddressSanitizer. Without that, an index that
/// is far off lands in another block of the same piece, and the sanitizer has nothing to say.
class Arena {
 public:
  /// `num_blocks` blocks of `block_bytes` each, zeroed and poisoned. Throws std::bad_alloc.
  Arena(std::size_t num_blocks, std::size_t block_bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  Arena(Arena&&) = delete;
  Arena& operator=(Arena&&) = delete;

  /// Where block `index` begins, or would begin: nothing is checked, as in fast code.
  [[nodiscard]] std::byte* block(std::ptrdiff_t index) const noexcept {
    return storage_.get() + index * stride_;
  }

  /// Bytes from one block to the next: `block_bytes` rounded up to 16.
  [[nodiscard]] std::size_t stride_bytes() const noexcept {
    return static_cast<std::size_t>(stride_);
  }

  /// Marks a block as not to be touched. No effect without AddressSanitizer.
  void poison(std::size_t index) const noexcept;

  /// Marks a block as usable.
  void unpoison(std::size_t index) const noexcept;

 private:
  std::size_t num_blocks_;
  std::size_t block_bytes_;
  std::ptrdiff_t stride_;
  std::unique_ptr<std::byte[]> storage_;
};

}  // namespace vllm

#endif  // VLLM_FORENSICS_ARENA_H_
