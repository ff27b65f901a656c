#include "cache.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "bfloat16.h"

namespace vllm {

namespace {

constexpr std::int64_t kParts = 2;  // keys and values

std::string describe(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

std::string name_pair(const char* operation, BlockPair pair) {
  return std::string("Invalid block id in ") + operation + ": src=" + std::to_string(pair.first) +
         ", dst=" + std::to_string(pair.second);
}

void require_length(const char* name, std::size_t length, std::size_t expected) {
  if (length != expected) {
    throw std::invalid_argument(std::string(name) + " has " + std::to_string(length) +
                                " entries, expected " + std::to_string(expected));
  }
}

/// Turns scores into weights that sum to 1; less the largest first, so that no exp overflows.
void softmax(float* scores, std::size_t count) {
  float* const end = scores + count;
  const float largest = *std::max_element(scores, end);
  float sum = 0.0F;
  for (float* score = scores; score != end; ++score) {
    *score = std::exp(*score - largest);
    sum += *score;
  }
  for (float* score = scores; score != end; ++score) {
    *score /= sum;
  }
}

}  // namespace

std::int64_t element_bytes(DataType dtype) noexcept {
  return dtype == DataType::float32 ? static_cast<std::int64_t>(sizeof(float))
                                    : static_cast<std::int64_t>(sizeof(Bfloat16));
}

std::int64_t CacheShape::block_bytes() const noexcept {
  return num_layers * kParts * block_size * num_heads * head_size * element_bytes(dtype);
}

const CacheShape& CacheShape::validated() const {
  constexpr std::int64_t kMostOfOne = std::int64_t{1} << 20;
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
  const std::array<std::pair<const char*, std::int64_t>, 4> sizes = {{{"block_size", block_size},
                                                                      {"num_layers", num_layers},
                                                                      {"num_heads", num_heads},
                                                                      {"head_size", head_size}}};
  std::int64_t bytes = kParts * element_bytes(dtype);
  for (const auto& [name, size] : sizes) {
    if (size < 1 || size > kMostOfOne) {
      throw std::invalid_argument(std::string("CacheShape.") + name + " must be from 1 to " +
                                  std::to_string(kMostOfOne) + ", not " + std::to_string(size));
    }
    if (bytes > kMostBytes / size) {
      throw std::invalid_argument("CacheShape: a block would be larger than " +
                                  std::to_string(kMostBytes) + " bytes");
    }
    bytes *= size;
  }
  return *this;
}

std::int64_t blocks_that_fit(std::int64_t memory_bytes, const CacheShape& shape,
                             AccessPolicy access) {
  if (access == AccessPolicy::checked) {
    static_cast<void>(shape.validated());
    if (memory_bytes < 0) {
      throw std::invalid_argument("memory_bytes must not be negative: " +
                                  std::to_string(memory_bytes));
    }
  }
  return memory_bytes / shape.block_bytes();
}

PagedKVCache::PagedKVCache(std::int64_t num_blocks, CacheShape shape, Policies policies, Pool pool)
    : shape_(shape.validated()), allocator_(num_blocks, shape.block_bytes(), policies, pool) {}

void PagedKVCache::copy_blocks(const std::vector<BlockPair>& pairs) {
  if (is_checked()) {
    for (const BlockPair& pair : pairs) {
      require_pair("copy_blocks", pair, *this);
    }
  }
  for (const auto& [source_id, target_id] : pairs) {
    record_move(EventKind::copy, *this, {source_id, target_id});
    const Block* const source = allocator_.get_block(source_id);
    Block* const target = allocator_.get_block(target_id);
    std::memcpy(target->data(), source->data(), allocator_.block_bytes());
  }
}

void PagedKVCache::swap_blocks(PagedKVCache& target, const std::vector<BlockPair>& pairs) {
  if (shape_.block_size != target.shape_.block_size ||
      shape_.num_layers != target.shape_.num_layers ||
      shape_.num_heads != target.shape_.num_heads || shape_.head_size != target.shape_.head_size ||
      shape_.dtype != target.shape_.dtype) {
    throw std::invalid_argument("swap_blocks: the two caches have different shapes");
  }
  if (is_checked()) {
    for (const BlockPair& pair : pairs) {
      require_pair("swap_blocks", pair, target);
    }
  }
  for (const auto& [source_id, target_id] : pairs) {
    record_move(EventKind::swap, target, {source_id, target_id});
    const Block* const source = allocator_.get_block(source_id);
    Block* const destination = target.allocator_.get_block(target_id);
    std::memcpy(destination->data(), source->data(), allocator_.block_bytes());
  }
}

void PagedKVCache::reshape_and_cache(std::int64_t layer, const ArrayView& keys,
                                     const ArrayView& values,
                                     const std::vector<std::int64_t>& slots) {
  require_layer(layer);
  require_rows(keys, "keys", slots.size());
  require_rows(values, "values", slots.size());
  if (is_checked()) {
    for (const std::int64_t slot : slots) {
      if (slot >= 0) {
        const BlockId block = slot / shape_.block_size;
        allocator_.require_allocated(
            block, "Invalid slot in reshape_and_cache: slot=" + std::to_string(slot) +
                       ", block=" + std::to_string(block));
      }
    }
  }
  const float* key = keys.data;
  const float* value = values.data;
  for (const std::int64_t slot : slots) {
    if (slot >= 0) {
      const BlockId block = slot / shape_.block_size;
      const std::int64_t offset = slot % shape_.block_size;
      record(EventKind::use, block);
      std::byte* const data = allocator_.block_data(block);
      store(data + position_of({layer, CachePart::key, offset}), key);
      store(data + position_of({layer, CachePart::value, offset}), value);
    }
    key += row_elements();
    value += row_elements();
  }
}

FloatArray PagedKVCache::paged_attention(std::int64_t layer, const ArrayView& query,
                                         const std::vector<BlockTable>& block_tables,
                                         const std::vector<std::int64_t>& context_lengths,
                                         float scale) {
  require_layer(layer);
  require_rows(query, "query", block_tables.size());
  require_length("context_lengths", context_lengths.size(), block_tables.size());
  if (is_checked()) {
    for (std::size_t sequence = 0; sequence < block_tables.size(); ++sequence) {
      require_table(block_tables[sequence], context_lengths[sequence], sequence);
    }
  }
  const auto row = static_cast<std::size_t>(row_elements());
  FloatArray output{std::vector<float>(block_tables.size() * row), query.shape};
  for (std::size_t sequence = 0; sequence < block_tables.size(); ++sequence) {
    attend(layer, scale,
           {block_tables[sequence], context_lengths[sequence], query.data + sequence * row,
            output.values.data() + sequence * row});
  }
  return output;
}

void PagedKVCache::attend(std::int64_t layer, float scale, const Sequence& sequence) {
  const auto heads = static_cast<std::size_t>(shape_.num_heads);
  const auto head_size = static_cast<std::size_t>(shape_.head_size);
  const auto context = static_cast<std::size_t>(std::max<std::int64_t>(sequence.context_length, 0));
  std::vector<float> row(heads * head_size);
  std::vector<float> scores(heads * context);
  const auto load_row = [&](CachePart part, std::size_t token) {
    const auto position = static_cast<std::int64_t>(token);
    const BlockId block = sequence.table[static_cast<std::size_t>(position / shape_.block_size)];
    if (position % shape_.block_size == 0 && part == CachePart::key) {
      record(EventKind::use, block);
    }
    load(allocator_.block_data(block) + position_of({layer, part, position % shape_.block_size}),
         row.data());
  };

  for (std::size_t token = 0; token < context; ++token) {
    load_row(CachePart::key, token);
    for (std::size_t head = 0; head < heads; ++head) {
      float product = 0.0F;
      for (std::size_t i = head * head_size; i < (head + 1) * head_size; ++i) {
        product += sequence.query[i] * row[i];
      }
      scores[head * context + token] = scale * product;
    }
  }
  for (std::size_t head = 0; head < heads && context > 0; ++head) {
    softmax(&scores[head * context], context);
  }
  for (std::size_t token = 0; token < context; ++token) {
    load_row(CachePart::value, token);
    for (std::size_t i = 0; i < row.size(); ++i) {
      sequence.output[i] += scores[i / head_size * context + token] * row[i];
    }
  }
}

FloatArray PagedKVCache::read_block(std::int64_t layer, CachePart part, BlockId block) {
  require_layer(layer);
  FloatArray result{
      std::vector<float>(static_cast<std::size_t>(shape_.block_size * row_elements())),
      {shape_.block_size, shape_.num_heads, shape_.head_size}};
  const std::byte* const data = allocator_.block_data(block);
  for (std::int64_t offset = 0; offset < shape_.block_size; ++offset) {
    load(data + position_of({layer, part, offset}), result.values.data() + offset * row_elements());
  }
  return result;
}

std::int64_t PagedKVCache::row_elements() const noexcept {
  return shape_.num_heads * shape_.head_size;
}

std::size_t PagedKVCache::row_bytes() const noexcept {
  return static_cast<std::size_t>(row_elements() * element_bytes(shape_.dtype));
}

std::size_t PagedKVCache::position_of(Row row) const noexcept {
  const std::int64_t part = row.part == CachePart::key ? 0 : 1;
  return static_cast<std::size_t>((row.layer * kParts + part) * shape_.block_size + row.offset) *
         row_bytes();
}

void PagedKVCache::store(std::byte* target, const float* source) const {
  if (shape_.dtype == DataType::float32) {
    std::memcpy(target, source, row_bytes());
    return;
  }
  for (std::int64_t i = 0; i < row_elements(); ++i) {
    const Bfloat16 number(source[i]);
    std::memcpy(target + i * static_cast<std::int64_t>(sizeof number), &number, sizeof number);
  }
}

void PagedKVCache::load(const std::byte* source, float* target) const {
  if (shape_.dtype == DataType::float32) {
    std::memcpy(target, source, row_bytes());
    return;
  }
  for (std::int64_t i = 0; i < row_elements(); ++i) {
    Bfloat16 number;
    std::memcpy(&number, source + i * static_cast<std::int64_t>(sizeof number), sizeof number);
    target[i] = number.to_float();
  }
}

bool PagedKVCache::is_checked() const noexcept {
  return allocator_.policies().access == AccessPolicy::checked;
}

void PagedKVCache::require_layer(std::int64_t layer) const {
  if (layer < 0 || layer >= shape_.num_layers) {
    throw std::out_of_range("layer=" + std::to_string(layer) +
                            " does not exist, num_layers=" + std::to_string(shape_.num_layers));
  }
}

void PagedKVCache::require_rows(const ArrayView& array, const char* name, std::size_t rows) const {
  const std::vector<std::int64_t> expected = {static_cast<std::int64_t>(rows), shape_.num_heads,
                                              shape_.head_size};
  if (array.shape != expected) {
    throw std::invalid_argument(std::string(name) + " has shape " + describe(array.shape) +
                                ", expected " + describe(expected));
  }
}

void PagedKVCache::require_pair(const char* operation, BlockPair pair,
                                const PagedKVCache& target) const {
  const std::string message = name_pair(operation, pair);
  allocator_.require_allocated(pair.first, message);
  target.allocator_.require_allocated(pair.second, message);
}

void PagedKVCache::require_table(const BlockTable& table, std::int64_t context_length,
                                 std::size_t sequence) const {
  const std::string name = "sequence=" + std::to_string(sequence);
  const std::int64_t room = static_cast<std::int64_t>(table.size()) * shape_.block_size;
  if (context_length < 1 || context_length > room) {
    throw std::invalid_argument("Invalid context length in paged_attention: " + name +
                                ", context_length=" + std::to_string(context_length) +
                                ", the block table has room for " + std::to_string(room));
  }
  const auto used =
      static_cast<std::size_t>((context_length + shape_.block_size - 1) / shape_.block_size);
  for (std::size_t i = 0; i < used; ++i) {
    allocator_.require_allocated(table[i], "Invalid block id in paged_attention: " + name +
                                               ", block=" + std::to_string(table[i]));
  }
}

void PagedKVCache::record_move(EventKind kind, const PagedKVCache& target, BlockPair pair,
                               SourceLocation where) {
  if (event_log::active()) {
    event_log::record({kind, target.allocator_.pool(), pair.second, pair.first,
                       target.allocator_.generation(pair.second)},
                      where);
  }
}

void PagedKVCache::record(EventKind kind, BlockId block, SourceLocation where) const {
  if (event_log::active()) {
    event_log::record({kind, allocator_.pool(), block, std::nullopt, allocator_.generation(block)},
                      where);
  }
}

}  // namespace vllm
