#ifndef VLLM_FORENSICS_SUPERVISOR_MINICORE_WRITER_H_
#define VLLM_FORENSICS_SUPERVISOR_MINICORE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/memory_reader.h"
#include "supervisor/proc_files.h"
#include "supervisor/redactor.h"

namespace forensics {

/// Gathers ELF notes (elf(5)) in the order in which they are to stand in the file.
class NoteBuilder {
 public:
  void add(std::string_view owner, std::uint32_t type, const void* data, std::size_t size);
  void add(std::string_view owner, std::uint32_t type, const std::vector<std::byte>& data) {
    add(owner, type, data.data(), data.size());
  }

  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// What goes into a core file.
struct CoreContents {
  std::uint16_t machine;               // EM_X86_64, EM_AARCH64
  const std::vector<MemoryMap>& maps;  // borrowed, lowest first
  const std::vector<std::byte>& notes;
  const std::vector<std::uint64_t>& pages;  // sorted
  const MemoryReader& memory;
  const Redactor& redactor;
};

/// Writes a standard ELF core to `path` (mode 0600; it appears complete or not at all) and returns
/// its size in bytes. Every mapping has a PT_LOAD; one that is kept in parts has one a part, with
/// the part's bytes at its front and nothing behind them, as the kernel does where it keeps a first
/// page. Throws std::system_error.
std::uint64_t write_core(const std::string& path, const CoreContents& contents);

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_MINICORE_WRITER_H_
