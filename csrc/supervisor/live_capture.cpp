#include "supervisor/live_capture.h"

#include <fcntl.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <stdexcept>

#include "supervisor/core_selector.h"
#include "supervisor/minicore_writer.h"
#include "supervisor/proc_files.h"
#include "supervisor/redactor.h"
#include "supervisor/selection_note.h"

namespace forensics {
namespace {

constexpr std::uint64_t kSnapshotStack = 4096;
constexpr std::uint64_t kRedZone = 128;
constexpr std::size_t kHandlerSearch = std::size_t{256} << 10U;

/// Every thread with what is known of it, the crashing one first.
struct LiveThread {
  pid_t tid;
  ThreadRegisters registers;
};

struct Identity {
  ProcessStat stat;
  std::string first_argument;
  std::string arguments;
  uid_t user = 0;
  gid_t group = 0;
};

std::string proc_folder(pid_t pid) { return "/proc/" + std::to_string(pid); }

template <typename Number>
void set_time(Number& time, std::uint64_t ticks) {
  const auto per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  time.tv_sec = static_cast<decltype(time.tv_sec)>(ticks / per_second);
  time.tv_usec = static_cast<decltype(time.tv_usec)>(ticks % per_second * 1'000'000 / per_second);
}

/// elf_prstatus as the kernel's fill_prstatus() makes it.
elf_prstatus make_status(const LiveThread& thread, const ProcessStat& process, int signal) {
  elf_prstatus status{};
  const std::optional<SignalMasks> masks = read_signal_masks(thread.tid);
  const std::optional<ProcessStat> own = read_stat(thread.tid);
  status.pr_info.si_signo = signal;
  status.pr_cursig = static_cast<short>(signal);
  if (masks) {
    status.pr_sigpend = masks->pending;
    status.pr_sighold = masks->blocked;
  }
  status.pr_pid = thread.tid;
  status.pr_ppid = process.parent;
  status.pr_pgrp = process.group;
  status.pr_sid = process.session;
  if (own) {
    set_time(status.pr_utime, own->user_ticks);
    set_time(status.pr_stime, own->system_ticks);
  }
  status.pr_fpvalid = thread.registers.floating.empty() ? 0 : 1;
  std::memcpy(&status.pr_reg, thread.registers.general.data(),
              std::min(sizeof status.pr_reg, thread.registers.general.size()));
  return status;
}

elf_prpsinfo make_process_info(pid_t pid, const Identity& identity, bool include_secrets) {
  elf_prpsinfo info{};
  const ProcessStat& stat = identity.stat;
  info.pr_sname = 'R';  // as the kernel's core has it: not the tracing stop that it is in
  info.pr_nice = static_cast<char>(stat.nice);
  info.pr_flag = stat.flags;
  info.pr_uid = identity.user;
  info.pr_gid = identity.group;
  info.pr_pid = pid;
  info.pr_ppid = stat.parent;
  info.pr_pgrp = stat.group;
  info.pr_sid = stat.session;
  const auto copy = [](char* target, std::size_t size, const std::string& text) {
    std::copy_n(text.data(), std::min(text.size(), size - 1), target);  // zeroes follow already
  };
  copy(info.pr_fname, sizeof info.pr_fname, stat.name);
  copy(info.pr_psargs, sizeof info.pr_psargs,
       include_secrets ? identity.arguments : identity.first_argument);
  return info;
}

/// NT_FILE: a table of ranges in pages, then the names (the kernel's fill_files_note()).
std::vector<std::byte> make_files_note(const std::vector<MemoryMap>& maps) {
  std::vector<std::uint64_t> table(2);
  std::string names;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  for (const MemoryMap& map : maps) {
    if (is_file_backed(map)) {
      table.insert(table.end(), {map.start, map.end, map.file_offset / page});
      names += map.path;
      names += '\0';
    }
  }
  table[0] = (table.size() - 2) / 3;
  table[1] = page;
  std::vector<std::byte> note(table.size() * sizeof(std::uint64_t) + names.size());
  std::memcpy(note.data(), table.data(), table.size() * sizeof(std::uint64_t));
  std::memcpy(note.data() + table.size() * sizeof(std::uint64_t), names.data(), names.size());
  return note;
}

/// `alive` is one of the process's threads: of one whose first thread has ended, /proc/PID says
/// neither where its arguments and environment lie nor what is mapped, but /proc/TID does.
Identity identify(pid_t pid, pid_t alive) {
  Identity identity;
  identity.stat = read_stat(alive).value_or(ProcessStat{});
  if (const std::optional<ProcessStat> first = read_stat(pid)) {
    identity.stat.name = first->name;
  }
  for (const std::string& argument : read_arguments(alive)) {
    if (identity.first_argument.empty()) {
      identity.first_argument = argument;
    }
    identity.arguments += (identity.arguments.empty() ? "" : " ") + argument;
  }
  struct stat state{};
  if (::stat(proc_folder(pid).c_str(), &state) == 0) {
    identity.user = state.st_uid;
    identity.group = state.st_gid;
  }
  return identity;
}

std::vector<LiveThread> gather_threads(const DyingProcess& process) {
  std::vector<LiveThread> threads;
  std::optional<ThreadRegisters> crashed = process.snapshot != nullptr
                                               ? std::make_optional(process.snapshot->registers)
                                               : read_registers(process.crashed);
  if (!crashed) {
    throw std::runtime_error("the registers of thread " + std::to_string(process.crashed) +
                             " cannot be read");
  }
  threads.push_back({process.crashed, std::move(*crashed)});
  for (const pid_t tid : process.others) {
    if (std::optional<ThreadRegisters> registers = read_registers(tid)) {
      threads.push_back({tid, std::move(*registers)});
    }
  }
  return threads;
}

void add_registers(NoteBuilder& notes, const ThreadRegisters& registers) {
  if (!registers.floating.empty()) {
    notes.add("CORE", NT_FPREGSET, registers.floating);
  }
  if (!registers.extended.empty()) {
    notes.add("LINUX", kExtendedNote, registers.extended);
  }
}

std::vector<std::byte> read_auxv(pid_t pid) {
  const std::string text = read_file(proc_folder(pid) + "/auxv").value_or("");
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

Redactor make_redactor(const ProcessStat& stat, const ProcessImage& image) {
  const MemoryReader& memory = *image.memory;
  Redactor redactor;
  const auto read_block = [&](std::uint64_t start, std::uint64_t end) {
    constexpr std::uint64_t kLargest = std::uint64_t{4} << 20U;
    std::string text(start < end ? std::min(end - start, kLargest) : 0, '\0');
    text.resize(memory.read(start, reinterpret_cast<std::byte*>(text.data()), text.size()));
    return text;
  };
  const std::string arguments = read_block(stat.arguments_start, stat.arguments_end);
  const std::size_t first_end = std::min(arguments.find('\0'), arguments.size());
  redactor.add_range(stat.arguments_start + first_end, stat.arguments_end);
  redactor.add_strings(std::string_view(arguments).substr(first_end));
  redactor.add_range(stat.environment_start, stat.environment_end);
  redactor.add_strings(read_block(stat.environment_start, stat.environment_end));
  redactor.prepare(image);
  return redactor;
}

/// core.NAME.PID.SECONDS: no two crashes of a machine share it, and a list sorts by program.
std::string core_path(const std::string& folder, const std::string& name, pid_t pid) {
  std::string safe = name.empty() ? "unknown" : name;
  for (char& letter : safe) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '/' || code <= ' ' || code == 0x7F) {
      letter = '_';
    }
  }
  return folder + "/core." + safe + "." + std::to_string(pid) + "." +
         std::to_string(std::time(nullptr));
}

bool has_address(const siginfo_t& signal) {
  return signal.si_code > 0 && signal.si_code != SI_KERNEL &&
         (signal.si_signo == SIGSEGV || signal.si_signo == SIGBUS || signal.si_signo == SIGILL ||
          signal.si_signo == SIGFPE || signal.si_signo == SIGTRAP);
}

}  // namespace

std::optional<FaultSnapshot> take_snapshot(pid_t process, pid_t tid, const siginfo_t& signal) {
  std::optional<ThreadRegisters> registers = read_registers(tid);
  if (!registers) {
    return std::nullopt;
  }
  FaultSnapshot snapshot;
  snapshot.signal = signal;
  snapshot.registers = std::move(*registers);
  snapshot.stack_start =
      (thread_state(tid, snapshot.registers).stack_pointer - kRedZone) & ~std::uint64_t{7};
  snapshot.stack.resize(kSnapshotStack);
  // Straight from the process: the other way, /proc/PID/mem, costs an open for each fault.
  snapshot.stack.resize(
      read_directly(process, snapshot.stack_start, snapshot.stack.data(), kSnapshotStack));
  return snapshot;
}

bool holds_signal_frame(const std::vector<std::byte>& stack, const FaultSnapshot& snapshot) {
  const ThreadState then = thread_state(0, snapshot.registers);
  // In the mcontext sp and pc stand side by side (sys/ucontext.h: x86-64 REG_RSP, REG_RIP; aarch64
  // sp, pc), and no code stores them so.
  const std::array<std::uint64_t, 2> pair{then.stack_pointer, then.program_counter};
  for (std::size_t at = 0; at + sizeof pair <= stack.size(); at += sizeof pair.front()) {
    if (std::memcmp(stack.data() + at, pair.data(), sizeof pair) == 0) {
      return true;
    }
  }
  return false;
}

bool is_same_place(const FaultSnapshot& first, const FaultSnapshot& second) {
  const ThreadState one = thread_state(0, first.registers);
  const ThreadState other = thread_state(0, second.registers);
  return one.program_counter == other.program_counter && one.stack_pointer == other.stack_pointer;
}

bool is_inside_handler(pid_t process, pid_t tid, const FaultSnapshot& snapshot) {
  FaultSnapshot now;
  std::optional<ThreadRegisters> registers = read_registers(tid);
  if (!registers) {
    return false;
  }
  now.registers = std::move(*registers);
  const std::uint64_t start =
      thread_state(tid, now.registers).stack_pointer & ~std::uint64_t{sizeof start - 1};
  now.stack.resize(kHandlerSearch);
  now.stack.resize(read_directly(process, start, now.stack.data(), now.stack.size()));
  return is_same_place(snapshot, now) || holds_signal_frame(now.stack, snapshot);
}

WrittenCore write_minicore(const DyingProcess& process, const CaptureOptions& options) {
  const pid_t alive = process.crashed;
  const ProcessMemory live(alive);
  static const std::vector<std::byte> kNothing;
  const FaultSnapshot* first = process.snapshot;
  const OverlaidMemory memory(live, first != nullptr ? first->stack_start : 0,
                              first != nullptr ? first->stack : kNothing);
  const siginfo_t& signal = first != nullptr ? first->signal : process.signal;
  const Identity identity = identify(process.pid, alive);
  std::vector<LiveThread> threads = gather_threads(process);
  const std::vector<std::byte> auxv = read_auxv(alive);

  ProcessImage image;
  image.memory = &memory;
  image.maps = read_maps(alive);
  for (const LiveThread& thread : threads) {
    image.threads.push_back(thread_state(thread.tid, thread.registers));
  }
  image.auxv.resize(auxv.size() / sizeof(Elf64_auxv_t));
  std::memcpy(image.auxv.data(), auxv.data(), image.auxv.size() * sizeof(Elf64_auxv_t));
  if (has_address(signal)) {
    image.fault_address = reinterpret_cast<std::uint64_t>(signal.si_addr);
  }
  const Selection selection = CoreSelector(image, {options.budget, options.everything}).select();

  const Redactor redactor =
      options.include_secrets ? Redactor() : make_redactor(identity.stat, image);
  NoteBuilder notes;
  for (LiveThread& thread : threads) {
    const elf_prstatus status = make_status(thread, identity.stat, signal.si_signo);
    notes.add("CORE", NT_PRSTATUS, &status, sizeof status);
    if (&thread == &threads.front()) {
      const elf_prpsinfo info = make_process_info(process.pid, identity, options.include_secrets);
      notes.add("CORE", NT_PRPSINFO, &info, sizeof info);
      notes.add("CORE", NT_SIGINFO, &signal, sizeof signal);
      notes.add("CORE", NT_AUXV, auxv);
      notes.add("CORE", NT_FILE, make_files_note(image.maps));
    }
    redactor.redact_registers(thread.registers.floating);
    redactor.redact_registers(thread.registers.extended);
    add_registers(notes, thread.registers);
  }
  SelectionNote own;
  own.budget = options.budget;
  own.secrets_included = options.include_secrets;
  own.first_signal = first != nullptr ? &first->signal : nullptr;
  own.last_signal = &process.signal;
  own.missing_threads = process.missing_threads;
  const std::string text = render_note(selection, own);
  notes.add(kNoteOwner, kNoteType, text.data(), text.size());

  WrittenCore core;
  core.path = core_path(options.folder, identity.stat.name, process.pid);
  core.bytes = write_core(core.path,
                          {kMachine, image.maps, notes.bytes(), selection.pages, memory, redactor});
  return core;
}

}  // namespace forensics
