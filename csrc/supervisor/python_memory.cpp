#include "supervisor/python_memory.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_set>

namespace forensics {
namespace {

constexpr std::uint64_t kNone = UINT64_MAX;

/// Offsets in CPython's structures, from python_layout.py; a test compares the two.
struct PythonLayout {
  std::uint32_t minor;
  std::uint64_t interpreters;    // _PyRuntimeState
  std::uint64_t gil_in_runtime;  // or kNone
  std::uint64_t gil_pointer;     // PyInterpreterState
  std::uint64_t threads;
  std::uint64_t frame;         // PyThreadState
  std::uint64_t second_frame;  // what that points to, or kNone
  std::uint64_t previous;      // _PyInterpreterFrame
  std::uint64_t code;
};

constexpr std::array<PythonLayout, 3> kLayouts = {{
    {11, 40, 360, 0, 16, 56, 8, 48, 32},
    {12, 40, kNone, 384, 72, 56, 0, 8, 0},
    {13, 632, kNone, 16, 7344, 72, kNone, 8, 0},
}};

constexpr std::uint64_t kNextThread = 8;  // PyThreadState.next
constexpr std::uint64_t kType = 8;        // PyObject.ob_type
constexpr std::uint64_t kSize = 16;       // PyVarObject.ob_size, PyASCIIObject.length
constexpr std::uint64_t kLineTable = 136;
constexpr std::array<std::uint64_t, 3> kNames = {112, 120, 128};  // of PyCodeObject: file, names
constexpr std::uint64_t kCodeBytes = 208;
constexpr std::uint64_t kFrameBytes = 80;
constexpr std::uint64_t kThreadBytes = 256;
constexpr std::uint64_t kGilBytes = 32;
constexpr std::uint64_t kHeadBytes = 80;  // of a str or bytes object
constexpr std::uint64_t kMostName = 4096;
constexpr std::uint64_t kMostTable = std::uint64_t{1} << 20U;
constexpr std::size_t kMostThreads = 4096;
constexpr std::size_t kMostFrames = 1000;  // of each thread, the innermost
constexpr std::size_t kMostOfAll = 50000;
constexpr std::size_t kMostCodes = 20000;

constexpr std::size_t kMostDynamic = 512;
constexpr std::uint32_t kMostChain = 4096;

/// The exported symbols of one module, by its GNU hash table.
class ModuleSymbols {
 public:
  ModuleSymbols(const MemoryReader& memory, const LoadedModule& module)
      : memory_(memory), bias_(module.bias) {
    for (std::size_t index = 0; index < kMostDynamic; ++index) {
      Elf64_Dyn entry{};
      if (!memory_.read_value(module.dynamic + index * sizeof entry, entry) ||
          entry.d_tag == DT_NULL) {
        return;
      }
      if (entry.d_tag == DT_SYMTAB) {
        symbols_ = relocated(entry.d_un.d_ptr);
      } else if (entry.d_tag == DT_STRTAB) {
        strings_ = relocated(entry.d_un.d_ptr);
      } else if (entry.d_tag == DT_GNU_HASH) {
        hashes_ = relocated(entry.d_un.d_ptr);
      }
    }
  }

  [[nodiscard]] std::optional<std::uint64_t> address(std::string_view name) const {
    std::array<std::uint32_t, 4> head{};  // buckets, first symbol, words of the filter, its shift
    if (symbols_ == 0 || strings_ == 0 || hashes_ == 0 || !memory_.read_value(hashes_, head) ||
        head[0] == 0) {
      return std::nullopt;
    }
    std::uint32_t hash = 5381;
    for (const char letter : name) {
      hash = hash * 33U + static_cast<unsigned char>(letter);
    }
    const std::uint64_t buckets = hashes_ + sizeof head + head[2] * sizeof(std::uint64_t);
    const std::uint64_t chains = buckets + head[0] * sizeof(std::uint32_t);
    std::uint32_t symbol = 0;
    if (!memory_.read_value(buckets + (hash % head[0]) * sizeof symbol, symbol) ||
        symbol < head[1]) {
      return std::nullopt;
    }
    for (std::uint32_t count = 0; count < kMostChain; ++count, ++symbol) {
      std::uint32_t link = 0;
      if (!memory_.read_value(chains + (symbol - head[1]) * sizeof link, link)) {
        return std::nullopt;
      }
      if ((link | 1U) == (hash | 1U)) {
        Elf64_Sym found{};
        if (memory_.read_value(symbols_ + symbol * sizeof found, found) &&
            is_named(strings_ + found.st_name, name)) {
          return bias_ + found.st_value;
        }
      }
      if ((link & 1U) != 0) {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

 private:
  /// ld.so writes addresses over most offsets, and not over those of the vDSO.
  [[nodiscard]] std::uint64_t relocated(std::uint64_t value) const {
    return value < bias_ ? value + bias_ : value;
  }

  [[nodiscard]] bool is_named(std::uint64_t address, std::string_view name) const {
    std::array<char, 32> text{};
    const std::size_t size = name.size() + 1;
    return size <= text.size() &&
           memory_.read(address, reinterpret_cast<std::byte*>(text.data()), size) == size &&
           std::memcmp(text.data(), name.data(), name.size()) == 0 && text.at(name.size()) == '\0';
  }

  const MemoryReader& memory_;
  std::uint64_t bias_;
  std::uint64_t symbols_ = 0;
  std::uint64_t strings_ = 0;
  std::uint64_t hashes_ = 0;
};

bool may_be_interpreter(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::string_view base = slash == std::string_view::npos ? name : name.substr(slash + 1);
  return name.empty() || base.rfind("libpython3", 0) == 0;
}

/// Walks one interpreter's structures and notes where each of them lies.
class PythonWalk {
 public:
  PythonWalk(const MemoryReader& memory, const PythonLayout& layout, std::uint64_t code_type)
      : memory_(memory), layout_(layout), code_type_(code_type) {}

  std::vector<MemoryRange> ranges(std::uint64_t runtime) {
    const std::uint64_t interpreter = followed(runtime + layout_.interpreters);
    keep(runtime + layout_.interpreters, 2 * sizeof(std::uint64_t));
    if (layout_.gil_in_runtime != kNone) {
      keep(runtime + layout_.gil_in_runtime, kGilBytes);
    } else {
      keep(followed(interpreter + layout_.gil_pointer), kGilBytes);
    }
    std::uint64_t state = followed(interpreter + layout_.threads);
    std::unordered_set<std::uint64_t> seen;
    while (state != 0 && seen.size() < kMostThreads && seen.insert(state).second) {
      keep(state, kThreadBytes);
      add_frames(state);
      state = word(state + kNextThread);
    }
    return std::move(ranges_);
  }

 private:
  [[nodiscard]] std::uint64_t word(std::uint64_t address) const {
    std::uint64_t value = 0;
    return memory_.read_value(address, value) ? value : 0;
  }

  /// A pointer, which is kept as well.
  std::uint64_t followed(std::uint64_t address) {
    keep(address, sizeof(std::uint64_t));
    return word(address);
  }

  void keep(std::uint64_t start, std::uint64_t size) {
    if (start >= kPageSize && start < UINT64_MAX - size) {
      ranges_.push_back({start, start + size});
    }
  }

  void add_frames(std::uint64_t state) {
    std::uint64_t frame = followed(state + layout_.frame);
    if (frame != 0 && layout_.second_frame != kNone) {
      frame = followed(frame + layout_.second_frame);
    }
    for (std::size_t count = 0; frame != 0 && count < kMostFrames && frames_ < kMostOfAll;
         ++count, ++frames_) {
      keep(frame, kFrameBytes);
      add_code(word(frame + layout_.code));
      frame = word(frame + layout_.previous);
    }
  }

  void add_code(std::uint64_t code) {
    if (codes_.size() >= kMostCodes || word(code + kType) != code_type_ ||
        !codes_.insert(code).second) {
      return;  // since 3.12 a frame of C code stands between those of Python
    }
    keep(code, kCodeBytes);
    for (const std::uint64_t name : kNames) {
      const std::uint64_t text = word(code + name);
      keep(text, kHeadBytes + std::min(word(text + kSize), kMostName) * 4);
    }
    const std::uint64_t table = word(code + kLineTable);
    keep(table, kHeadBytes + std::min(word(table + kSize), kMostTable));
  }

  const MemoryReader& memory_;
  const PythonLayout& layout_;
  std::uint64_t code_type_;
  std::size_t frames_ = 0;
  std::vector<MemoryRange> ranges_;
  std::unordered_set<std::uint64_t> codes_;
};

}  // namespace

std::vector<MemoryRange> find_python_memory(const MemoryReader& memory,
                                            const std::vector<LoadedModule>& modules) {
  for (const LoadedModule& module : modules) {
    if (!may_be_interpreter(module.name)) {
      continue;
    }
    const ModuleSymbols symbols(memory, module);
    const auto version_at = symbols.address("Py_Version");
    const auto code_type = symbols.address("PyCode_Type");
    const auto runtime = symbols.address("_PyRuntime");
    std::uint32_t version = 0;
    if (!version_at || !code_type || !runtime || !memory.read_value(*version_at, version)) {
      continue;
    }
    for (const PythonLayout& layout : kLayouts) {
      if (version >> 24U == 3 && (version >> 16U & 0xFFU) == layout.minor) {
        return PythonWalk(memory, layout, *code_type).ranges(*runtime);
      }
    }
  }
  return {};
}

}  // namespace forensics
