#ifndef VLLM_FORENSICS_SUPERVISOR_REDACTOR_H_
#define VLLM_FORENSICS_SUPERVISOR_REDACTOR_H_

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "supervisor/memory_reader.h"
#include "supervisor/proc_files.h"

namespace forensics {

/// Blanks what must not leave the machine: address ranges (where the kernel put the environment and
/// the arguments), and copies of their values elsewhere, such as os.environ on Python's heap.
class Redactor {
 public:
  /// Everything in [start, end) is blanked.
  void add_range(std::uint64_t start, std::uint64_t end);

  /// Reads "NAME=VALUE" strings or arguments, separated by NUL, and looks for them everywhere.
  void add_strings(std::string_view block);

  /// Call once after the last addition. What is part of a mapped file's path is not looked for:
  /// readers find modules by these names.
  void prepare(const std::vector<MemoryMap>& maps);

  /// Blanks in `bytes`, which were read from `address`. Looks a little to both sides in `memory`,
  /// as a secret may begin on the page before.
  void redact(const MemoryReader& memory, std::uint64_t address, std::byte* bytes,
              std::size_t size) const;

  /// Blanks values alone, in bytes that have no address: vector registers hold what was copied
  /// last.
  void redact_values(std::vector<std::byte>& bytes) const;

  /// Would this value be looked for? Paths, numbers and plain words would be: they are no secrets,
  /// and blanking them would blank the names of modules and functions.
  [[nodiscard]] static bool is_secret_shaped(std::string_view value);

 private:
  static constexpr std::size_t kPrefix = 8;

  void add_value(std::string_view value);
  void blank_values(char* text, std::size_t size) const;

  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges_;
  std::vector<std::string> values_;
  std::bitset<65536> prefixes_;  // of the values' first bytes, hashed
  std::size_t longest_ = 0;
};

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_REDACTOR_H_
