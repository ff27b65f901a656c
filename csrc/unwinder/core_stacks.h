#ifndef VLLM_FORENSICS_UNWINDER_CORE_STACKS_H_
#define VLLM_FORENSICS_UNWINDER_CORE_STACKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "unwinder/core_memory.h"
#include "unwinder/elf_file.h"

namespace forensics::unwinder {

/// A file that was mapped, from its lowest to beyond its highest address. Whoever names it has
/// checked that the file is the one that the core is of: nothing here compares build-ids.
struct MappedFile {
  std::string path;
  /// Where debug information was split off: its file. Empty where there is none.
  std::string debug_path;
  Address start = 0;
  Address end = 0;
};

/// A register by its DWARF number, which each architecture's ABI supplement lists.
struct RegisterValue {
  int number = 0;
  Address value = 0;
};

/// Where a walk begins: a thread as it stopped, or as a signal interrupted it.
struct ThreadState {
  Address pc = 0;
  std::vector<RegisterValue> registers;
};

/// How many frames of a stack are kept, from its two ends.
struct FrameLimits {
  std::size_t innermost = 64;
  std::size_t outermost = 0;
};

/// One frame as the unwind tables give it; calls that were inlined are told by `lines_of`.
struct NativeFrame {
  /// Place in the stack, the innermost is 0.
  std::size_t level = 0;
  Address pc = 0;
  /// The pc is a return address: the call stands before it.
  bool is_call = false;
  /// From the symbol table, demangled; empty where no function covers the pc.
  std::string function;
};

/// Why a walk went no further.
enum class WalkEnd : std::uint8_t {
  /// The tables say that this is the outermost frame.
  outermost,
  /// No file was named for the last frame's pc, or it has no table for it: who called is unknown.
  no_table,
  /// The stack's memory is not in the core.
  no_memory,
  /// Longer than any stack that is worth walking.
  too_deep,
};

struct NativeStack {
  std::vector<NativeFrame> frames;
  /// All frames that were walked, kept or not.
  std::size_t depth = 0;
  WalkEnd end = WalkEnd::outermost;
};

/// A place in source code and the function that it belongs to, demangled.
struct LineOf {
  std::string function;
  std::string file;
  int line = 0;
  int column = 0;
};

/// The stacks of one core, through elfutils' libdwfl. A hostile core can make that library crash:
/// use this in a process that may die.
class CoreStacks {
 public:
  /// Throws std::runtime_error if the core cannot be read. A file that cannot be opened is met
  /// when a stack comes to it, and ends the walk there.
  CoreStacks(const std::string& core, std::vector<MappedFile> files,
             std::shared_ptr<ElfFiles> opened);
  ~CoreStacks();
  CoreStacks(const CoreStacks&) = delete;
  CoreStacks& operator=(const CoreStacks&) = delete;

  /// Walks from a thread's state outwards, as far as unwind tables carry it; nothing is guessed.
  [[nodiscard]] NativeStack walk(const ThreadState& state, const FrameLimits& limits);

  /// The source places of a frame's pc, the innermost inlined call first; empty where no debug
  /// information covers it.
  [[nodiscard]] std::vector<LineOf> lines_of(Address pc, bool is_call);

 private:
  struct Session;
  std::unique_ptr<Session> session_;
};

}  // namespace forensics::unwinder

#endif  // VLLM_FORENSICS_UNWINDER_CORE_STACKS_H_
