#include "unwinder/core_stacks.h"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <sys/types.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace forensics::unwinder {
namespace {

constexpr std::size_t kMaxDepth = 2'000'000;
constexpr std::size_t kMaxInlined = 64;
constexpr std::size_t kMaxName = 8192;
constexpr pid_t kTheThread = 1;  // one thread at a time is shown to libdwfl; its number is ours

struct FreeMemory {
  void operator()(void* memory) const noexcept {
    // NOLINTNEXTLINE(cppcoreguidelines-no-malloc,cppcoreguidelines-owning-memory): libdw's contract
    std::free(memory);
  }
};

template <typename T>
using LibdwArray = std::unique_ptr<T, FreeMemory>;

struct EndDwfl {
  void operator()(Dwfl* dwfl) const noexcept { dwfl_end(dwfl); }
};

struct EndElf {
  void operator()(Elf* elf) const noexcept { elf_end(elf); }
};

std::string text_or_empty(const char* text) { return text == nullptr ? std::string() : text; }

/// As people write it. A name that is longer than any compiler makes, or none, stays as it is.
std::string demangled(const char* name) {
  std::string plain = text_or_empty(name).substr(0, kMaxName);
  if (plain.rfind("_Z", 0) != 0) return plain;
  int status = 0;
  const LibdwArray<char> text(abi::__cxa_demangle(plain.c_str(), nullptr, nullptr, &status));
  return status == 0 && text != nullptr ? std::string(text.get()) : plain;
}

/// The declaration that a definition or an inlined call stands for: it lies in its namespace.
Dwarf_Die declaration_of(Dwarf_Die function) {
  for (const unsigned attribute : {DW_AT_abstract_origin, DW_AT_specification}) {
    Dwarf_Attribute found;
    Dwarf_Die other;
    if (dwarf_attr(&function, attribute, &found) != nullptr &&
        dwarf_formref_die(&found, &other) != nullptr) {
      function = other;
    }
  }
  return function;
}

/// `outer::inner::name`, from the scopes around the declaration.
std::string qualified_name(Dwarf_Die* function) {
  std::string name = text_or_empty(dwarf_diename(function));
  Dwarf_Die declaration = declaration_of(*function);
  Dwarf_Die* scopes = nullptr;
  const int count = dwarf_getscopes_die(&declaration, &scopes);
  const LibdwArray<Dwarf_Die> owner(count > 0 ? scopes : nullptr);
  for (int at = 1; at < count; ++at) {
    const int tag = dwarf_tag(&scopes[at]);
    if (tag != DW_TAG_namespace && tag != DW_TAG_class_type && tag != DW_TAG_structure_type) {
      continue;
    }
    const char* scope = dwarf_diename(&scopes[at]);
    name.insert(0, "::").insert(0, scope == nullptr ? "(anonymous namespace)" : scope);
  }
  return name.substr(0, kMaxName);
}

/// From the mangled name where there is one: it knows the parameters. Local functions have none.
std::string name_of(Dwarf_Die* function) {
  for (const unsigned attribute : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    Dwarf_Attribute found;
    if (dwarf_attr_integrate(function, attribute, &found) != nullptr) {
      return demangled(dwarf_formstring(&found));
    }
  }
  return qualified_name(function);
}

std::optional<Dwarf_Word> number_of(Dwarf_Die* die, unsigned attribute) {
  Dwarf_Attribute found;
  Dwarf_Word value = 0;
  if (dwarf_attr_integrate(die, attribute, &found) == nullptr ||
      dwarf_formudata(&found, &value) != 0) {
    return std::nullopt;
  }
  return value;
}

/// A file's whole path: what the line table says may be relative to where the compiler ran.
std::string whole_path(Dwarf_Die* unit, const char* file) {
  std::string path = text_or_empty(file);
  Dwarf_Attribute found;
  if (path.empty() || path.front() == '/' || dwarf_attr(unit, DW_AT_comp_dir, &found) == nullptr) {
    return path;
  }
  const std::string folder = text_or_empty(dwarf_formstring(&found));
  return folder.empty() ? path : path.insert(0, "/").insert(0, folder);
}

/// Where an inlined function was called: file, line and column.
LineOf call_site(Dwarf_Die* unit, Dwarf_Die* inlined) {
  LineOf place;
  Dwarf_Files* files = nullptr;
  const auto file = number_of(inlined, DW_AT_call_file);
  if (file && dwarf_getsrcfiles(unit, &files, nullptr) == 0) {
    place.file = whole_path(unit, dwarf_filesrc(files, *file, nullptr, nullptr));
  }
  place.line = static_cast<int>(number_of(inlined, DW_AT_call_line).value_or(0));
  place.column = static_cast<int>(number_of(inlined, DW_AT_call_column).value_or(0));
  return place;
}

bool is_call_scope(Dwarf_Die* die) {
  const int tag = dwarf_tag(die);
  return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
}

}  // namespace

struct CoreStacks::Session {
  /// What libdwfl keeps for each module, and hands to the callbacks.
  struct Mapped {
    MappedFile file;
    Session* session;
  };

  Session(const std::string& core, std::vector<MappedFile> files,
          std::shared_ptr<ElfFiles> opened_files)
      : memory(core), opened(std::move(opened_files)) {
    for (MappedFile& file : files) mapped.push_back({std::move(file), this});
    elf.reset(elf_memory(memory.bytes(), memory.size()));
    dwfl.reset(dwfl_begin(&callbacks()));
    if (elf == nullptr || dwfl == nullptr) throw std::runtime_error("libdwfl cannot start");
    dwfl_report_begin(dwfl.get());
    for (Mapped& entry : mapped) {
      const MappedFile& file = entry.file;
      Dwfl_Module* module = dwfl_report_module(dwfl.get(), file.path.c_str(), file.start, file.end);
      if (module != nullptr) *kept_of(module) = &entry;
    }
    dwfl_report_end(dwfl.get(), nullptr, nullptr);
    if (!dwfl_attach_state(dwfl.get(), elf.get(), kTheThread, &thread_callbacks(), this)) {
      throw std::runtime_error(text_or_empty(dwfl_errmsg(-1)));
    }
  }

  ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // What libdwfl asks for.

  static const Dwfl_Callbacks& callbacks() {
    static const Dwfl_Callbacks table = {find_elf, find_debug, nullptr, nullptr};
    return table;
  }

  static const Dwfl_Thread_Callbacks& thread_callbacks() {
    static const Dwfl_Thread_Callbacks table = {next_thread,   get_thread, read_word,
                                                set_registers, nullptr,    nullptr};
    return table;
  }

  static int find_elf(Dwfl_Module* /*module*/, void** kept, const char* /*name*/,
                      Dwarf_Addr /*base*/, char** file_name, Elf** elf_out) {
    const auto* entry = static_cast<const Mapped*>(*kept);
    if (entry == nullptr) return -1;
    try {
      *elf_out = entry->session->opened->open(entry->file.path)->share();
    } catch (const std::exception&) {
      return -1;
    }
    *file_name = ::strdup(entry->file.path.c_str());
    return -1;  // without a descriptor: the one that is shared stays open
  }

  static int find_debug(Dwfl_Module* /*module*/, void** kept, const char* /*name*/,
                        Dwarf_Addr /*base*/, const char* /*file*/, const char* /*link*/,
                        GElf_Word /*checksum*/, char** file_name) {
    const auto* entry = static_cast<const Mapped*>(*kept);
    if (entry == nullptr || entry->file.debug_path.empty()) return -1;
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): open(2) is declared so
    const int fd = ::open(entry->file.debug_path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) *file_name = ::strdup(entry->file.debug_path.c_str());
    return fd;  // libdwfl closes it
  }

  static pid_t next_thread(Dwfl* /*dwfl*/, void* session, void** thread) {
    if (*thread != nullptr) return 0;
    *thread = session;
    return kTheThread;
  }

  static bool get_thread(Dwfl* /*dwfl*/, pid_t /*tid*/, void* session, void** thread) {
    *thread = session;
    return true;
  }

  static bool read_word(Dwfl* /*dwfl*/, Dwarf_Addr address, Dwarf_Word* result, void* session) {
    auto* self = static_cast<Session*>(session);
    const auto word = self->memory.word(address);
    if (!word) {
      self->met_no_memory = true;
      return false;
    }
    *result = *word;
    return true;
  }

  static bool set_registers(Dwfl_Thread* thread, void* session) {
    const auto* self = static_cast<const Session*>(session);
    for (const RegisterValue& value : self->state->registers) {
      if (!dwfl_thread_state_registers(thread, value.number, 1, &value.value)) return false;
    }
    dwfl_thread_state_register_pc(thread, self->state->pc);
    return true;
  }

  static void** kept_of(Dwfl_Module* module) {
    void** kept = nullptr;
    dwfl_module_info(module, &kept, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    return kept;
  }

  // The walk.

  static int take_frame(Dwfl_Frame* frame, void* session) {
    return static_cast<Session*>(session)->take(frame);
  }

  int take(Dwfl_Frame* frame) {
    Dwarf_Addr pc = 0;
    bool is_activation = false;
    if (!dwfl_frame_pc(frame, &pc, &is_activation)) return DWARF_CB_ABORT;
    if (stack.depth != 0 && !last_has_table) {
      // What follows would be found by following frame pointers: a guess.
      return DWARF_CB_ABORT;
    }
    if (stack.depth >= kMaxDepth) {
      stack.end = WalkEnd::too_deep;
      return DWARF_CB_ABORT;
    }
    const NativeFrame found{stack.depth, pc, stack.depth != 0 && !is_activation, {}};
    ++stack.depth;
    if (stack.frames.size() < limits.innermost) {
      stack.frames.push_back(found);
    } else if (limits.outermost != 0) {
      if (outermost.size() == limits.outermost) outermost.pop_front();
      outermost.push_back(found);
    }
    last_has_table = has_table(found.is_call ? pc - 1 : pc);
    return DWARF_CB_OK;
  }

  bool has_table(Address address) {
    const auto known = tables.find(address);
    if (known != tables.end()) return known->second;
    bool found = false;
    if (Dwfl_Module* module = dwfl_addrmodule(dwfl.get(), address)) {
      Dwarf_Addr bias = 0;
      Dwarf_CFI* tables_of_module = dwfl_module_eh_cfi(module, &bias);
      found = covers(tables_of_module, address - bias);
      if (!found) {
        tables_of_module = dwfl_module_dwarf_cfi(module, &bias);
        found = covers(tables_of_module, address - bias);
      }
    }
    tables.emplace(address, found);
    return found;
  }

  static bool covers(Dwarf_CFI* cfi, Address address) {
    Dwarf_Frame* rules = nullptr;
    if (cfi == nullptr || dwarf_cfi_addrframe(cfi, address, &rules) != 0) return false;
    const LibdwArray<Dwarf_Frame> owner(rules);
    return true;
  }

  NativeStack walk(const ThreadState& from, const FrameLimits& kept) {
    state = &from;
    limits = kept;
    stack = {};
    outermost.clear();
    last_has_table = true;
    met_no_memory = false;
    dwfl_getthread_frames(dwfl.get(), kTheThread, take_frame, this);
    state = nullptr;
    if (stack.end != WalkEnd::too_deep) {
      stack.end = !last_has_table ? WalkEnd::no_table
                  : met_no_memory ? WalkEnd::no_memory
                                  : WalkEnd::outermost;
    }
    stack.frames.insert(stack.frames.end(), outermost.begin(), outermost.end());
    for (NativeFrame& frame : stack.frames) {
      frame.function = function_at(frame.is_call ? frame.pc - 1 : frame.pc);
    }
    return std::move(stack);
  }

  std::string function_at(Address address) {
    Dwfl_Module* module = dwfl_addrmodule(dwfl.get(), address);
    Dwarf_Addr bias = 0;
    if (module == nullptr || dwfl_module_getelf(module, &bias) == nullptr) return {};
    const auto* entry = static_cast<const Mapped*>(*kept_of(module));
    if (entry == nullptr) return {};
    for (const std::string* path : {&entry->file.debug_path, &entry->file.path}) {
      if (path->empty()) continue;
      try {
        const FunctionSymbol* found = opened->open(*path)->function_at(address - bias);
        if (found != nullptr) return demangled(found->name);
      } catch (const std::exception&) {
        continue;  // gone meanwhile: no name
      }
    }
    return {};
  }

  // The lines.

  std::vector<LineOf> lines_of(Address address) {
    std::vector<LineOf> lines;
    Dwfl_Module* module = dwfl_addrmodule(dwfl.get(), address);
    if (module == nullptr) return lines;
    Dwarf_Addr bias = 0;
    Dwarf_Die* unit = unit_of(module, address, bias);
    if (unit == nullptr) return lines;
    LineOf place;
    if (Dwarf_Line* line = dwarf_getsrc_die(unit, address - bias)) {
      place.file = whole_path(unit, dwarf_linesrc(line, nullptr, nullptr));
      dwarf_lineno(line, &place.line);
      dwarf_linecol(line, &place.column);
    }
    Dwarf_Die* around = nullptr;
    const int count = dwarf_getscopes(unit, address - bias, &around);
    const LibdwArray<Dwarf_Die> owner(count > 0 ? around : nullptr);
    Dwarf_Die* innermost = std::find_if(around, around + std::max(count, 0),
                                        [](Dwarf_Die& die) { return is_call_scope(&die); });
    if (count <= 0 || innermost == around + count) {
      if (!place.file.empty()) lines.push_back(place);
      return lines;
    }
    // Scopes by address end at the abstract function; those of the entry are the real callers.
    Dwarf_Die* chain = nullptr;
    const int length = dwarf_getscopes_die(innermost, &chain);
    const LibdwArray<Dwarf_Die> chain_owner(length > 0 ? chain : nullptr);
    for (Dwarf_Die* scope = chain; length > 0 && scope != chain + length; ++scope) {
      if (!is_call_scope(scope) || lines.size() >= kMaxInlined) continue;
      place.function = name_of(scope);
      lines.push_back(place);
      if (dwarf_tag(scope) == DW_TAG_subprogram) break;
      place = call_site(unit, scope);
    }
    return lines;
  }

  /// The compilation unit that covers an address; clang writes no table of address ranges.
  Dwarf_Die* unit_of(Dwfl_Module* module, Address address, Dwarf_Addr& bias) {
    if (Dwarf_Die* unit = dwfl_module_addrdie(module, address, &bias)) return unit;
    Dwarf_Die* unit = nullptr;
    while ((unit = dwfl_module_nextcu(module, unit, &bias)) != nullptr) {
      if (dwarf_haspc(unit, address - bias) == 1) return unit;
    }
    return nullptr;
  }

  CoreMemory memory;
  std::vector<Mapped> mapped;
  std::shared_ptr<ElfFiles> opened;
  std::unique_ptr<Elf, EndElf> elf;
  std::unique_ptr<Dwfl, EndDwfl> dwfl;
  std::unordered_map<Address, bool> tables;

  const ThreadState* state = nullptr;
  FrameLimits limits;
  NativeStack stack;
  std::deque<NativeFrame> outermost;
  bool last_has_table = true;
  bool met_no_memory = false;
};

CoreStacks::CoreStacks(const std::string& core, std::vector<MappedFile> files,
                       std::shared_ptr<ElfFiles> opened)
    : session_(std::make_unique<Session>(core, std::move(files), std::move(opened))) {}

CoreStacks::~CoreStacks() = default;

NativeStack CoreStacks::walk(const ThreadState& state, const FrameLimits& limits) {
  return session_->walk(state, limits);
}

std::vector<LineOf> CoreStacks::lines_of(Address pc, bool is_call) {
  return session_->lines_of(is_call ? pc - 1 : pc);
}

}  // namespace forensics::unwinder
