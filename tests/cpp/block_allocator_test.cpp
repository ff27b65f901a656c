#include "block_allocator.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <limits>
#include <set>
#include <stdexcept>
#include <vector>

#include "opaque.h"
#include "support.h"

namespace {

using demo::opaque;
using test_support::expect_throw;
using test_support::kFastArena;
using test_support::kHeap;
using test_support::kSafe;
using test_support::kStory;
using test_support::sanitized_by;
using vllm::AccessPolicy;
using vllm::BlockAllocator;
using vllm::BlockId;
using vllm::Policies;
using vllm::ReclaimPolicy;

constexpr Policies kEraseChecked{ReclaimPolicy::erase, AccessPolicy::checked};
constexpr Policies kResetChecked{ReclaimPolicy::reset_only, AccessPolicy::checked};

class EveryPolicy : public testing::TestWithParam<Policies> {};

TEST_P(EveryPolicy, HandsOutEveryBlockOnceAndThenThrows) {
  BlockAllocator allocator(5, 64, GetParam());

  std::set<BlockId> ids;
  for (int i = 0; i < 5; ++i) {
    ids.insert(allocator.allocate());
  }

  EXPECT_EQ(ids, (std::set<BlockId>{0, 1, 2, 3, 4}));
  EXPECT_EQ(allocator.num_free_blocks(), 0);
  expect_throw<std::runtime_error>([&] { static_cast<void>(allocator.allocate()); },
                                   "No free block: num_blocks=5, free=0");
}

TEST_P(EveryPolicy, AForkedBlockLivesUntilItsLastOwnerFreesIt) {
  BlockAllocator allocator(2, 64, GetParam());
  const BlockId block = allocator.allocate();
  allocator.fork(block);

  EXPECT_EQ(allocator.reference_count(block), 2);
  allocator.free(block);
  EXPECT_TRUE(allocator.is_allocated(block));
  allocator.free(block);
  EXPECT_FALSE(allocator.is_allocated(block));
}

TEST_P(EveryPolicy, BlocksHaveTheSizeAskedForAndDoNotOverlap) {
  BlockAllocator allocator(3, 100, GetParam());
  const BlockId first = allocator.allocate();
  const BlockId second = allocator.allocate();

  std::fill_n(allocator.block_data(first), 100, std::byte{1});
  std::fill_n(allocator.block_data(second), 100, std::byte{2});

  EXPECT_EQ(allocator.get_block(first)->size_bytes(), 100U);
  EXPECT_EQ(allocator.block_data(first)[99], std::byte{1});
}

INSTANTIATE_TEST_SUITE_P(BlockAllocator, EveryPolicy,
                         testing::Values(kSafe, kFastArena, kHeap, kStory, kEraseChecked,
                                         kResetChecked));

TEST(BlockAllocator, RejectsSizesThatCannotBe) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

  expect_throw<std::invalid_argument>([] { const BlockAllocator none(0, 64, kSafe); },
                                      "num_blocks=0");
  expect_throw<std::invalid_argument>([] { const BlockAllocator negative(4, -1, kSafe); },
                                      "block_bytes=-1");
  EXPECT_THROW(BlockAllocator(kHuge, 64, kSafe), std::invalid_argument);
  EXPECT_THROW(BlockAllocator(2, kHuge, kSafe), std::invalid_argument);
}

TEST(BlockAllocator, FreeListKeepsIdsStableAndGivesEachLifeItsOwnGeneration) {
  BlockAllocator allocator(3, 64, kSafe);
  const BlockId first = allocator.allocate();
  const BlockId second = allocator.allocate();
  const vllm::Block* const second_block = allocator.get_block(second);
  const vllm::BlockRef old = allocator.reference_to(first);

  allocator.free(first);
  const BlockId again = allocator.allocate();

  EXPECT_EQ(again, first);
  EXPECT_EQ(allocator.get_block(second), second_block);
  EXPECT_EQ(allocator.generation(again), 3U);
  expect_throw<std::invalid_argument>(
      [&] { static_cast<void>(allocator.resolve(old)); },
      "Stale block reference: block=0, generation=1: the block is now in generation 3");
}

TEST(BlockAllocator, ResolveYieldsTheBlockOfALiveReference) {
  BlockAllocator allocator(3, 64, kFastArena);
  const BlockId block = allocator.allocate();

  EXPECT_EQ(&allocator.resolve(allocator.reference_to(block)), allocator.get_block(block));
  expect_throw<std::out_of_range>([&] { static_cast<void>(allocator.resolve({9, 1})); },
                                  "block 9 does not exist, num_blocks=3");
}

TEST(BlockAllocator, CheckedAccessNamesTheIdThatIsWrong) {
  BlockAllocator allocator(2, 64, kSafe);

  expect_throw<std::out_of_range>([&] { static_cast<void>(allocator.get_block(2)); },
                                  "Invalid block id in get_block: block=2: block 2 does not exist");
  expect_throw<std::out_of_range>([&] { allocator.free(-1); },
                                  "Invalid block id in free: block=-1");
  expect_throw<std::invalid_argument>(
      [&] { allocator.fork(1); }, "Invalid block id in fork: block=1: block 1 is not allocated");
}

TEST(BlockAllocator, CheckedDoubleFreeThrows) {
  BlockAllocator allocator(2, 64, kSafe);
  const BlockId block = allocator.allocate();
  allocator.free(block);

  expect_throw<std::invalid_argument>([&] { allocator.free(block); }, "block 0 is not allocated");
  EXPECT_EQ(allocator.num_free_blocks(), 2);
}

TEST(BlockAllocator, ResetOnlyYieldsNullAndLosesTheSlot) {
  BlockAllocator allocator(2, 64, kStory);
  const BlockId block = allocator.allocate();

  allocator.free(block);

  EXPECT_EQ(allocator.get_block(block), nullptr);
  EXPECT_EQ(allocator.num_blocks(), 2);
  EXPECT_EQ(allocator.num_free_blocks(), 1);
  EXPECT_EQ(allocator.allocate(), 1);
  EXPECT_THROW(static_cast<void>(allocator.allocate()), std::runtime_error);
}

TEST(BlockAllocator, ResetOnlyCheckedThrowsWhereUncheckedYieldsNull) {
  BlockAllocator allocator(2, 64, kResetChecked);
  const BlockId block = allocator.allocate();

  allocator.free(block);

  expect_throw<std::invalid_argument>([&] { static_cast<void>(allocator.get_block(block)); },
                                      "block 0 is not allocated");
}

TEST(BlockAllocator, EraseShiftsLaterIdsWithoutAWord) {
  BlockAllocator allocator(4, 64, kEraseChecked);
  const BlockId first = allocator.allocate();
  const BlockId second = allocator.allocate();
  const BlockId third = allocator.allocate();
  const vllm::Block* const third_block = allocator.get_block(third);

  allocator.free(first);

  EXPECT_EQ(allocator.get_block(second), third_block);
  EXPECT_EQ(allocator.get_block(second)->id(), third);
  EXPECT_EQ(allocator.num_blocks(), 3);
}

TEST(BlockAllocator, ExhaustedHandlerCanMakeRoom) {
  BlockAllocator allocator(1, 64, kSafe);
  BlockId held = allocator.allocate();
  allocator.set_exhausted_handler([&](BlockAllocator& pool) { pool.free(held); });

  held = allocator.allocate();

  EXPECT_EQ(held, 0);
  EXPECT_EQ(allocator.generation(held), 2U);
}

TEST(BlockAllocator, ExhaustedHandlerThatMakesNoRoomIsAskedOnce) {
  BlockAllocator allocator(1, 64, kSafe);
  static_cast<void>(allocator.allocate());
  int calls = 0;
  allocator.set_exhausted_handler([&](BlockAllocator&) { ++calls; });

  EXPECT_THROW(static_cast<void>(allocator.allocate()), std::runtime_error);
  EXPECT_EQ(calls, 1);
}

TEST(BlockAllocator, EachLifeOnTheHeapHasMemoryOfItsOwn) {
  BlockAllocator allocator(2, 64, kHeap);
  const BlockId block = allocator.allocate();
  std::memset(allocator.get_block(block)->data(), 1, 64);

  allocator.free(block);
  const BlockId again = allocator.allocate();

  EXPECT_EQ(again, block);
  EXPECT_EQ(allocator.generation(again), 2U);
  EXPECT_EQ(allocator.get_block(again)->data()[63], std::byte{0});
  EXPECT_EQ(allocator.num_free_blocks(), 1);
}

TEST(BlockAllocator, HandsOutTheBlockThatIsAskedFor) {
  for (const Policies& policies : {kSafe, kHeap, kStory}) {
    BlockAllocator allocator(4, 64, policies);

    allocator.allocate_block(2);

    EXPECT_TRUE(allocator.is_allocated(2));
    EXPECT_EQ(allocator.generation(2), 1U);
    for (int i = 0; i < 3; ++i) {
      EXPECT_NE(allocator.allocate(), 2);
    }
    EXPECT_THROW(static_cast<void>(allocator.allocate()), std::runtime_error);
    expect_throw<std::invalid_argument>([&] { allocator.allocate_block(2); }, "it is not free");
    expect_throw<std::out_of_range>([&] { allocator.allocate_block(4); }, "num_blocks=4");
    expect_throw<std::out_of_range>([&] { allocator.allocate_block(-1); }, "block=-1");
  }
}

TEST(BlockAllocatorDeathTest, AStaleIdOnTheHeapLeadsToMemoryThatIsGone) {
  if (!sanitized_by("address")) {
    GTEST_SKIP() << "only AddressSanitizer sees it";
  }
  BlockAllocator allocator(2, 64, {ReclaimPolicy::heap_per_life, AccessPolicy::unchecked});
  const BlockId block = allocator.allocate();
  allocator.free(block);

  EXPECT_DEATH(std::memset(allocator.block_data(opaque(block)), 1, 64), "heap-use-after-free");
}

TEST(BlockAllocator, QuestionsNeverThrow) {
  const BlockAllocator allocator(2, 64, kSafe);

  for (const BlockId id : {std::numeric_limits<BlockId>::min(), BlockId{-1}, BlockId{2}}) {
    EXPECT_FALSE(allocator.contains(id));
    EXPECT_FALSE(allocator.is_allocated(id));
    EXPECT_EQ(allocator.reference_count(id), 0);
    EXPECT_EQ(allocator.generation(id), 0U);
  }
}

TEST(BlockAllocatorDeathTest, UncheckedDoubleFreeFailsTheCheck) {
  BlockAllocator allocator(2, 64, kFastArena);
  const BlockId block = allocator.allocate();
  allocator.free(block);

  EXPECT_EXIT(allocator.free(opaque(block)), testing::KilledBySignal(SIGABRT),
              "check failed: reference_count_ > 0");
}

TEST(BlockAllocatorDeathTest, UncheckedForkOfAFreeBlockFailsTheCheck) {
  BlockAllocator allocator(2, 64, kFastArena);

  EXPECT_EXIT(allocator.fork(opaque(0)), testing::KilledBySignal(SIGABRT),
              "check failed: reference_count_ > 0");
}

}  // namespace
