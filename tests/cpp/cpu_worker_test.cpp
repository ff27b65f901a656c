#include "cpu_worker.h"

#include <stdexcept>

#include "support.h"

namespace {

using test_support::expect_throw;
using test_support::kFastArena;
using test_support::kSafe;
using vllm::BlockId;
using vllm::CachePart;
using vllm::CacheShape;
using vllm::CPUWorker;
using vllm::FloatArray;
using vllm::StepPlan;

constexpr CacheShape kShape{2, 2, 1, 2};  // block_size, layers, heads, head_size

FloatArray tensor(std::int64_t sequences, float number) {
  return {std::vector<float>(static_cast<std::size_t>(2 * sequences * 2), number),
          {2, sequences, 1, 2}};
}

FloatArray step(CPUWorker& worker, const StepPlan& plan, float value) {
  const auto sequences = static_cast<std::int64_t>(plan.sequences.size());
  const FloatArray ones = tensor(sequences, 1.0F);
  const FloatArray values = tensor(sequences, value);
  return worker.execute_model(plan, {ones.view(), ones.view(), values.view()});
}

TEST(CPUWorker, AttendsOverAllTokensOfASequenceInEveryLayer) {
  CPUWorker worker(kShape, kSafe);
  worker.initialize_cache(4, 0);
  vllm::BlockAllocator& allocator = worker.device_cache().allocator();
  static_cast<void>(allocator.allocate());
  const BlockId first = allocator.allocate();
  const BlockId second = allocator.allocate();

  for (const float value : {1.0F, 2.0F}) {
    static_cast<void>(step(
        worker, {{{{second, first}, static_cast<std::int64_t>(value), {}}}, {}, {}, {}}, value));
  }
  const FloatArray output = step(worker, {{{{second, first}, 3, {}}}, {}, {}, {}}, 6.0F);

  EXPECT_EQ(worker.step(), 3U);
  EXPECT_EQ(output.shape, (std::vector<std::int64_t>{2, 1, 1, 2}));
  for (const float number : output.values) {
    EXPECT_NEAR(number, 3.0F, 1e-6F) << "equal keys: the mean of 1, 2 and 6";
  }
}

TEST(CPUWorker, MovesBlocksBeforeItAttends) {
  CPUWorker worker(kShape, kSafe);
  worker.initialize_cache(2, 1);
  const BlockId first = worker.device_cache().allocator().allocate();
  const BlockId second = worker.device_cache().allocator().allocate();
  const BlockId host = worker.host_cache().allocator().allocate();
  static_cast<void>(step(worker, {{{{first}, 1, {}}}, {}, {}, {}}, 4.0F));

  worker.swap_out({{first, host}});
  const FloatArray output = step(worker, {{{{second}, 2, {}}}, {{host, second}}, {}, {}}, 8.0F);

  EXPECT_NEAR(output.values[0], 6.0F, 1e-6F);
}

TEST(CPUWorker, CopyAndSwapOutInOnePlan) {
  CPUWorker worker(kShape, kSafe);
  worker.initialize_cache(2, 1);
  const BlockId first = worker.device_cache().allocator().allocate();
  const BlockId second = worker.device_cache().allocator().allocate();
  const BlockId host = worker.host_cache().allocator().allocate();
  static_cast<void>(step(worker, {{{{first}, 1, {}}}, {}, {}, {}}, 4.0F));

  static_cast<void>(step(worker, {{}, {}, {{first, host}}, {{first, second}}}, 0.0F));

  EXPECT_EQ(worker.host_cache().read_block(1, CachePart::value, host).values[0], 4.0F);
  EXPECT_EQ(worker.device_cache().read_block(1, CachePart::value, second).values[0], 4.0F);
}

TEST(CPUWorker, AStaleTableIsRefusedWhateverTheAccessPolicy) {
  for (const vllm::Policies policies : {kSafe, kFastArena}) {
    CPUWorker worker(kShape, policies);
    worker.initialize_cache(2, 0);
    vllm::BlockAllocator& allocator = worker.device_cache().allocator();
    const vllm::BlockRef old = allocator.reference_to(allocator.allocate());
    allocator.free(old.id);
    static_cast<void>(allocator.allocate());

    expect_throw<std::invalid_argument>(
        [&] {
          static_cast<void>(step(worker, {{{{old.id}, 1, {old.generation}}}, {}, {}, {}}, 1.0F));
        },
        "Stale block reference: block=0, generation=1");
    EXPECT_EQ(worker.step(), 0U);
  }
}

TEST(CPUWorker, NeedsItsCachesFirstAndOnce) {
  CPUWorker worker(kShape, kSafe);

  expect_throw<std::runtime_error>([&] { static_cast<void>(step(worker, {}, 1.0F)); },
                                   "call initialize_cache first");
  EXPECT_THROW(worker.initialize_cache(0, 0), std::invalid_argument);
  EXPECT_THROW(worker.initialize_cache(2, -1), std::invalid_argument);
  worker.initialize_cache(2, 0);
  EXPECT_THROW(worker.initialize_cache(2, 0), std::runtime_error);
  expect_throw<std::runtime_error>([&] { worker.swap_out({}); }, "No host cache");
}

TEST(CPUWorker, AFailedInitializationLeavesNoCacheBehind) {
  CPUWorker worker(kShape, kSafe);

  EXPECT_THROW(worker.initialize_cache(-1, 4), std::invalid_argument);

  EXPECT_THROW(static_cast<void>(worker.host_cache()), std::runtime_error);
  worker.initialize_cache(1, 1);
}

TEST(CPUWorker, BadPlansAreNamed) {
  CPUWorker worker(kShape, kSafe);
  worker.initialize_cache(2, 0);
  const BlockId block = worker.device_cache().allocator().allocate();

  expect_throw<std::invalid_argument>(
      [&] { static_cast<void>(step(worker, {{{{block}, 3, {}}}, {}, {}, {}}, 1.0F)); },
      "context_length=3 must be from 1 to the block table's room, 2");
  expect_throw<std::invalid_argument>(
      [&] { static_cast<void>(step(worker, {{{{block}, 1, {1, 2}}}, {}, {}, {}}, 1.0F)); },
      "generations has 2 entries, block_table has 1");
  const FloatArray two = tensor(2, 1.0F);
  expect_throw<std::invalid_argument>(
      [&] {
        static_cast<void>(worker.execute_model({{{{block}, 1, {}}}, {}, {}, {}},
                                               {two.view(), two.view(), two.view()}));
      },
      "query does not have the shape [num_layers=2, sequences=1");
}

}  // namespace
