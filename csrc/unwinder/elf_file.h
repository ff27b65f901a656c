#ifndef VLLM_FORENSICS_UNWINDER_ELF_FILE_H_
#define VLLM_FORENSICS_UNWINDER_ELF_FILE_H_

#include <libelf.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/unique_fd.h"

namespace forensics::unwinder {

/// A function of a symbol table; addresses are the file's own.
struct FunctionSymbol {
  std::uint64_t start = 0;
  std::uint64_t size = 0;
  /// As in the table: C++ names are mangled. Lives as long as its file.
  const char* name = "";
};

/// An ELF file that is read once, however many cores map it.
class ElfFile {
 public:
  /// Throws std::runtime_error if it cannot be opened or is no ELF file.
  explicit ElfFile(const std::string& path);
  ~ElfFile();
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  /// One more reference for libdwfl, which gives it back with elf_end.
  [[nodiscard]] Elf* share() const;

  /// The function that covers `address`, or null. Sorts the symbols at the first question.
  [[nodiscard]] const FunctionSymbol* function_at(std::uint64_t address);

 private:
  void read_symbols();
  void read_table(Elf_Scn* section);

  UniqueFd fd_;
  Elf* elf_ = nullptr;
  std::vector<FunctionSymbol> functions_;
  bool has_read_symbols_ = false;
};

/// Files by path, kept open between cores. A file that changes meanwhile is opened anew.
class ElfFiles {
 public:
  /// Throws as ElfFile does.
  [[nodiscard]] std::shared_ptr<ElfFile> open(const std::string& path);

 private:
  struct Entry {
    std::uint64_t device;
    std::uint64_t inode;
    std::int64_t changed_ns;
    std::shared_ptr<ElfFile> file;
  };
  std::map<std::string, Entry> files_;
};

}  // namespace forensics::unwinder

#endif  // VLLM_FORENSICS_UNWINDER_ELF_FILE_H_
