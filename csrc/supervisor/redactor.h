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
#include "supervisor/process_image.h"

namespace forensics {

/// Blanks what must not leave the machine: address ranges (where the kernel put the environment and
/// the arguments), and copies of their values elsewhere, such as os.environ on Python's heap. In
/// registers and on stacks parts of them too: what read or copied a value last has pieces of it in
/// vector registers, and the dynamic linker saves these on the stack (_dl_runtime_resolve_xsavec).
class Redactor {
 public:
  /// Everything in [start, end) is blanked.
  void add_range(std::uint64_t start, std::uint64_t end);

  /// Reads "NAME=VALUE" strings or arguments, separated by NUL, and looks for them everywhere.
  void add_strings(std::string_view block);

  /// Call once after the last addition. What is part of a mapped file's path is not looked for:
  /// readers find modules by these names.
  void prepare(const ProcessImage& image);

  /// Blanks in `bytes`, which were read from `address`. Looks a little to both sides in `memory`,
  /// as a secret may begin on the page before.
  void redact(const MemoryReader& memory, std::uint64_t address, std::byte* bytes,
              std::size_t size) const;

  /// Blanks values and parts of them, in bytes that have no address.
  void redact_registers(std::vector<std::byte>& bytes) const;

  /// Would this value be looked for? Paths, numbers and plain words would be: they are no secrets,
  /// and blanking them would blank the names of modules and functions.
  [[nodiscard]] static bool is_secret_shaped(std::string_view value);

 private:
  static constexpr std::size_t kPrefix = 8;
  using Range = std::pair<std::uint64_t, std::uint64_t>;

  void add_value(std::string_view value);
  void prepare_parts(const std::vector<MemoryMap>& maps);
  void blank_values(char* text, std::size_t size) const;
  void blank_parts(char* text, std::size_t size) const;

  std::vector<Range> ranges_;
  std::vector<Range> stacks_;
  std::vector<std::string> values_;
  std::bitset<65536> prefixes_;       // of the values' first bytes, hashed
  std::vector<std::uint64_t> parts_;  // each kPrefix bytes of a value, in order
  std::bitset<65536> part_hashes_;
  std::size_t longest_ = 0;
};

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_REDACTOR_H_
