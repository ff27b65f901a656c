/// Programs that are wrong on purpose: one test, one fault. Each goes through the specimen's API
/// as a user would, so that what a debugger or sanitizer shows is what it would show of the real
/// thing. Ids and sizes pass through `opaque`, or an optimiser would take the fault away.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

#include "cpu_worker.h"
#include "demo_harness.h"
#include "opaque.h"

namespace {

using demo::opaque;
using vllm::AccessPolicy;
using vllm::BlockAllocator;
using vllm::BlockId;
using vllm::CacheShape;
using vllm::FloatArray;
using vllm::PagedKVCache;
using vllm::Policies;
using vllm::ReclaimPolicy;

constexpr Policies kStory{ReclaimPolicy::reset_only, AccessPolicy::unchecked};
constexpr Policies kFastArena{ReclaimPolicy::free_list, AccessPolicy::unchecked};
constexpr Policies kSafe{ReclaimPolicy::free_list, AccessPolicy::checked};

/// Blocks of 4 tokens, 2 layers, 2 heads of 8 floats: 1,024 bytes each.
constexpr CacheShape kShape{4, 2, 2, 8};

/// `count` tokens of one number each.
FloatArray tokens(std::int64_t count, float number) {
  return {std::vector<float>(static_cast<std::size_t>(count * kShape.num_heads * kShape.head_size),
                             number),
          {count, kShape.num_heads, kShape.head_size}};
}

/// Stores one token of `number` as key and value in `slot` of the first layer.
void write_token(PagedKVCache& cache, std::int64_t slot, float number) {
  const FloatArray token = tokens(1, number);
  cache.reshape_and_cache(0, token.view(), token.view(), {slot});
}

}  // namespace

// NOLINTBEGIN: every test below holds the fault that its name says, and nothing else is wrong.

/// The story: the block is gone, its slot is not, and a copy trusts the id.
TEST(NullDereference, ResetThenCopy) {
  PagedKVCache cache(4, kShape, kStory);
  const BlockId source = cache.allocator().allocate();
  const BlockId target = cache.allocator().allocate();

  cache.allocator().free(opaque(source));

  cache.copy_blocks({{source, target}});
}

/// A raw pointer is kept across the free. The block has its own piece of the heap, so a sanitizer
/// shows where it was allocated, freed and used. Without one, what is read is no longer what was
/// written, or it is by luck.
TEST(UseAfterFree, StalePointer) {
  BlockAllocator allocator(4, 256, kStory);
  const BlockId id = allocator.allocate();
  vllm::Block* const stale = opaque(allocator.get_block(id));
  const std::uint64_t written = opaque(std::uint64_t{42});
  std::memcpy(stale->data(), &written, sizeof written);

  allocator.free(id);

  std::uint64_t read = 0;
  std::memcpy(&read, stale->data(), sizeof read);
  EXPECT_EQ(read, written);
}

/// Somebody takes a borrowed view for its own; both owners free it.
TEST(DoubleFree, BorrowedBytesAdopted) {
  BlockAllocator allocator(4, 256, kStory);
  const BlockId id = allocator.allocate();

  std::unique_ptr<std::byte[]> adopted(opaque(allocator.get_block(id)->data()));
  adopted.reset();

  allocator.free(id);
}

/// Off by one: the id after the last.
TEST(HeapOverflow, LastBlockPlusOne) {
  PagedKVCache cache(4, kShape, kFastArena);
  for (int i = 0; i < 4; ++i) {
    static_cast<void>(cache.allocator().allocate());
  }

  const BlockId past_the_end = opaque(cache.allocator().num_blocks());

  write_token(cache, past_the_end * kShape.block_size, 1.0F);
}

/// An id that is far off, in a block that nobody owns: larger than any redzone, and inside the
/// same piece of memory. Only the arena's poisoning tells.
TEST(IndexPastRedzone, SlotInUnownedBlock) {
  PagedKVCache cache(16, kShape, kFastArena);
  const BlockId mine = cache.allocator().allocate();

  const std::int64_t slot = (mine + opaque(9)) * kShape.block_size;

  write_token(cache, slot, 1.0F);
}

/// The wrong repair: erasing a slot moves every later block to another id. Nothing crashes; a
/// request reads another's tokens.
TEST(IdShift, EraseMovesNeighbours) {
  PagedKVCache cache(4, kShape, {ReclaimPolicy::erase, AccessPolicy::checked});
  const BlockId first = cache.allocator().allocate();
  const BlockId second = cache.allocator().allocate();
  const BlockId third = cache.allocator().allocate();
  write_token(cache, second * kShape.block_size, 2.0F);
  write_token(cache, third * kShape.block_size, 3.0F);

  cache.allocator().free(opaque(first));

  const FloatArray keys = cache.read_block(0, vllm::CachePart::key, second);
  EXPECT_EQ(keys.values.front(), 2.0F);
}

/// The checked access throws, and nobody catches.
TEST(UncaughtException, CopyOutOfRange) {
  PagedKVCache cache(4, kShape, kSafe);
  const BlockId target = cache.allocator().allocate();

  cache.copy_blocks({{opaque(BlockId{99}), target}});
}

/// One thread copies a block out; another frees it and lets its next owner write.
TEST(DataRace, FreeWhileCopying) {
  PagedKVCache cache(4, kShape, kFastArena);
  const BlockId source = cache.allocator().allocate();
  const BlockId target = cache.allocator().allocate();
  write_token(cache, source * kShape.block_size, 1.0F);

  std::thread copier([&] { cache.copy_blocks({{source, target}}); });
  cache.allocator().free(opaque(source));
  const BlockId reused = cache.allocator().allocate();
  write_token(cache, reused * kShape.block_size, 2.0F);
  copier.join();
}

/// To make room, the handler of an exhausted pool moves a victim's bytes to a block that it
/// allocates from the same pool.
TEST(StackOverflow, EvictionAllocates) {
  constexpr std::size_t kBlockBytes = 4096;
  BlockAllocator allocator(1, kBlockBytes, kSafe);
  allocator.set_exhausted_handler([](BlockAllocator& pool) {
    std::array<std::byte, kBlockBytes> victim{};
    std::memcpy(victim.data(), pool.get_block(0)->data(), victim.size());
    const BlockId scratch = pool.allocate();
    std::memcpy(pool.get_block(scratch)->data(), victim.data(), victim.size());
  });

  static_cast<void>(allocator.allocate());
  static_cast<void>(allocator.allocate());
}

/// Two heads shared among four ranks leave none for this one, and a block has no bytes. x86 traps;
/// AArch64 answers 0, and only UndefinedBehaviorSanitizer tells.
TEST(DivideByZero, NoHeadsOnThisRank) {
  const std::int64_t ranks = opaque(std::int64_t{4});
  const CacheShape share{4, 2, kShape.num_heads / ranks, 8};

  const std::int64_t blocks =
      vllm::blocks_that_fit(opaque(std::int64_t{1} << 20), share, AccessPolicy::unchecked);

  std::cout << "blocks that fit: " << blocks << '\n';
}

/// Two sequences both give up the one reference they share; the check stops the second.
TEST(Abort, FreedTwiceFailsTheCheck) {
  BlockAllocator allocator(4, 256, kFastArena);
  const BlockId id = allocator.allocate();

  allocator.free(opaque(id));
  allocator.free(opaque(id));
}

// NOLINTEND
