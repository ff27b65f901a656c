#ifndef VLLM_FORENSICS_CACHE_H_
#define VLLM_FORENSICS_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "block_allocator.h"

namespace vllm {

/// How a number is stored in the cache; arithmetic is done in float.
enum class DataType : std::uint8_t { float32, bfloat16 };

/// Bytes of one stored number.
[[nodiscard]] std::int64_t element_bytes(DataType dtype) noexcept;

/// The sizes of a cache apart from its number of blocks.
struct CacheShape {
  std::int64_t block_size;  ///< tokens in a block
  std::int64_t num_layers;
  std::int64_t num_heads;
  std::int64_t head_size;
  DataType dtype = DataType::float32;

  /// Bytes of one block: keys and values of `block_size` tokens in every layer.
  [[nodiscard]] std::int64_t block_bytes() const noexcept;

  /// This shape; throws std::invalid_argument, naming the size, unless all sizes are from 1 to 2^20
  /// and a block is at most 2^40 bytes.
  [[nodiscard]] const CacheShape& validated() const;
};

/// Blocks of this shape that fit in `memory_bytes`. Checked: throws std::invalid_argument for a
/// shape that is not valid or a negative size. Unchecked: just divides.
[[nodiscard]] std::int64_t blocks_that_fit(std::int64_t memory_bytes, const CacheShape& shape,
                                           AccessPolicy access = AccessPolicy::checked);

/// Borrowed floats in row-major order, and their sizes by dimension.
struct ArrayView {
  const float* data;
  std::vector<std::int64_t> shape;
};

/// Floats in row-major order, and their sizes by dimension.
struct FloatArray {
  std::vector<float> values;
  std::vector<std::int64_t> shape;

  [[nodiscard]] ArrayView view() const { return {values.data(), shape}; }
};

/// (source, target).
using BlockPair = std::pair<BlockId, BlockId>;

/// The blocks of one sequence in the order of its tokens.
using BlockTable = std::vector<BlockId>;

/// Which half of a layer's cache.
enum class CachePart : std::uint8_t { key, value };

/// Keys and values of past tokens, in blocks that need not be neighbours.
///
/// Each layer has a key and a value cache, both `[num_blocks, block_size, num_heads, head_size]`. A
/// block holds its part of all of them, `[num_layers, 2, block_size, num_heads, head_size]`, so
/// that one copy moves it. A token's slot is `block * block_size + offset`.
///
/// Array shapes and layer numbers are always checked; block ids as the access policy says.
class PagedKVCache {
 public:
  /// All blocks free. Throws std::invalid_argument for a shape or number of blocks that is not
  /// valid; std::bad_alloc.
  PagedKVCache(std::int64_t num_blocks, CacheShape shape, Policies policies,
               Pool pool = Pool::device);
  ~PagedKVCache() = default;
  PagedKVCache(const PagedKVCache&) = delete;
  PagedKVCache& operator=(const PagedKVCache&) = delete;
  PagedKVCache(PagedKVCache&&) = delete;
  PagedKVCache& operator=(PagedKVCache&&) = delete;

  [[nodiscard]] BlockAllocator& allocator() noexcept { return allocator_; }
  [[nodiscard]] const BlockAllocator& allocator() const noexcept { return allocator_; }
  [[nodiscard]] const CacheShape& shape() const noexcept { return shape_; }

  /// Copies whole blocks, in order. Checked: throws before the first copy, std::out_of_range for an
  /// id that is none, std::invalid_argument for a block that is not allocated: `Invalid block id in
  /// copy_blocks: src=0, dst=1: …`.
  void copy_blocks(const std::vector<BlockPair>& pairs);

  /// Copies whole blocks from this cache into another, in order; a pair is (block here, block
  /// there). Throws std::invalid_argument if the shapes differ, and as `copy_blocks`.
  void swap_blocks(PagedKVCache& target, const std::vector<BlockPair>& pairs);

  /// Stores one key and one value a token: `keys` and `values` are [tokens, num_heads, head_size],
  /// `slots` has one slot a token, a negative slot meaning "do not store". Throws
  /// std::invalid_argument for a shape, std::out_of_range for a layer; checked, also for a slot in
  /// a block that does not exist (std::out_of_range) or is not allocated (std::invalid_argument).
  void reshape_and_cache(std::int64_t layer, const ArrayView& keys, const ArrayView& values,
                         const std::vector<std::int64_t>& slots);

  /// One decode step of attention. `query` is [sequences, num_heads, head_size]; sequence s attends
  /// to its first `context_lengths[s]` tokens, which lie in `block_tables[s]`. Returns the shape of
  /// `query`: softmax(scale * q·k) · v for each head, in float. Throws as `reshape_and_cache`;
  /// checked, also std::invalid_argument for a table that is shorter than its context.
  [[nodiscard]] FloatArray paged_attention(std::int64_t layer, const ArrayView& query,
                                           const std::vector<BlockTable>& block_tables,
                                           const std::vector<std::int64_t>& context_lengths,
                                           float scale);

  /// A copy of one block's keys or values in one layer: [block_size, num_heads, head_size]. Throws
  /// std::out_of_range for a layer, and for the block as `get_block`.
  [[nodiscard]] FloatArray read_block(std::int64_t layer, CachePart part, BlockId block);

 private:
  /// Which row of the cache: the `num_heads * head_size` numbers of one token.
  struct Row {
    std::int64_t layer;
    CachePart part;
    std::int64_t offset;  // of the token in its block
  };

  /// One sequence of a decode step; everything borrowed. Query and output are one row each.
  struct Sequence {
    const BlockTable& table;
    std::int64_t context_length;
    const float* query;
    float* output;
  };

  [[nodiscard]] std::int64_t row_elements() const noexcept;
  [[nodiscard]] std::size_t row_bytes() const noexcept;
  [[nodiscard]] std::size_t position_of(Row row) const noexcept;
  void store(std::byte* target, const float* source) const;
  void load(const std::byte* source, float* target) const;
  [[nodiscard]] bool is_checked() const noexcept;
  void require_layer(std::int64_t layer) const;
  void require_rows(const ArrayView& array, const char* name, std::size_t rows) const;
  void require_pair(const char* operation, BlockPair pair, const PagedKVCache& target) const;
  void require_table(const BlockTable& table, std::int64_t context_length,
                     std::size_t sequence) const;
  void attend(std::int64_t layer, float scale, const Sequence& sequence);
  void record(EventKind kind, BlockId block, SourceLocation where = SourceLocation::here()) const;
  static void record_move(EventKind kind, const PagedKVCache& target, BlockPair pair,
                          SourceLocation where = SourceLocation::here());

  CacheShape shape_;
  BlockAllocator allocator_;
};

}  // namespace vllm

#endif  // VLLM_FORENSICS_CACHE_H_
