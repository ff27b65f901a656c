#ifndef VLLM_FORENSICS_CPU_WORKER_H_
#define VLLM_FORENSICS_CPU_WORKER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cache.h"

namespace vllm {

/// One sequence in a decode step.
struct SequenceStep {
  BlockTable block_table;
  std::int64_t context_length;  ///< tokens, the new one included
  /// The lives that the table was made in, one a block; empty: not verified.
  std::vector<Generation> generations;
};

/// What the scheduler asks of one step. Blocks move first: swap in, swap out, copy; then attention.
struct StepPlan {
  std::vector<SequenceStep> sequences;
  std::vector<BlockPair> blocks_to_swap_in;   ///< (host, device)
  std::vector<BlockPair> blocks_to_swap_out;  ///< (device, host)
  std::vector<BlockPair> blocks_to_copy;      ///< (device, device)
};

/// The new token of every sequence, each [num_layers, sequences, num_heads, head_size].
struct StepTensors {
  ArrayView query;
  ArrayView keys;
  ArrayView values;
};

/// Owns a device and a host cache and executes steps on them. Not safe for several threads at once.
class CPUWorker {
 public:
  /// A worker without caches. Throws std::invalid_argument for a shape that is not valid.
  CPUWorker(CacheShape shape, Policies policies);
  ~CPUWorker() = default;
  CPUWorker(const CPUWorker&) = delete;
  CPUWorker& operator=(const CPUWorker&) = delete;
  CPUWorker(CPUWorker&&) = delete;
  CPUWorker& operator=(CPUWorker&&) = delete;

  /// Makes both caches, all blocks free. `num_host_blocks` may be 0: no swapping then. Throws
  /// std::invalid_argument for a number out of range, std::runtime_error if called twice.
  void initialize_cache(std::int64_t num_device_blocks, std::int64_t num_host_blocks);

  /// One decode step: moves blocks, then in every layer stores the new key and value of each
  /// sequence and attends over its block table with scale 1 / sqrt(head_size). Returns
  /// [num_layers, sequences, num_heads, head_size]. Throws std::runtime_error before
  /// initialize_cache; std::invalid_argument for shapes and for a block that is not in the
  /// generation given for it (under either access policy); otherwise as PagedKVCache.
  [[nodiscard]] FloatArray execute_model(const StepPlan& plan, const StepTensors& tensors);

  /// Copies blocks from host to device; pairs are (host, device). Throws as swap_blocks, and
  /// std::runtime_error without a host cache.
  void swap_in(const std::vector<BlockPair>& pairs);

  /// Copies blocks from device to host; pairs are (device, host). Throws as swap_in.
  void swap_out(const std::vector<BlockPair>& pairs);

  /// Copies blocks within the device cache. Throws as PagedKVCache::copy_blocks.
  void copy(const std::vector<BlockPair>& pairs);

  /// Borrowed; throw std::runtime_error when there is none.
  [[nodiscard]] PagedKVCache& device_cache();
  [[nodiscard]] PagedKVCache& host_cache();

  /// Steps begun so far.
  [[nodiscard]] std::uint64_t step() const noexcept { return step_; }

 private:
  void require_tensor(const ArrayView& array, const char* name, std::size_t sequences) const;
  [[nodiscard]] std::vector<std::int64_t> verify(const std::vector<SequenceStep>& sequences);

  CacheShape shape_;
  Policies policies_;
  std::uint64_t step_ = 0;
  std::unique_ptr<PagedKVCache> device_cache_;
  std::unique_ptr<PagedKVCache> host_cache_;
};

}  // namespace vllm

#endif  // VLLM_FORENSICS_CPU_WORKER_H_
