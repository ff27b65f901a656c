#ifndef VLLM_FORENSICS_SUPERVISOR_CORE_FILE_H_
#define VLLM_FORENSICS_SUPERVISOR_CORE_FILE_H_

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "supervisor/process_image.h"

namespace forensics {

/// One note of a core; `data` is borrowed from the file.
struct CoreNote {
  std::string owner;
  std::uint32_t type = 0;
  const std::byte* data = nullptr;
  std::size_t size = 0;
};

/// An existing ELF core, mapped, as a source of memory. What the core left out is not taken from
/// the files of this machine: they may have changed since.
class CoreFile final : public MemoryReader {
 public:
  /// Throws std::system_error if it cannot be mapped, std::runtime_error if it is no 64-bit core.
  explicit CoreFile(const std::string& path);
  CoreFile(const CoreFile&) = delete;
  CoreFile& operator=(const CoreFile&) = delete;
  ~CoreFile() override;

  [[nodiscard]] std::size_t read(std::uint64_t address, std::byte* target,
                                 std::size_t size) const override;

  [[nodiscard]] std::uint16_t machine() const { return machine_; }
  [[nodiscard]] const std::vector<CoreNote>& notes() const { return notes_; }

  /// Its mappings, threads, auxiliary vector and fault address.
  [[nodiscard]] ProcessImage image() const;

 private:
  void parse();
  void parse_notes(const Elf64_Phdr& segment);
  void add_threads(ProcessImage& image) const;
  void name_maps(ProcessImage& image) const;

  const std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint16_t machine_ = 0;
  std::vector<Elf64_Phdr> segments_;  // PT_LOAD, lowest first
  std::vector<CoreNote> notes_;
};

/// Where the kernel put a new program's strings (execve's stack), found by its auxiliary vector.
struct InitialStrings {
  std::string first_argument;
  std::uint64_t arguments_start = 0;  // behind argv[0]
  std::uint64_t arguments_end = 0;
  std::uint64_t environment_start = 0;
  std::uint64_t environment_end = 0;
};

/// All zero where the stack does not hold them.
[[nodiscard]] InitialStrings find_initial_strings(const ProcessImage& image);

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_CORE_FILE_H_
