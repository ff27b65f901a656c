#ifndef VLLM_FORENSICS_UNWINDER_CORE_MEMORY_H_
#define VLLM_FORENSICS_UNWINDER_CORE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forensics::unwinder {

using Address = std::uint64_t;

/// A core file, mapped for reading. Its headers are not trusted: a segment counts as far as the
/// file holds it.
class CoreMemory {
 public:
  /// Throws std::runtime_error if the file cannot be mapped or is no core file.
  explicit CoreMemory(const std::string& path);
  ~CoreMemory();
  CoreMemory(const CoreMemory&) = delete;
  CoreMemory& operator=(const CoreMemory&) = delete;

  /// One word of the core's class and byte order, or nothing where it holds none.
  [[nodiscard]] std::optional<Address> word(Address address) const noexcept;

  /// The file's bytes, for a reader of its ELF header; valid as long as this object.
  [[nodiscard]] char* bytes() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  struct Segment {
    Address start;
    Address end;
    std::size_t offset;
  };

  [[nodiscard]] const Segment* segment_of(Address address) const noexcept;
  void read_segments();

  char* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t word_size_ = sizeof(Address);
  bool is_big_endian_ = false;
  std::vector<Segment> segments_;
};

}  // namespace forensics::unwinder

#endif  // VLLM_FORENSICS_UNWINDER_CORE_MEMORY_H_
