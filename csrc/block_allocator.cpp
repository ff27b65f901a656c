#include "block_allocator.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "check.h"

namespace vllm {

namespace {

std::size_t index_of(BlockId id) noexcept { return static_cast<std::size_t>(id); }

std::size_t checked_size(std::int64_t num_blocks, std::int64_t block_bytes) {
  constexpr std::int64_t kRounding = 16;  // An arena rounds each block up by less than this.
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() - kRounding;
  if (num_blocks < 1 || block_bytes < 1 || block_bytes > kMost / num_blocks - kRounding) {
    throw std::invalid_argument("Cannot make num_blocks=" + std::to_string(num_blocks) +
                                " blocks of block_bytes=" + std::to_string(block_bytes));
  }
  return static_cast<std::size_t>(block_bytes);
}

}  // namespace

Block::Block(BlockId id, std::size_t size_bytes)
    : id_(id),
      data_(nullptr),
      size_bytes_(size_bytes),
      owned_(std::make_unique<std::byte[]>(size_bytes)) {
  data_ = owned_.get();
}

Block::Block(BlockId id, std::byte* storage, std::size_t size_bytes) noexcept
    : id_(id), data_(storage), size_bytes_(size_bytes) {}

void Block::take_memory() {
  owned_ = std::make_unique<std::byte[]>(size_bytes_);
  data_ = owned_.get();
}

void Block::return_memory() noexcept { owned_.reset(); }

void Block::start_life(Generation generation) noexcept {
  FORENSICS_CHECK(reference_count_ == 0);
  generation_ = generation;
  reference_count_ = 1;
}

void Block::add_reference() noexcept {
  FORENSICS_CHECK(reference_count_ > 0);
  ++reference_count_;
}

int Block::drop_reference() noexcept {
  FORENSICS_CHECK(reference_count_ > 0);
  return --reference_count_;
}

BlockAllocator::BlockAllocator(std::int64_t num_blocks, std::int64_t block_bytes, Policies policies,
                               Pool pool)
    : block_bytes_(checked_size(num_blocks, block_bytes)), policies_(policies), pool_(pool) {
  blocks_.reserve(index_of(num_blocks));
  if (!has_free_list()) {
    for (BlockId id = 0; id < num_blocks; ++id) {
      blocks_.push_back(std::make_unique<Block>(id, block_bytes_));
    }
    return;
  }
  if (policies_.reclaim == ReclaimPolicy::free_list) {
    arena_.emplace(index_of(num_blocks), block_bytes_);
  }
  free_ids_.reserve(index_of(num_blocks));
  for (BlockId id = 0; id < num_blocks; ++id) {
    blocks_.push_back(
        std::make_unique<Block>(id, arena_ ? arena_->block(id) : nullptr, block_bytes_));
    free_ids_.push_back(num_blocks - 1 - id);
  }
}

BlockId BlockAllocator::allocate(SourceLocation where) {
  std::optional<BlockId> id = take_free_slot();
  if (!id.has_value() && exhausted_handler_) {
    exhausted_handler_(*this);
    id = take_free_slot();
  }
  if (!id.has_value()) {
    throw std::runtime_error("No free block: num_blocks=" + std::to_string(num_blocks()) +
                             ", free=0");
  }
  start_life(*id, where);
  return *id;
}

void BlockAllocator::allocate_block(BlockId id, SourceLocation where) {
  const std::string message = "Cannot hand out block=" + std::to_string(id);
  if (!contains(id)) {
    throw std::out_of_range(message + ": num_blocks=" + std::to_string(num_blocks()));
  }
  if (find(id) == nullptr || is_allocated(id)) {
    throw std::invalid_argument(message + ": it is not free");
  }
  if (has_free_list()) {
    free_ids_.erase(std::find(free_ids_.begin(), free_ids_.end(), id));
  }
  start_life(id, where);
}

void BlockAllocator::start_life(BlockId id, SourceLocation where) {
  Block& block = *blocks_[index_of(id)];
  if (policies_.reclaim == ReclaimPolicy::heap_per_life) {
    block.take_memory();
  }
  block.start_life(next_generation_++);
  if (arena_.has_value()) {
    arena_->unpoison(index_of(id));
  }
  record(EventKind::allocate, id, where);
}

void BlockAllocator::free(BlockId id, SourceLocation where) {
  if (is_checked()) {
    require_allocated(id, "Invalid block id in free: block=" + std::to_string(id));
  }
  record(EventKind::free, id, where);
  if (blocks_[index_of(id)]->drop_reference() == 0) {
    reclaim(id);
  }
}

void BlockAllocator::fork(BlockId id, SourceLocation where) {
  if (is_checked()) {
    require_allocated(id, "Invalid block id in fork: block=" + std::to_string(id));
  }
  record(EventKind::fork, id, where);
  blocks_[index_of(id)]->add_reference();
}

Block* BlockAllocator::get_block(BlockId id) {
  if (is_checked()) {
    require_allocated(id, "Invalid block id in get_block: block=" + std::to_string(id));
  }
  return blocks_[index_of(id)].get();
}

Block& BlockAllocator::resolve(BlockRef reference) {
  const std::string message = "Stale block reference: block=" + std::to_string(reference.id) +
                              ", generation=" + std::to_string(reference.generation);
  require_allocated(reference.id, message);
  Block& block = *blocks_[index_of(reference.id)];
  if (block.generation() != reference.generation) {
    throw std::invalid_argument(message + ": the block is now in generation " +
                                std::to_string(block.generation()));
  }
  return block;
}

BlockRef BlockAllocator::reference_to(BlockId id) const {
  require_allocated(id, "Invalid block id in reference_to: block=" + std::to_string(id));
  return {id, generation(id)};
}

std::byte* BlockAllocator::block_data(BlockId id) {
  if (is_checked() || !arena_.has_value()) {
    return get_block(id)->data();
  }
  return arena_->block(id);
}

bool BlockAllocator::contains(BlockId id) const noexcept { return id >= 0 && id < num_blocks(); }

bool BlockAllocator::is_allocated(BlockId id) const noexcept { return reference_count(id) > 0; }

int BlockAllocator::reference_count(BlockId id) const noexcept {
  const Block* const block = find(id);
  return block == nullptr ? 0 : block->reference_count();
}

Generation BlockAllocator::generation(BlockId id) const noexcept {
  return is_allocated(id) ? find(id)->generation() : 0;
}

std::int64_t BlockAllocator::num_blocks() const noexcept {
  return static_cast<std::int64_t>(blocks_.size());
}

std::int64_t BlockAllocator::num_free_blocks() const noexcept {
  std::int64_t count = 0;
  for (const auto& block : blocks_) {
    count += block != nullptr && block->reference_count() == 0 ? 1 : 0;
  }
  return count;
}

void BlockAllocator::set_exhausted_handler(ExhaustedHandler handler) {
  exhausted_handler_ = std::move(handler);
}

void BlockAllocator::require_allocated(BlockId id, const std::string& message) const {
  if (!contains(id)) {
    throw std::out_of_range(message + ": block " + std::to_string(id) +
                            " does not exist, num_blocks=" + std::to_string(num_blocks()));
  }
  if (!is_allocated(id)) {
    throw std::invalid_argument(message + ": block " + std::to_string(id) + " is not allocated");
  }
}

const Block* BlockAllocator::find(BlockId id) const noexcept {
  return contains(id) ? blocks_[index_of(id)].get() : nullptr;
}

bool BlockAllocator::has_free_list() const noexcept {
  return policies_.reclaim == ReclaimPolicy::free_list ||
         policies_.reclaim == ReclaimPolicy::heap_per_life;
}

std::optional<BlockId> BlockAllocator::take_free_slot() noexcept {
  if (has_free_list()) {
    if (free_ids_.empty()) {
      return std::nullopt;
    }
    const BlockId id = free_ids_.back();
    free_ids_.pop_back();
    return id;
  }
  for (BlockId id = 0; id < num_blocks(); ++id) {
    const Block* const block = find(id);
    if (block != nullptr && block->reference_count() == 0) {
      return id;
    }
  }
  return std::nullopt;
}

void BlockAllocator::reclaim(BlockId id) {
  switch (policies_.reclaim) {
    // NOLINTBEGIN(bugprone-*): the two planted defects: null slots, shifted ids
    case ReclaimPolicy::reset_only:
      blocks_[index_of(id)].reset();
      return;
    case ReclaimPolicy::erase:
      blocks_.erase(blocks_.begin() + id);
      return;
    // NOLINTEND(bugprone-*)
    case ReclaimPolicy::free_list:
      FORENSICS_CHECK(arena_.has_value());
      arena_->poison(index_of(id));
      free_ids_.push_back(id);
      return;
    case ReclaimPolicy::heap_per_life:
      blocks_[index_of(id)]->return_memory();
      free_ids_.push_back(id);
      return;
  }
}

bool BlockAllocator::is_checked() const noexcept {
  return policies_.access == AccessPolicy::checked;
}

void BlockAllocator::record(EventKind kind, BlockId id, SourceLocation where) const {
  if (event_log::active()) {
    event_log::record({kind, pool_, id, std::nullopt, generation(id)}, where);
  }
}

}  // namespace vllm
