#include "cpu_worker.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace vllm {

namespace {

/// One layer of a [num_layers, sequences, num_heads, head_size] array.
ArrayView layer_of(const ArrayView& array, std::int64_t layer) {
  const std::int64_t size = array.shape[1] * array.shape[2] * array.shape[3];
  return {array.data + layer * size, {array.shape[1], array.shape[2], array.shape[3]}};
}

}  // namespace

CPUWorker::CPUWorker(CacheShape shape, Policies policies)
    : shape_(shape.validated()), policies_(policies) {}

void CPUWorker::initialize_cache(std::int64_t num_device_blocks, std::int64_t num_host_blocks) {
  if (device_cache_ != nullptr) {
    throw std::runtime_error("initialize_cache was called before");
  }
  if (num_host_blocks < 0) {
    throw std::invalid_argument("num_host_blocks must not be negative: " +
                                std::to_string(num_host_blocks));
  }
  auto device = std::make_unique<PagedKVCache>(num_device_blocks, shape_, policies_, Pool::device);
  if (num_host_blocks > 0) {
    host_cache_ = std::make_unique<PagedKVCache>(num_host_blocks, shape_, policies_, Pool::host);
  }
  device_cache_ = std::move(device);
}

FloatArray CPUWorker::execute_model(const StepPlan& plan, const StepTensors& tensors) {
  PagedKVCache& cache = device_cache();
  require_tensor(tensors.query, "query", plan.sequences.size());
  require_tensor(tensors.keys, "keys", plan.sequences.size());
  require_tensor(tensors.values, "values", plan.sequences.size());
  const std::vector<std::int64_t> slots = verify(plan.sequences);
  event_log::set_step(++step_);

  if (!plan.blocks_to_swap_in.empty()) {
    swap_in(plan.blocks_to_swap_in);
  }
  if (!plan.blocks_to_swap_out.empty()) {
    swap_out(plan.blocks_to_swap_out);
  }
  copy(plan.blocks_to_copy);

  std::vector<BlockTable> tables;
  std::vector<std::int64_t> context_lengths;
  for (const SequenceStep& sequence : plan.sequences) {
    tables.push_back(sequence.block_table);
    context_lengths.push_back(sequence.context_length);
  }
  const float scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_size));
  FloatArray output{{}, tensors.query.shape};
  for (std::int64_t layer = 0; layer < shape_.num_layers; ++layer) {
    cache.reshape_and_cache(layer, layer_of(tensors.keys, layer), layer_of(tensors.values, layer),
                            slots);
    const FloatArray attended = cache.paged_attention(layer, layer_of(tensors.query, layer), tables,
                                                      context_lengths, scale);
    output.values.insert(output.values.end(), attended.values.begin(), attended.values.end());
  }
  return output;
}

void CPUWorker::swap_in(const std::vector<BlockPair>& pairs) {
  host_cache().swap_blocks(device_cache(), pairs);
}

void CPUWorker::swap_out(const std::vector<BlockPair>& pairs) {
  device_cache().swap_blocks(host_cache(), pairs);
}

void CPUWorker::copy(const std::vector<BlockPair>& pairs) { device_cache().copy_blocks(pairs); }

PagedKVCache& CPUWorker::device_cache() {
  if (device_cache_ == nullptr) {
    throw std::runtime_error("No device cache: call initialize_cache first");
  }
  return *device_cache_;
}

PagedKVCache& CPUWorker::host_cache() {
  if (host_cache_ == nullptr) {
    throw std::runtime_error("No host cache: call initialize_cache with num_host_blocks > 0");
  }
  return *host_cache_;
}

void CPUWorker::require_tensor(const ArrayView& array, const char* name,
                               std::size_t sequences) const {
  const std::vector<std::int64_t> expected = {
      shape_.num_layers, static_cast<std::int64_t>(sequences), shape_.num_heads, shape_.head_size};
  if (array.shape != expected) {
    throw std::invalid_argument(std::string(name) + " does not have the shape [num_layers=" +
                                std::to_string(shape_.num_layers) +
                                ", sequences=" + std::to_string(sequences) +
                                ", num_heads=" + std::to_string(shape_.num_heads) +
                                ", head_size=" + std::to_string(shape_.head_size) + "]");
  }
}

/// Looks at what no policy leaves unchecked, and returns the slot of every sequence's new token.
std::vector<std::int64_t> CPUWorker::verify(const std::vector<SequenceStep>& sequences) {
  std::vector<std::int64_t> slots;
  for (const SequenceStep& sequence : sequences) {
    const std::int64_t room =
        static_cast<std::int64_t>(sequence.block_table.size()) * shape_.block_size;
    if (sequence.context_length < 1 || sequence.context_length > room) {
      throw std::invalid_argument("context_length=" + std::to_string(sequence.context_length) +
                                  " must be from 1 to the block table's room, " +
                                  std::to_string(room));
    }
    if (!sequence.generations.empty()) {
      if (sequence.generations.size() != sequence.block_table.size()) {
        throw std::invalid_argument(
            "generations has " + std::to_string(sequence.generations.size()) +
            " entries, block_table has " + std::to_string(sequence.block_table.size()));
      }
      for (std::size_t i = 0; i < sequence.block_table.size(); ++i) {
        static_cast<void>(
            device_cache().allocator().resolve({sequence.block_table[i], sequence.generations[i]}));
      }
    }
    const std::int64_t position = sequence.context_length - 1;
    const BlockId block =
        sequence.block_table[static_cast<std::size_t>(position / shape_.block_size)];
    slots.push_back(block * shape_.block_size + position % shape_.block_size);
  }
  return slots;
}

}  // namespace vllm
