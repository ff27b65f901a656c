#ifndef VLLM_FORENSICS_BLOCK_ALLOCATOR_H_
#define VLLM_FORENSICS_BLOCK_ALLOCATOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arena.h"
#include "event_log.h"

namespace vllm {

/// What `free` does with a block that nobody refers to any more.
enum class ReclaimPolicy : std::uint8_t {
  /// Destroys the block and keeps its slot: `get_block` then yields null, the slot is never used
  /// again, and pointers to the block dangle. The defect of the story.
  reset_only,
  /// Destroys the block and its slot: every later id now names its neighbour. The wrong repair.
  erase,
  /// Keeps the block, its id and its memory for the next owner. The right one.
  free_list,
  /// Keeps the block and its id; its memory goes back to the heap, and the next owner gets new.
  /// With
  /// unchecked access a block that is used while it is free leads to memory that is gone: under
  /// AddressSanitizer that names who allocated, who freed and who used it.
  heap_per_life,
};

/// Whether block ids are looked at before they are used.
enum class AccessPolicy : std::uint8_t {
  unchecked,  ///< as fast code does it: a wrong id is undefined behaviour
  checked,    ///< a wrong id throws, with the ids in the message
};

/// The two choices that decide how a mistake shows.
struct Policies {
  ReclaimPolicy reclaim = ReclaimPolicy::free_list;
  AccessPolicy access = AccessPolicy::checked;
};

/// A block in one of its lives. It stays valid as a value when the block is freed, and is then
/// recognised as stale.
struct BlockRef {
  BlockId id;
  Generation generation;
};

/// Some bytes of cache and how many owners they have. Its address is its identity.
class Block {
 public:
  /// A block with `size_bytes` of its own on the heap, zeroed.
  Block(BlockId id, std::size_t size_bytes);

  /// A block over `size_bytes` of memory that outlives it.
  Block(BlockId id, std::byte* storage, std::size_t size_bytes) noexcept;

  ~Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  Block(Block&&) = delete;
  Block& operator=(Block&&) = delete;

  /// The id that the block was made with; under ReclaimPolicy::erase not always its index.
  [[nodiscard]] BlockId id() const noexcept { return id_; }

  /// The bytes: a borrowed view, valid as long as the block is.
  [[nodiscard]] std::byte* data() noexcept { return data_; }
  [[nodiscard]] const std::byte* data() const noexcept { return data_; }

  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }

  /// 0 when the block is free.
  [[nodiscard]] int reference_count() const noexcept { return reference_count_; }

  /// The serial number of its present or last life; 0 before the first.
  [[nodiscard]] Generation generation() const noexcept { return generation_; }

  /// Gives the block new memory of its own, zeroed. For the allocator.
  void take_memory();

  /// Returns that memory to the heap; `data` still says where it was. For the allocator.
  void return_memory() noexcept;

  /// Begins a life with one owner. For the allocator.
  void start_life(Generation generation) noexcept;

  /// Adds an owner. For the allocator.
  void add_reference() noexcept;

  /// Removes an owner and returns how many are left; aborts if there was none. For the allocator.
  [[nodiscard]] int drop_reference() noexcept;

 private:
  BlockId id_;
  Generation generation_ = 0;
  int reference_count_ = 0;
  std::byte* data_;
  std::size_t size_bytes_;
  std::unique_ptr<std::byte[]> owned_;  // empty over an arena, and between lives on the heap
};

/// Hands out fixed-size blocks by id, shares them by reference count, takes them back.
///
/// Under free_list all blocks lie in one Arena. Under reset_only and erase, which destroy blocks,
/// each has its own piece of the heap, and under heap_per_life each life. Not safe for use from
/// several threads at once.
class BlockAllocator {
 public:
  /// Called when nothing is free, before `allocate` gives up; it may free blocks.
  using ExhaustedHandler = std::function<void(BlockAllocator&)>;

  /// `num_blocks` blocks of `block_bytes` each, all free. Throws std::invalid_argument unless both
  /// are at least 1 and their product fits in memory sizes; std::bad_alloc.
  BlockAllocator(std::int64_t num_blocks, std::int64_t block_bytes, Policies policies,
                 Pool pool = Pool::device);
  ~BlockAllocator() = default;
  BlockAllocator(const BlockAllocator&) = delete;
  BlockAllocator& operator=(const BlockAllocator&) = delete;
  BlockAllocator(BlockAllocator&&) = delete;
  BlockAllocator& operator=(BlockAllocator&&) = delete;

  /// Hands out a free block with one owner; its bytes are whatever the last owner left. Throws
  /// std::runtime_error if none is free, even after the exhausted handler ran.
  [[nodiscard]] BlockId allocate(SourceLocation where = SourceLocation::here());

  /// Hands out this block, for whoever keeps a free list of their own. Throws std::out_of_range for
  /// an id that is none, std::invalid_argument for a block that is allocated or destroyed.
  void allocate_block(BlockId id, SourceLocation where = SourceLocation::here());

  /// Gives up one ownership; the last one reclaims the block as the policy says. Checked: throws
  /// std::out_of_range for an id that is none, std::invalid_argument for a block that is not
  /// allocated. Unchecked: aborts on a free block, undefined for an id that is none.
  void free(BlockId id, SourceLocation where = SourceLocation::here());

  /// Adds an owner, who must `free` it too. Errors as in `free`.
  void fork(BlockId id, SourceLocation where = SourceLocation::here());

  /// The block in slot `id`: borrowed, valid until the block is reclaimed. Unchecked: null for a
  /// slot that was reset, undefined for an id that is none. Checked: throws std::out_of_range for
  /// an id that is none, std::invalid_argument for a block that is not allocated.
  [[nodiscard]] Block* get_block(BlockId id);

  /// The block, if it is still in the life that `reference` was taken in. Looks under either access
  /// policy: throws std::out_of_range for an id that is none, std::invalid_argument for a block
  /// that is free or has lived again since.
  [[nodiscard]] Block& resolve(BlockRef reference);

  /// A reference to the present life of an allocated block; throws as `resolve`.
  [[nodiscard]] BlockRef reference_to(BlockId id) const;

  /// Where the bytes of block `id` begin. For an arena this is arithmetic: with unchecked access a
  /// wrong id yields an address outside. Otherwise as `get_block(id)->data()`.
  [[nodiscard]] std::byte* block_data(BlockId id);

  /// Whether `id` is a slot, of whatever state. Never throws.
  [[nodiscard]] bool contains(BlockId id) const noexcept;

  /// Whether `id` is a slot with an allocated block in it. Never throws.
  [[nodiscard]] bool is_allocated(BlockId id) const noexcept;

  /// How many owners the block has; 0 for a free or destroyed block or an id that is none.
  [[nodiscard]] int reference_count(BlockId id) const noexcept;

  /// The life of an allocated block; 0 in every other case. Never throws.
  [[nodiscard]] Generation generation(BlockId id) const noexcept;

  /// Slots, destroyed blocks under reset_only included. Shrinks under erase.
  [[nodiscard]] std::int64_t num_blocks() const noexcept;

  /// Blocks that `allocate` could hand out now.
  [[nodiscard]] std::int64_t num_free_blocks() const noexcept;

  [[nodiscard]] std::size_t block_bytes() const noexcept { return block_bytes_; }
  [[nodiscard]] Policies policies() const noexcept { return policies_; }
  [[nodiscard]] Pool pool() const noexcept { return pool_; }

  /// Sets what is called when nothing is free; an empty function for nothing. A handler that
  /// allocates while nothing is free calls itself without end.
  void set_exhausted_handler(ExhaustedHandler handler);

  /// Throws what `checked` access throws for this id, the text being `message` and the reason;
  /// does nothing for an allocated block.
  void require_allocated(BlockId id, const std::string& message) const;

 private:
  [[nodiscard]] const Block* find(BlockId id) const noexcept;
  [[nodiscard]] std::optional<BlockId> take_free_slot() noexcept;
  [[nodiscard]] bool has_free_list() const noexcept;
  void start_life(BlockId id, SourceLocation where);
  void reclaim(BlockId id);
  [[nodiscard]] bool is_checked() const noexcept;
  void record(EventKind kind, BlockId id, SourceLocation where) const;

  std::size_t block_bytes_;
  Policies policies_;
  Pool pool_;
  Generation next_generation_ = 1;
  std::optional<Arena> arena_;  // under free_list only
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<BlockId> free_ids_;  // where blocks are kept; the last one freed is handed out first
  ExhaustedHandler exhausted_handler_;
};

}  // namespace vllm

#endif  // VLLM_FORENSICS_BLOCK_ALLOCATOR_H_
