// What a cache does all day, to be timed under each sanitizer by bench_sanitizers.py.
// Prints a line a kernel: its name and its seconds of processor time.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "cache.h"

namespace {

constexpr std::int64_t kBlocks = 64;
constexpr std::int64_t kBlockSize = 16;
constexpr vllm::CacheShape kShape{kBlockSize, 2, 8, 64};
constexpr std::int64_t kRow = 8 * 64;

/// Processor time, so that whatever else runs on the machine counts less.
template <typename Kernel>
void time_kernel(const char* name, int repetitions, const Kernel& kernel) {
  kernel();  // touches all memory once
  timespec begin{};
  timespec end{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
  for (int i = 0; i < repetitions; ++i) kernel();
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  const double seconds = static_cast<double>(end.tv_sec - begin.tv_sec) +
                         static_cast<double>(end.tv_nsec - begin.tv_nsec) * 1e-9;
  std::printf("%s %.6f\n", name, seconds);
}

}  // namespace

int main() {
  vllm::PagedKVCache cache(kBlocks, kShape, vllm::Policies{});
  std::vector<vllm::BlockId> blocks;
  for (std::int64_t i = 0; i < kBlocks; ++i) blocks.push_back(cache.allocator().allocate());
  std::mt19937 random(7);
  std::shuffle(blocks.begin(), blocks.end(), random);

  // Whole blocks of 128 KiB: one memcpy each, in a library that no sanitizer instruments.
  std::vector<vllm::BlockPair> pairs;
  for (std::size_t i = 0; i + 1 < blocks.size(); i += 2)
    pairs.push_back({blocks[i], blocks[i + 1]});
  time_kernel("copy", 60, [&] { cache.copy_blocks(pairs); });

  // One row of 2 KiB a token, to slots in no order: a memcpy and a little arithmetic each.
  const std::int64_t tokens = kBlocks * kBlockSize;
  std::vector<std::int64_t> slots(static_cast<std::size_t>(tokens));
  std::iota(slots.begin(), slots.end(), 0);
  std::shuffle(slots.begin(), slots.end(), random);
  const vllm::FloatArray rows{std::vector<float>(static_cast<std::size_t>(tokens * kRow), 0.5F),
                              {tokens, 8, 64}};
  time_kernel("scatter", 60, [&] { cache.reshape_and_cache(0, rows.view(), rows.view(), slots); });

  // A decode step that walks block tables and multiplies in the open: loads and stores of four
  // bytes.
  const vllm::FloatArray query{std::vector<float>(kRow, 0.25F), {1, 8, 64}};
  const std::vector<vllm::BlockTable> tables{blocks};
  const std::vector<std::int64_t> lengths{tokens};
  time_kernel("walk", 20,
              [&] { (void)cache.paged_attention(0, query.view(), tables, lengths, 0.125F); });

  // Pieces of 32 bytes to 1 KiB, made and given back out of order, and hardly used.
  std::vector<std::unique_ptr<char[]>> live(256);
  std::vector<std::size_t> places(10000);
  for (std::size_t& place : places) place = random() % live.size();
  time_kernel("allocation", 100, [&] {
    for (const std::size_t place : places) {
      live[place].reset(new char[32 + 16 * (place % 64)]);
      live[place][0] = 1;
    }
  });
  return 0;
}
