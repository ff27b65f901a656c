#include "supervisor/proc_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <stdexcept>

#include "supervisor/unique_fd.h"

namespace forensics {
namespace {

/// Takes the text up to `separator` off the front, and the separator with it.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return taken;
}

std::uint64_t to_number(std::string_view text, int base) {
  return std::strtoull(std::string(text).c_str(), nullptr, base);
}

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

/// The kernel writes a newline in a path as \012, and nothing else of ours.
std::string unescape(std::string_view path) {
  constexpr std::string_view kNewline = "\\012";
  std::string text(path);
  for (std::size_t at = text.find(kNewline); at != std::string::npos;
       at = text.find(kNewline, at + 1)) {
    text.replace(at, kNewline.size(), "\n");
  }
  return text;
}

/// "7f10-7f20 r-xp 00000000 08:01 1234      /usr/lib/x.so"
MemoryMap parse_header(std::string_view line) {
  MemoryMap map;
  map.start = to_number(take_until(line, '-'), 16);
  map.end = to_number(take_until(line, ' '), 16);
  const std::string_view flags = take_until(line, ' ');
  if (flags.size() >= 4) {
    map.readable = flags[0] == 'r';
    map.writable = flags[1] == 'w';
    map.executable = flags[2] == 'x';
    map.shared = flags[3] == 's';
  }
  map.file_offset = to_number(take_until(line, ' '), 16);
  take_until(line, ' ');  // device
  take_until(line, ' ');  // inode
  const std::size_t path = line.find_first_not_of(' ');
  map.path = path == std::string_view::npos ? std::string() : unescape(line.substr(path));
  return map;
}

void parse_field(std::string_view line, MemoryMap& map) {
  if (starts_with(line, "Anonymous:")) {
    line.remove_prefix(line.find(':') + 1);
    map.has_own_pages = to_number(line, 10) != 0;
  } else if (starts_with(line, "VmFlags:")) {
    line.remove_prefix(line.find(':') + 1);
    while (!line.empty()) {
      const std::string_view flag = take_until(line, ' ');
      // dd: MADV_DONTDUMP; io and pf: a device, whose registers may change when they are read.
      if (flag == "dd" || flag == "io" || flag == "pf") {
        map.never_read = map.never_read || map.path != "[vdso]";
      }
    }
  }
}

std::string proc_path(pid_t pid, std::string_view name) {
  return "/proc/" + std::to_string(pid) + "/" + std::string(name);
}

/// The number behind "Name:" in a file of such lines.
std::optional<std::uint64_t> find_field(std::string_view text, std::string_view name, int base) {
  while (!text.empty()) {
    std::string_view line = take_until(text, '\n');
    if (starts_with(line, name)) {
      line.remove_prefix(name.size());
      return to_number(line, base);
    }
  }
  return std::nullopt;
}

}  // namespace

bool is_file_backed(const MemoryMap& map) { return !map.path.empty() && map.path.front() == '/'; }

bool is_memory_only(const MemoryMap& map) {
  return starts_with(map.path, "/dev/shm/") || starts_with(map.path, "/memfd:") ||
         starts_with(map.path, "/SYSV") || starts_with(map.path, "/dev/zero") ||
         ends_with(map.path, " (deleted)");
}

std::optional<std::string> read_file(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    return std::nullopt;
  }
  std::string text;
  std::size_t step = 4096;
  for (;;) {
    const std::size_t had = text.size();
    text.resize(had + step);
    const ssize_t got = ::read(file.get(), text.data() + had, step);
    step = std::min<std::size_t>(step * 2, std::size_t{1} << 20U);
    if (got < 0 && errno == EINTR) {
      text.resize(had);
      continue;
    }
    text.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0) {
      return std::nullopt;
    }
    if (got == 0) {
      return text;
    }
  }
}

std::vector<MemoryMap> parse_maps(std::string_view text) {
  std::vector<MemoryMap> maps;
  while (!text.empty()) {
    const std::string_view line = take_until(text, '\n');
    if (line.empty()) {
      continue;
    }
    if (line.front() >= 'A' && line.front() <= 'Z') {
      if (!maps.empty()) {
        parse_field(line, maps.back());
      }
    } else {
      maps.push_back(parse_header(line));
    }
  }
  return maps;
}

std::vector<MemoryMap> read_maps(pid_t pid) {
  const std::optional<std::string> full = read_file(proc_path(pid, "smaps"));
  if (full && full->find("VmFlags:") != std::string::npos) {
    return parse_maps(*full);
  }
  const std::optional<std::string> plain = read_file(proc_path(pid, "maps"));
  if (!plain || plain->empty()) {
    throw std::runtime_error("the memory map of process " + std::to_string(pid) +
                             " cannot be read");
  }
  std::vector<MemoryMap> maps = parse_maps(*plain);
  for (MemoryMap& map : maps) {
    map.never_read = map.path.empty() || map.path == "[vvar]" || starts_with(map.path, "/dev/");
  }
  return maps;
}

std::optional<SignalMasks> read_signal_masks(pid_t tid) {
  const std::optional<std::string> text = read_file(proc_path(tid, "status"));
  if (!text || text->find("SigCgt:") == std::string::npos) {
    return std::nullopt;
  }
  SignalMasks masks;
  masks.pending = find_field(*text, "SigPnd:", 16).value_or(0);
  masks.blocked = find_field(*text, "SigBlk:", 16).value_or(0);
  masks.ignored = find_field(*text, "SigIgn:", 16).value_or(0);
  masks.caught = find_field(*text, "SigCgt:", 16).value_or(0);
  return masks;
}

std::optional<ProcessStat> read_stat(pid_t pid) {
  const std::optional<std::string> text = read_file(proc_path(pid, "stat"));
  if (!text) {
    return std::nullopt;
  }
  // The name may hold spaces and brackets: the last bracket ends it.
  const std::size_t open = text->find('(');
  const std::size_t close = text->rfind(')');
  if (open == std::string::npos || close == std::string::npos || close + 2 > text->size()) {
    return std::nullopt;
  }
  ProcessStat stat;
  stat.name = text->substr(open + 1, close - open - 1);
  std::string_view rest = std::string_view(*text).substr(close + 2);
  std::array<std::uint64_t, 52> field{};  // numbered from 1, as in proc(5)
  for (std::size_t number = 3; number < field.size() && !rest.empty(); ++number) {
    field.at(number) = to_number(take_until(rest, ' '), 10);
  }
  stat.parent = static_cast<pid_t>(field[4]);
  stat.group = static_cast<pid_t>(field[5]);
  stat.session = static_cast<pid_t>(field[6]);
  stat.flags = field[9];
  stat.user_ticks = field[14];
  stat.system_ticks = field[15];
  stat.nice = static_cast<long>(field[19]);
  stat.arguments_start = field[48];
  stat.arguments_end = field[49];
  stat.environment_start = field[50];
  stat.environment_end = field[51];
  return stat;
}

std::optional<Kinship> read_kinship(pid_t tid) {
  const std::optional<std::string> text = read_file(proc_path(tid, "status"));
  if (!text) {
    return std::nullopt;
  }
  Kinship kin;
  kin.process = static_cast<pid_t>(find_field(*text, "Tgid:", 10).value_or(0));
  kin.parent = static_cast<pid_t>(find_field(*text, "PPid:", 10).value_or(0));
  return kin.process == 0 ? std::nullopt : std::make_optional(kin);
}

std::vector<std::string> read_arguments(pid_t pid) {
  const std::string text = read_file(proc_path(pid, "cmdline")).value_or("");
  std::vector<std::string> arguments;
  std::string_view rest = text;
  while (!rest.empty()) {
    arguments.emplace_back(take_until(rest, '\0'));
  }
  return arguments;
}

std::optional<std::uint64_t> read_oom_kills() {
  const std::string groups = read_file("/proc/self/cgroup").value_or("");
  std::string_view rest = groups;
  while (!rest.empty()) {
    std::string_view line = take_until(rest, '\n');  // "0::/path" or "9:memory:/path"
    take_until(line, ':');
    const std::string_view controllers = take_until(line, ':');
    const bool v2 = controllers.empty();
    if (!v2 && controllers != "memory") {
      continue;
    }
    const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const std::string name = v2 ? "/memory.events" : "/memory.oom_control";
    // In a container the group's own files lie at the root of what is mounted.
    for (const std::string& folder : {root + std::string(line), root}) {
      const std::optional<std::string> text = read_file(folder + name);
      const auto count = text ? find_field(*text, "oom_kill ", 10) : std::nullopt;
      if (count) {
        return count;
      }
    }
  }
  return std::nullopt;
}

}  // namespace forensics
