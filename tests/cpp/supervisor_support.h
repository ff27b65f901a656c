#ifndef VLLM_FORENSICS_TESTS_SUPERVISOR_SUPPORT_H_
#define VLLM_FORENSICS_TESTS_SUPERVISOR_SUPPORT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "supervisor/memory_reader.h"
#include "supervisor/process_image.h"

namespace forensics {

/// Memory that a test makes up, page by page; what was not written cannot be read.
class MadeUpMemory final : public MemoryReader {
 public:
  void write(std::uint64_t address, const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    for (std::size_t at = 0; at < size; ++at) {
      page(address + at)[(address + at) % kPageSize] = bytes[at];
    }
  }
  void write_word(std::uint64_t address, std::uint64_t word) { write(address, &word, sizeof word); }

  /// Makes a range readable, filled with zeroes.
  void fill(std::uint64_t start, std::uint64_t end) {
    for (std::uint64_t at = start; at < end; at += kPageSize) {
      page(at);
    }
  }

  [[nodiscard]] std::size_t read(std::uint64_t address, std::byte* target,
                                 std::size_t size) const override {
    std::size_t done = 0;
    while (done < size) {
      const auto found = pages_.find((address + done) & kPageMask);
      if (found == pages_.end()) {
        break;
      }
      const std::size_t within = (address + done) % kPageSize;
      const std::size_t part = std::min<std::size_t>(size - done, kPageSize - within);
      std::memcpy(target + done, found->second.data() + within, part);
      done += part;
    }
    return done;
  }

 private:
  std::vector<std::byte>& page(std::uint64_t address) {
    std::vector<std::byte>& bytes = pages_[address & kPageMask];
    bytes.resize(kPageSize);
    return bytes;
  }

  std::map<std::uint64_t, std::vector<std::byte>> pages_;
};

/// An anonymous mapping of `pages` pages that may be read and written.
inline MemoryMap make_map(std::uint64_t start, std::uint64_t pages, const char* path = "") {
  MemoryMap map;
  map.start = start;
  map.end = start + pages * kPageSize;
  map.readable = true;
  map.writable = true;
  map.path = path;
  return map;
}

}  // namespace forensics

#endif  // VLLM_FORENSICS_TESTS_SUPERVISOR_SUPPORT_H_
