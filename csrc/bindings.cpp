/// Names and types of the specimen for Python; what they do is said and done in the headers.

#include <pybind11/functional.h>
#include <pybind11/native_enum.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <vector>

#include "cpu_worker.h"
#include "python_caller.h"

namespace py = pybind11;

namespace {

using vllm::BlockAllocator;
using vllm::CacheShape;
using vllm::CPUWorker;
using vllm::PagedKVCache;
using vllm::Policies;
using vllm::SequenceStep;
using vllm::StepPlan;

/// Anything that converts to a row-major float array; NumPy converts and copies where it must.
using FloatInput = py::array_t<float, py::array::c_style | py::array::forcecast>;

/// Sizes as they are; the specimen checks them.
vllm::ArrayView view(const FloatInput& array) {
  return {array.data(), {array.shape(), array.shape() + array.ndim()}};
}

py::array_t<float> copy_of(const vllm::FloatArray& array) {
  return py::array_t<float>(array.shape, array.values.data());
}

/// Python's name for the functions of vllm::event_log; has no objects.
struct EventLog {};

void bind_event_log(py::module_& module) {
  py::native_enum<vllm::EventKind>(module, "EventKind", "enum.Enum", "What happened to a block.")
      .value("allocate", vllm::EventKind::allocate)
      .value("free", vllm::EventKind::free)
      .value("fork", vllm::EventKind::fork)
      .value("copy", vllm::EventKind::copy)
      .value("swap", vllm::EventKind::swap)
      .value("use", vllm::EventKind::use)
      .finalize();
  py::native_enum<vllm::Pool>(module, "Pool", "enum.Enum", "Which allocator a block belongs to.")
      .value("device", vllm::Pool::device)
      .value("host", vllm::Pool::host)
      .finalize();

  py::class_<vllm::Event>(module, "Event", "One entry of the event log; read only.")
      .def_readonly("kind", &vllm::Event::kind)
      .def_readonly("pool", &vllm::Event::pool)
      .def_readonly("block", &vllm::Event::block)
      .def_readonly("source", &vllm::Event::source)
      .def_readonly("generation", &vllm::Event::generation)
      .def_readonly("step", &vllm::Event::step)
      .def_readonly("thread", &vllm::Event::thread)
      .def_readonly("file", &vllm::Event::file)
      .def_readonly("line", &vllm::Event::line)
      .def("__str__", &vllm::event_log::to_string)
      .def("__repr__", &vllm::event_log::to_string);

  py::class_<EventLog>(module, "EventLog", "The process's log of block events.")
      .def_static("enable", &vllm::event_log::enable, "Start to keep events.")
      .def_static("disable", &vllm::event_log::disable, "Stop keeping events; those kept stay.")
      .def_static("enabled", &vllm::event_log::enabled, "Whether events are kept.")
      .def_static("clear", &vllm::event_log::clear, "Forget the events kept so far.")
      .def_static("events", &vllm::event_log::events, "The events kept so far, oldest first.")
      .def_static("set_step", &vllm::event_log::set_step, py::arg("step"),
                  "Set the step that later events carry.");
}

void bind_policies(py::module_& module) {
  py::native_enum<vllm::ReclaimPolicy>(module, "ReclaimPolicy", "enum.Enum",
                                       "What free does with a block nobody refers to any more.")
      .value("reset_only", vllm::ReclaimPolicy::reset_only)
      .value("erase", vllm::ReclaimPolicy::erase)
      .value("free_list", vllm::ReclaimPolicy::free_list)
      .value("heap_per_life", vllm::ReclaimPolicy::heap_per_life)
      .finalize();
  py::native_enum<vllm::AccessPolicy>(module, "AccessPolicy", "enum.Enum",
                                      "Whether block ids are looked at before they are used.")
      .value("unchecked", vllm::AccessPolicy::unchecked)
      .value("checked", vllm::AccessPolicy::checked)
      .finalize();
  py::class_<Policies>(module, "Policies", "How blocks are reclaimed and accessed.")
      .def(py::init<vllm::ReclaimPolicy, vllm::AccessPolicy>(), py::kw_only(),
           py::arg_v("reclaim", vllm::ReclaimPolicy::free_list, "ReclaimPolicy.free_list"),
           py::arg_v("access", vllm::AccessPolicy::checked, "AccessPolicy.checked"))
      .def_readonly("reclaim", &Policies::reclaim)
      .def_readonly("access", &Policies::access);
}

void bind_allocator(py::module_& module) {
  py::class_<vllm::BlockRef>(module, "BlockRef", "A block in one of its lives.")
      .def(py::init<vllm::BlockId, vllm::Generation>(), py::kw_only(), py::arg("id"),
           py::arg("generation"))
      .def_readonly("id", &vllm::BlockRef::id)
      .def_readonly("generation", &vllm::BlockRef::generation);

  py::class_<vllm::Block>(module, "Block", "A borrowed block; valid until it is reclaimed.")
      .def_property_readonly("id", &vllm::Block::id)
      .def_property_readonly("size_bytes", &vllm::Block::size_bytes)
      .def_property_readonly("reference_count", &vllm::Block::reference_count)
      .def_property_readonly("generation", &vllm::Block::generation);

  py::class_<BlockAllocator>(module, "BlockAllocator",
                             "Hands out blocks by id, shares them, takes them back.")
      .def(py::init<std::int64_t, std::int64_t, Policies, vllm::Pool>(), py::arg("num_blocks"),
           py::arg("block_bytes"), py::arg_v("policies", Policies{}, "Policies()"), py::kw_only(),
           py::arg_v("pool", vllm::Pool::device, "Pool.device"))
      .def("allocate", [](BlockAllocator& self) { return self.allocate(vllm::python_caller()); })
      .def(
          "allocate_block",
          [](BlockAllocator& self, vllm::BlockId block) {
            self.allocate_block(block, vllm::python_caller());
          },
          py::arg("block"))
      .def(
          "free",
          [](BlockAllocator& self, vllm::BlockId block) {
            self.free(block, vllm::python_caller());
          },
          py::arg("block"))
      .def(
          "fork",
          [](BlockAllocator& self, vllm::BlockId block) {
            self.fork(block, vllm::python_caller());
          },
          py::arg("block"))
      .def("get_block", &BlockAllocator::get_block, py::arg("block"),
           py::return_value_policy::reference_internal)
      .def("resolve", &BlockAllocator::resolve, py::arg("reference"),
           py::return_value_policy::reference_internal)
      .def("reference_to", &BlockAllocator::reference_to, py::arg("block"))
      .def("contains", &BlockAllocator::contains, py::arg("block"))
      .def("is_allocated", &BlockAllocator::is_allocated, py::arg("block"))
      .def("reference_count", &BlockAllocator::reference_count, py::arg("block"))
      .def("generation", &BlockAllocator::generation, py::arg("block"))
      .def("set_exhausted_handler", &BlockAllocator::set_exhausted_handler, py::arg("handler"))
      .def_property_readonly("num_blocks", &BlockAllocator::num_blocks)
      .def_property_readonly("num_free_blocks", &BlockAllocator::num_free_blocks)
      .def_property_readonly("block_bytes", &BlockAllocator::block_bytes)
      .def_property_readonly("policies", &BlockAllocator::policies)
      .def_property_readonly("pool", &BlockAllocator::pool);
}

void bind_cache(py::module_& module) {
  py::native_enum<vllm::DataType>(module, "DataType", "enum.Enum", "How numbers are stored.")
      .value("float32", vllm::DataType::float32)
      .value("bfloat16", vllm::DataType::bfloat16)
      .finalize();
  py::native_enum<vllm::CachePart>(module, "CachePart", "enum.Enum", "Which half of a layer.")
      .value("key", vllm::CachePart::key)
      .value("value", vllm::CachePart::value)
      .finalize();

  py::class_<CacheShape>(module, "CacheShape", "The sizes of a cache but its number of blocks.")
      .def(py::init<std::int64_t, std::int64_t, std::int64_t, std::int64_t, vllm::DataType>(),
           py::kw_only(), py::arg("block_size"), py::arg("num_layers"), py::arg("num_heads"),
           py::arg("head_size"), py::arg_v("dtype", vllm::DataType::float32, "DataType.float32"))
      .def_readonly("block_size", &CacheShape::block_size)
      .def_readonly("num_layers", &CacheShape::num_layers)
      .def_readonly("num_heads", &CacheShape::num_heads)
      .def_readonly("head_size", &CacheShape::head_size)
      .def_readonly("dtype", &CacheShape::dtype)
      .def_property_readonly("block_bytes", &CacheShape::block_bytes);

  module.def("blocks_that_fit", &vllm::blocks_that_fit, py::arg("memory_bytes"), py::arg("shape"),
             py::arg_v("access", vllm::AccessPolicy::checked, "AccessPolicy.checked"),
             "Blocks of this shape that fit in a memory size.");
  module.def("built_with_address_sanitizer", &vllm::built_with_address_sanitizer,
             "Whether this module was compiled with AddressSanitizer.");

  py::class_<PagedKVCache>(module, "PagedKVCache", "Keys and values of past tokens, in blocks.")
      .def(py::init<std::int64_t, CacheShape, Policies, vllm::Pool>(), py::arg("num_blocks"),
           py::arg("shape"), py::arg_v("policies", Policies{}, "Policies()"), py::kw_only(),
           py::arg_v("pool", vllm::Pool::device, "Pool.device"))
      .def_property_readonly(
          "allocator", [](PagedKVCache& self) -> BlockAllocator& { return self.allocator(); },
          py::return_value_policy::reference_internal)
      .def_property_readonly("shape", &PagedKVCache::shape)
      .def("copy_blocks", &PagedKVCache::copy_blocks, py::arg("pairs"))
      .def("swap_blocks", &PagedKVCache::swap_blocks, py::arg("target"), py::arg("pairs"))
      .def(
          "reshape_and_cache",
          [](PagedKVCache& self, std::int64_t layer, const FloatInput& keys,
             const FloatInput& values, const std::vector<std::int64_t>& slots) {
            self.reshape_and_cache(layer, view(keys), view(values), slots);
          },
          py::arg("layer"), py::arg("keys"), py::arg("values"), py::arg("slots"))
      .def(
          "paged_attention",
          [](PagedKVCache& self, std::int64_t layer, const FloatInput& query,
             const std::vector<vllm::BlockTable>& block_tables,
             const std::vector<std::int64_t>& context_lengths, float scale) {
            return copy_of(
                self.paged_attention(layer, view(query), block_tables, context_lengths, scale));
          },
          py::arg("layer"), py::arg("query"), py::arg("block_tables"), py::arg("context_lengths"),
          py::arg("scale"))
      .def(
          "read_block",
          [](PagedKVCache& self, std::int64_t layer, vllm::CachePart part, vllm::BlockId block) {
            return copy_of(self.read_block(layer, part, block));
          },
          py::arg("layer"), py::arg("part"), py::arg("block"));
}

void bind_worker(py::module_& module) {
  py::class_<SequenceStep>(module, "SequenceStep", "One sequence in a decode step.")
      .def(py::init<vllm::BlockTable, std::int64_t, std::vector<vllm::Generation>>(), py::kw_only(),
           py::arg("block_table"), py::arg("context_length"),
           py::arg("generations") = std::vector<vllm::Generation>{})
      .def_readonly("block_table", &SequenceStep::block_table)
      .def_readonly("context_length", &SequenceStep::context_length)
      .def_readonly("generations", &SequenceStep::generations);

  using Pairs = std::vector<vllm::BlockPair>;
  py::class_<StepPlan>(module, "StepPlan", "What the scheduler asks of one step.")
      .def(py::init<std::vector<SequenceStep>, Pairs, Pairs, Pairs>(), py::arg("sequences"),
           py::kw_only(), py::arg("blocks_to_swap_in") = Pairs{},
           py::arg("blocks_to_swap_out") = Pairs{}, py::arg("blocks_to_copy") = Pairs{})
      .def_readonly("sequences", &StepPlan::sequences)
      .def_readonly("blocks_to_swap_in", &StepPlan::blocks_to_swap_in)
      .def_readonly("blocks_to_swap_out", &StepPlan::blocks_to_swap_out)
      .def_readonly("blocks_to_copy", &StepPlan::blocks_to_copy);

  py::class_<CPUWorker>(module, "CPUWorker", "Owns a device and a host cache; executes steps.")
      .def(py::init<CacheShape, Policies>(), py::arg("shape"),
           py::arg_v("policies", Policies{}, "Policies()"))
      .def("initialize_cache", &CPUWorker::initialize_cache, py::arg("num_device_blocks"),
           py::arg("num_host_blocks") = 0)
      .def(
          "execute_model",
          [](CPUWorker& self, const StepPlan& plan, const FloatInput& query, const FloatInput& keys,
             const FloatInput& values) {
            return copy_of(self.execute_model(plan, {view(query), view(keys), view(values)}));
          },
          py::arg("plan"), py::kw_only(), py::arg("query"), py::arg("keys"), py::arg("values"))
      .def("swap_in", &CPUWorker::swap_in, py::arg("pairs"))
      .def("swap_out", &CPUWorker::swap_out, py::arg("pairs"))
      .def("copy", &CPUWorker::copy, py::arg("pairs"))
      .def_property_readonly("device_cache", &CPUWorker::device_cache,
                             py::return_value_policy::reference_internal)
      .def_property_readonly("host_cache", &CPUWorker::host_cache,
                             py::return_value_policy::reference_internal)
      .def_property_readonly("step", &CPUWorker::step);
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  module.doc() = "The specimen: a paged key-value cache and the worker that drives it.";
  bind_event_log(module);
  bind_policies(module);
  bind_allocator(module);
  bind_cache(module);
  bind_worker(module);
}
