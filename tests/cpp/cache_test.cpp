#include "cache.h"

#include <cmath>
#include <numeric>
#include <stdexcept>

#include "bfloat16.h"
#include "opaque.h"
#include "support.h"

namespace {

using demo::opaque;
using test_support::expect_throw;
using test_support::kFastArena;
using test_support::kSafe;
using test_support::kStory;
using vllm::AccessPolicy;
using vllm::BlockId;
using vllm::CachePart;
using vllm::CacheShape;
using vllm::DataType;
using vllm::FloatArray;
using vllm::PagedKVCache;
using vllm::ReclaimPolicy;

constexpr CacheShape kShape{4, 2, 2, 3};  // block_size, layers, heads, head_size

/// Numbers that differ in every place: `start`, `start` + 1/8, …
FloatArray ramp(std::int64_t tokens, float start, const CacheShape& shape = kShape) {
  FloatArray array{{}, {tokens, shape.num_heads, shape.head_size}};
  for (std::int64_t i = 0; i < tokens * shape.num_heads * shape.head_size; ++i) {
    array.values.push_back(start + static_cast<float>(i) / 8.0F);
  }
  return array;
}

/// Attention of one head over contiguous keys and values, in double.
std::vector<double> dense_attention(const std::vector<float>& query, const FloatArray& keys,
                                    const FloatArray& values, float scale) {
  const auto width = query.size();
  const auto tokens = keys.values.size() / width;
  const auto heads = static_cast<std::size_t>(keys.shape[1]);
  const auto head_size = width / heads;
  std::vector<double> output(width, 0.0);
  for (std::size_t head = 0; head < heads; ++head) {
    std::vector<double> weights;
    for (std::size_t token = 0; token < tokens; ++token) {
      double product = 0.0;
      for (std::size_t i = head * head_size; i < (head + 1) * head_size; ++i) {
        product +=
            static_cast<double>(query[i]) * static_cast<double>(keys.values[token * width + i]);
      }
      weights.push_back(std::exp(static_cast<double>(scale) * product));
    }
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (std::size_t token = 0; token < tokens; ++token) {
      for (std::size_t i = head * head_size; i < (head + 1) * head_size; ++i) {
        output[i] += weights[token] / sum * static_cast<double>(values.values[token * width + i]);
      }
    }
  }
  return output;
}

class EveryStorage : public testing::TestWithParam<vllm::Policies> {};

TEST_P(EveryStorage, WhatIsStoredInASlotIsReadBackFromItsBlock) {
  PagedKVCache cache(4, kShape, GetParam());
  static_cast<void>(cache.allocator().allocate());
  const BlockId block = cache.allocator().allocate();
  const FloatArray keys = ramp(1, 1.0F);
  const FloatArray values = ramp(1, 50.0F);

  cache.reshape_and_cache(1, keys.view(), values.view(), {block * 4 + 2});

  const FloatArray read = cache.read_block(1, CachePart::value, block);
  EXPECT_EQ(read.shape, (std::vector<std::int64_t>{4, 2, 3}));
  EXPECT_EQ(std::vector<float>(read.values.begin() + 12, read.values.begin() + 18), values.values);
  EXPECT_EQ(cache.read_block(1, CachePart::key, block).values[12], 1.0F);
  EXPECT_EQ(cache.read_block(0, CachePart::key, block).values[12], 0.0F) << "another layer";
}

TEST_P(EveryStorage, AttentionAgreesWithDenseOverAPermutedTableAndAPartialBlock) {
  PagedKVCache cache(4, kShape, GetParam());
  for (int i = 0; i < 4; ++i) {
    static_cast<void>(cache.allocator().allocate());
  }
  const vllm::BlockTable table = {2, 0};
  const FloatArray keys = ramp(6, -1.0F);
  const FloatArray values = ramp(6, 3.0F);
  cache.reshape_and_cache(1, keys.view(), values.view(), {8, 9, 10, 11, 0, 1});
  const FloatArray query = ramp(1, -0.5F);

  const FloatArray output = cache.paged_attention(1, query.view(), {table}, {6}, 0.3F);

  const std::vector<double> expected = dense_attention(query.values, keys, values, 0.3F);
  ASSERT_EQ(output.values.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(output.values[i]), expected[i], 1e-5);
  }
}

TEST_P(EveryStorage, CopyMovesEveryLayerAndLeavesTheSource) {
  PagedKVCache cache(3, kShape, GetParam());
  const BlockId source = cache.allocator().allocate();
  const BlockId target = cache.allocator().allocate();
  const FloatArray token = ramp(1, 5.0F);
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    cache.reshape_and_cache(layer, token.view(), token.view(), {source * 4 + 3});
  }

  cache.copy_blocks({{source, target}});

  for (std::int64_t layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(cache.read_block(layer, CachePart::key, target).values,
              cache.read_block(layer, CachePart::key, source).values);
    EXPECT_EQ(cache.read_block(layer, CachePart::value, target).values[18], 5.0F);
  }
}

INSTANTIATE_TEST_SUITE_P(PagedKVCache, EveryStorage,
                         testing::Values(kSafe, kFastArena, kStory,
                                         vllm::Policies{ReclaimPolicy::erase,
                                                        AccessPolicy::checked}));

TEST(PagedKVCache, Bfloat16RoundsWhatIsStored) {
  CacheShape shape = kShape;
  shape.dtype = DataType::bfloat16;
  PagedKVCache cache(2, shape, kSafe);
  const BlockId block = cache.allocator().allocate();
  FloatArray token = ramp(1, 1.0F);
  token.values[0] = 1.0039063F;  // between two bfloat16s

  cache.reshape_and_cache(0, token.view(), token.view(), {block * 4});

  EXPECT_EQ(shape.block_bytes(), kShape.block_bytes() / 2);
  EXPECT_EQ(cache.read_block(0, CachePart::key, block).values[0],
            vllm::Bfloat16(1.0039063F).to_float());
}

TEST(PagedKVCache, ANegativeSlotIsNotStored) {
  PagedKVCache cache(2, kShape, kSafe);
  const BlockId block = cache.allocator().allocate();
  const FloatArray tokens = ramp(2, 1.0F);

  cache.reshape_and_cache(0, tokens.view(), tokens.view(), {-1, block * 4});

  EXPECT_EQ(cache.read_block(0, CachePart::key, block).values[0], tokens.values[6]);
}

TEST(PagedKVCache, EmptyBatchesDoNothing) {
  PagedKVCache cache(2, kShape, kSafe);
  const FloatArray none = ramp(0, 0.0F);

  cache.copy_blocks({});
  cache.reshape_and_cache(0, none.view(), none.view(), {});

  EXPECT_TRUE(cache.paged_attention(0, none.view(), {}, {}, 1.0F).values.empty());
}

TEST(PagedKVCache, LargeScoresDoNotOverflow) {
  PagedKVCache cache(1, kShape, kSafe);
  const BlockId block = cache.allocator().allocate();
  const FloatArray keys = ramp(2, 1000.0F);
  const FloatArray values = ramp(2, 1.0F);
  cache.reshape_and_cache(0, keys.view(), values.view(), {block * 4, block * 4 + 1});

  const FloatArray output = cache.paged_attention(0, ramp(1, 1000.0F).view(), {{block}}, {2}, 1.0F);

  EXPECT_NEAR(output.values[0], values.values[6], 1e-5F) << "all weight on the larger score";
}

TEST(PagedKVCache, CopyOfAnIdThatIsNoneThrowsBeforeTheFirstCopy) {
  PagedKVCache cache(4, kShape, kSafe);
  const BlockId source = cache.allocator().allocate();
  const BlockId target = cache.allocator().allocate();
  const FloatArray token = ramp(1, 5.0F);
  cache.reshape_and_cache(0, token.view(), token.view(), {source * 4});

  expect_throw<std::out_of_range>(
      [&] { cache.copy_blocks({{source, target}, {source, 4}}); },
      "Invalid block id in copy_blocks: src=0, dst=4: block 4 does not exist, num_blocks=4");
  EXPECT_EQ(cache.read_block(0, CachePart::key, target).values[0], 0.0F);
}

TEST(PagedKVCache, CopyOfAFreedBlockThrowsWithBothIds) {
  PagedKVCache cache(4, kShape, kSafe);
  const BlockId source = cache.allocator().allocate();
  const BlockId target = cache.allocator().allocate();
  cache.allocator().free(source);

  expect_throw<std::invalid_argument>(
      [&] { cache.copy_blocks({{source, target}}); },
      "Invalid block id in copy_blocks: src=0, dst=1: block 0 is not allocated");
}

TEST(PagedKVCache, WrongShapesAreNamedUnderEitherAccess) {
  for (const vllm::Policies policies : {kSafe, kFastArena}) {
    PagedKVCache cache(2, kShape, policies);
    const FloatArray two = ramp(2, 0.0F);

    expect_throw<std::invalid_argument>(
        [&] { cache.reshape_and_cache(0, two.view(), two.view(), {0}); },
        "keys has shape [2, 2, 3], expected [1, 2, 3]");
    expect_throw<std::out_of_range>(
        [&] { cache.reshape_and_cache(2, two.view(), two.view(), {0, 1}); },
        "layer=2 does not exist, num_layers=2");
    expect_throw<std::invalid_argument>(
        [&] { static_cast<void>(cache.paged_attention(0, two.view(), {{0}, {0}}, {1}, 1.0F)); },
        "context_lengths has 1 entries, expected 2");
  }
}

TEST(PagedKVCache, WrongSlotsAndTablesThrowWithTheirNumbers) {
  PagedKVCache cache(2, kShape, kSafe);
  const BlockId block = cache.allocator().allocate();
  const FloatArray token = ramp(1, 0.0F);

  expect_throw<std::out_of_range>(
      [&] { cache.reshape_and_cache(0, token.view(), token.view(), {99}); },
      "Invalid slot in reshape_and_cache: slot=99, block=24");
  expect_throw<std::invalid_argument>(
      [&] { cache.reshape_and_cache(0, token.view(), token.view(), {4}); },
      "block 1 is not allocated");
  expect_throw<std::invalid_argument>(
      [&] { static_cast<void>(cache.paged_attention(0, token.view(), {{block}}, {5}, 1.0F)); },
      "sequence=0, context_length=5, the block table has room for 4");
  expect_throw<std::invalid_argument>(
      [&] { static_cast<void>(cache.paged_attention(0, token.view(), {{block}}, {0}, 1.0F)); },
      "context_length=0");
  expect_throw<std::out_of_range>(
      [&] { static_cast<void>(cache.paged_attention(0, token.view(), {{7}}, {1}, 1.0F)); },
      "Invalid block id in paged_attention: sequence=0, block=7");
}

TEST(PagedKVCache, SwapGoesToAnotherCacheOfTheSameShapeOnly) {
  PagedKVCache device(2, kShape, kSafe);
  PagedKVCache host(3, kShape, kSafe, vllm::Pool::host);
  PagedKVCache other(2, {4, 2, 2, 4}, kSafe);
  const BlockId source = device.allocator().allocate();
  static_cast<void>(host.allocator().allocate());
  const BlockId target = host.allocator().allocate();
  const FloatArray token = ramp(1, 5.0F);
  device.reshape_and_cache(0, token.view(), token.view(), {source * 4});

  device.swap_blocks(host, {{source, target}});

  EXPECT_EQ(host.read_block(0, CachePart::key, target).values[0], 5.0F);
  expect_throw<std::invalid_argument>([&] { device.swap_blocks(other, {}); }, "different shapes");
  expect_throw<std::out_of_range>([&] { device.swap_blocks(host, {{source, 3}}); },
                                  "Invalid block id in swap_blocks: src=0, dst=3");
}

TEST(CacheShape, NamesTheSizeThatIsWrong) {
  expect_throw<std::invalid_argument>([] { const PagedKVCache bad(2, {4, 2, 0, 3}, kSafe); },
                                      "CacheShape.num_heads must be from 1 to 1048576, not 0");
  expect_throw<std::invalid_argument>(
      [] {
        constexpr std::int64_t kMost = 1 << 20;
        static_cast<void>(CacheShape{kMost, kMost, kMost, kMost}.validated());
      },
      "a block would be larger than");
}

TEST(CacheShape, TellsHowManyBlocksFit) {
  EXPECT_EQ(kShape.block_bytes(), 2 * 2 * 4 * 2 * 3 * 4);
  EXPECT_EQ(vllm::blocks_that_fit(kShape.block_bytes() * 3 + 1, kShape), 3);
  EXPECT_EQ(vllm::blocks_that_fit(0, kShape), 0);
  expect_throw<std::invalid_argument>([] { static_cast<void>(vllm::blocks_that_fit(-1, kShape)); },
                                      "memory_bytes");
}

/// A copy into or out of a block that was erased gets its neighbour, and no check can see it.
TEST(PagedKVCache, EraseCorruptsSilentlyEvenWithChecks) {
  PagedKVCache cache(4, kShape, {ReclaimPolicy::erase, AccessPolicy::checked});
  const BlockId first = cache.allocator().allocate();
  const BlockId second = cache.allocator().allocate();
  const BlockId third = cache.allocator().allocate();
  const FloatArray mine = ramp(1, 2.0F);
  const FloatArray theirs = ramp(1, 90.0F);
  cache.reshape_and_cache(0, mine.view(), mine.view(), {second * 4});
  cache.reshape_and_cache(0, theirs.view(), theirs.view(), {third * 4});

  cache.allocator().free(first);

  EXPECT_EQ(cache.read_block(0, CachePart::key, second).values[0], 90.0F);
}

TEST(PagedKVCacheDeathTest, ReadOfAFreedBlockIsReportedUnderAddressSanitizer) {
  PagedKVCache cache(2, kShape, kFastArena);
  const BlockId block = cache.allocator().allocate();
  cache.allocator().free(block);
  const FloatArray query = ramp(1, 0.0F);
  const auto attend = [&] {
    static_cast<void>(cache.paged_attention(0, query.view(), {{opaque(block)}}, {1}, 1.0F));
  };

  if (vllm::built_with_address_sanitizer()) {
    EXPECT_DEATH(attend(), "use-after-poison");
  } else {
    attend();
  }
}

}  // namespace
