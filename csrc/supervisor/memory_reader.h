#ifndef VLLM_FORENSICS_SUPERVISOR_MEMORY_READER_H_
#define VLLM_FORENSICS_SUPERVISOR_MEMORY_READER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "supervisor/unique_fd.h"

namespace forensics {

inline constexpr std::uint64_t kPageSize = 4096;
inline constexpr std::uint64_t kPageMask = ~(kPageSize - 1);

/// Where the memory of a process comes from: the process itself, or a core that it left.
class MemoryReader {
 public:
  MemoryReader() = default;
  MemoryReader(const MemoryReader&) = delete;
  MemoryReader& operator=(const MemoryReader&) = delete;
  virtual ~MemoryReader() = default;

  /// Copies up to `size` bytes; returns how many could be read from `address` on.
  [[nodiscard]] virtual std::size_t read(std::uint64_t address, std::byte* target,
                                         std::size_t size) const = 0;

  /// Copies whole pages, one behind the other; `readable[i]` says whether page i was had.
  virtual void read_pages(const std::vector<std::uint64_t>& pages, std::byte* target,
                          std::vector<bool>& readable) const;

  /// Reads one trivially copyable value; false if it is not there.
  template <typename T>
  [[nodiscard]] bool read_value(std::uint64_t address, T& value) const {
    return read(address, reinterpret_cast<std::byte*>(&value), sizeof value) == sizeof value;
  }
};

/// Copies from a process by process_vm_readv(2) alone; returns how many bytes could be had.
[[nodiscard]] std::size_t read_directly(pid_t pid, std::uint64_t address, std::byte* target,
                                        std::size_t size);

/// The memory of a stopped process, by process_vm_readv(2); where that fails, by /proc/PID/mem.
class ProcessMemory final : public MemoryReader {
 public:
  explicit ProcessMemory(pid_t pid);

  [[nodiscard]] std::size_t read(std::uint64_t address, std::byte* target,
                                 std::size_t size) const override;
  void read_pages(const std::vector<std::uint64_t>& pages, std::byte* target,
                  std::vector<bool>& readable) const override;

 private:
  pid_t pid_;
  UniqueFd file_;
};

/// Another reader's memory with one older piece laid over it: what the stack held when it faulted.
class OverlaidMemory final : public MemoryReader {
 public:
  /// Borrows `below` and `piece`; both must outlive this.
  OverlaidMemory(const MemoryReader& below, std::uint64_t start,
                 const std::vector<std::byte>& piece)
      : below_(below), start_(start), piece_(piece) {}

  [[nodiscard]] std::size_t read(std::uint64_t address, std::byte* target,
                                 std::size_t size) const override;
  void read_pages(const std::vector<std::uint64_t>& pages, std::byte* target,
                  std::vector<bool>& readable) const override;

 private:
  void lay_over(std::uint64_t address, std::byte* target, std::size_t size) const;

  const MemoryReader& below_;
  std::uint64_t start_;
  const std::vector<std::byte>& piece_;
};

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_MEMORY_READER_H_
