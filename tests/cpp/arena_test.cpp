#include "arena.h"

#include <cstdint>
#include <stdexcept>

#include "opaque.h"
#include "support.h"

namespace {

using demo::opaque;
using test_support::expect_throw;
using test_support::kFastArena;
using vllm::Arena;
using vllm::BlockAllocator;
using vllm::BlockId;

constexpr std::size_t kLargerThanAnyRedzone = 4096;

TEST(Arena, BlocksAreSideBySideAndZeroed) {
  const Arena arena(3, 32);
  arena.unpoison(1);

  EXPECT_EQ(arena.block(2) - arena.block(0), 64);
  EXPECT_EQ(arena.block(1)[31], std::byte{0});
}

TEST(Arena, StrideIsRoundedUpSoThatEveryBlockIsAligned) {
  const Arena arena(2, 33);

  EXPECT_EQ(arena.stride_bytes(), 48U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.block(1)) % 16, 0U);
}

TEST(Arena, JumpPastARedzoneIsReportedBecauseUnownedBlocksArePoisoned) {
  BlockAllocator allocator(16, kLargerThanAnyRedzone, kFastArena);
  const BlockId mine = allocator.allocate();
  std::byte* const far = allocator.block_data(mine) + opaque(9 * kLargerThanAnyRedzone);

  if (vllm::built_with_address_sanitizer()) {
    EXPECT_DEATH(*opaque(far) = std::byte{1}, "use-after-poison");
  } else {
    *opaque(far) = std::byte{1};  // This is what happens without: nothing at all.
    EXPECT_EQ(allocator.block_data(mine + 9)[0], std::byte{1});
  }
}

TEST(Arena, FreedBlockIsPoisonedAgain) {
  BlockAllocator allocator(4, 64, kFastArena);
  const BlockId block = allocator.allocate();
  std::byte* const stale = allocator.get_block(block)->data();
  *stale = std::byte{1};

  allocator.free(block);

  if (vllm::built_with_address_sanitizer()) {
    EXPECT_DEATH(*opaque(stale) = std::byte{2}, "use-after-poison");
  }
  EXPECT_EQ(allocator.allocate(), block);
  EXPECT_EQ(*stale, std::byte{1});
}

TEST(Arena, JumpIntoALiveBlockIsNotReportedButTheGenerationCheckCatchesIt) {
  BlockAllocator allocator(4, kLargerThanAnyRedzone, kFastArena);
  const BlockId mine = allocator.allocate();
  const BlockId neighbour = allocator.allocate();
  const vllm::BlockRef reference = allocator.reference_to(mine);
  const BlockId jumped = opaque(mine) + 1;

  *allocator.block_data(jumped) = std::byte{7};

  EXPECT_EQ(*allocator.get_block(neighbour)->data(), std::byte{7}) << "the neighbour was hit";
  expect_throw<std::invalid_argument>(
      [&] { static_cast<void>(allocator.resolve({jumped, reference.generation})); },
      "Stale block reference: block=1, generation=1: the block is now in generation 2");
}

}  // namespace
