#include "supervisor/selection_note.h"

#include <algorithm>
#include <array>

#include "supervisor/json_object.h"

namespace forensics {
namespace {

constexpr std::size_t kLeastSize = 512;

std::string render_signal(const siginfo_t& signal) {
  JsonObject object;
  object.add("number", signal.si_signo);
  object.add("code", signal.si_code);
  if (signal.si_code > 0) {
    object.add_hex("address", reinterpret_cast<std::uint64_t>(signal.si_addr));
  } else {
    object.add("sender_pid", signal.si_pid);
  }
  return object.text();
}

std::string render_bytes(const std::array<std::uint64_t, kReasons>& bytes) {
  JsonObject object;
  for (std::size_t index = 0; index < kReasons; ++index) {
    if (bytes.at(index) != 0) {
      object.add(kReasonNames.at(index), bytes.at(index));
    }
  }
  return object.text();
}

}  // namespace

std::string render_note(const Selection& selection, const SelectionNote& note) {
  JsonObject object;
  object.add("version", 1);
  object.add("supervisor", kSupervisorVersion);
  object.add("budget", note.budget);
  object.add("kept_bytes", selection.pages.size() * kPageSize);
  object.add_raw("kept", render_bytes(selection.kept_bytes));
  object.add_raw("dropped", render_bytes(selection.dropped_bytes));
  object.add("excluded_bytes", selection.excluded_bytes);
  object.add("unreadable_bytes", selection.unreadable_bytes);
  object.add("unfollowed_pages", selection.unfollowed_pages);
  object.add("missing_threads", note.missing_threads);
  object.add("secrets_included", note.secrets_included);
  object.add("memory_later_than_registers", note.first_signal != nullptr);
  if (note.first_signal != nullptr) {
    object.add_raw("first_signal", render_signal(*note.first_signal));
  }
  if (note.last_signal != nullptr) {
    object.add_raw("last_signal", render_signal(*note.last_signal));
  }
  std::string text = object.text();
  text.resize(std::max(text.size(), kLeastSize), ' ');
  return text;
}

}  // namespace forensics
