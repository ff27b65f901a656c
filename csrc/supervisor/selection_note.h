#ifndef VLLM_FORENSICS_SUPERVISOR_SELECTION_NOTE_H_
#define VLLM_FORENSICS_SUPERVISOR_SELECTION_NOTE_H_

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "supervisor/core_selector.h"

namespace forensics {

inline constexpr std::string_view kNoteOwner = "FORENSICS";
inline constexpr std::uint32_t kNoteType = 1;
inline constexpr std::string_view kSupervisorVersion = "1";

/// What the note says beside the selection.
struct SelectionNote {
  std::uint64_t budget = 0;
  bool secrets_included = false;
  const siginfo_t* first_signal = nullptr;  // borrowed; set where a handler ran before the end
  const siginfo_t* last_signal = nullptr;   // borrowed; unset for a core cut from a core
  std::size_t missing_threads = 0;
};

/// The note's text: one JSON object (version 1), UTF-8. `memory_later_than_registers`: a handler
/// ran between the fault, whose registers are kept, and the moment when memory was read.
/// Padded with spaces: gdb takes any note of type 1 for a thread if its size is that of one (296 or
/// 336 bytes), whoever owns it.
[[nodiscard]] std::string render_note(const Selection& selection, const SelectionNote& note);

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_SELECTION_NOTE_H_
