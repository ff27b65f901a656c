#include "supervisor/core_minifier.h"

#include <sys/procfs.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "supervisor/core_file.h"
#include "supervisor/core_selector.h"
#include "supervisor/minicore_writer.h"
#include "supervisor/redactor.h"
#include "supervisor/selection_note.h"

namespace forensics {
namespace {

/// NT_PRPSINFO with argv[0] alone.
std::vector<std::byte> without_arguments(const CoreNote& note, const std::string& first_argument) {
  std::vector<std::byte> bytes(note.data, note.data + note.size);
  elf_prpsinfo info{};
  if (bytes.size() != sizeof info) {
    return bytes;
  }
  std::memcpy(&info, bytes.data(), sizeof info);
  const std::string_view all(info.pr_psargs, ::strnlen(info.pr_psargs, sizeof info.pr_psargs));
  const std::size_t keep = first_argument.empty() ? all.find(' ') : first_argument.size();
  if (keep < all.size()) {
    std::memset(info.pr_psargs + keep, 0, sizeof info.pr_psargs - keep);
  }
  std::memcpy(bytes.data(), &info, sizeof info);
  return bytes;
}

Redactor make_redactor(const InitialStrings& strings, const ProcessImage& image) {
  const MemoryReader& memory = *image.memory;
  Redactor redactor;
  const auto add = [&](std::uint64_t start, std::uint64_t end) {
    redactor.add_range(start, end);
    std::string text(start < end ? end - start : 0, '\0');
    text.resize(memory.read(start, reinterpret_cast<std::byte*>(text.data()), text.size()));
    redactor.add_strings(text);
  };
  add(strings.arguments_start, strings.arguments_end);
  add(strings.environment_start, strings.environment_end);
  redactor.prepare(image);
  return redactor;
}

}  // namespace

std::uint64_t minify_core(const std::string& source, const std::string& target,
                          const CaptureOptions& options) {
  const CoreFile core(source);
  const ProcessImage image = core.image();
  if (image.threads.empty()) {
    throw std::runtime_error(source + " holds no thread");
  }
  const Selection selection = CoreSelector(image, {options.budget, options.everything}).select();
  const InitialStrings strings = find_initial_strings(image);
  const Redactor redactor = options.include_secrets ? Redactor() : make_redactor(strings, image);

  NoteBuilder notes;
  for (const CoreNote& note : core.notes()) {
    if (note.type == NT_PRPSINFO && note.owner == "CORE" && !options.include_secrets) {
      notes.add(note.owner, note.type, without_arguments(note, strings.first_argument));
    } else if (note.owner != kNoteOwner) {
      std::vector<std::byte> bytes(note.data, note.data + note.size);
      if (note.type == NT_FPREGSET || note.type == NT_X86_XSTATE) {
        redactor.redact_registers(bytes);
      }
      notes.add(note.owner, note.type, bytes);
    }
  }
  SelectionNote own;
  own.budget = options.budget;
  own.secrets_included = options.include_secrets;
  const std::string text = render_note(selection, own);
  notes.add(kNoteOwner, kNoteType, text.data(), text.size());
  return write_core(target, {core.machine(), image.maps, notes.bytes(), selection.pages,
                             *image.memory, redactor});
}

}  // namespace forensics
