#ifndef VLLM_FORENSICS_SUPERVISOR_PROC_FILES_H_
#define VLLM_FORENSICS_SUPERVISOR_PROC_FILES_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace forensics {

/// One mapping of a process, as /proc/PID/smaps (proc(5)) tells it.
struct MemoryMap {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;  // bytes
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  bool never_read = false;    // MADV_DONTDUMP, or a device's memory
  bool has_own_pages = true;  // pages that differ from the file: relocated, written
  std::string path;           // empty: anonymous; "[stack]" and its kin; ends in " (deleted)"
};

/// Is there a file behind it (not "[heap]", not anonymous)?
[[nodiscard]] bool is_file_backed(const MemoryMap& map);

/// Is its content in no file of this machine: shared memory, memfd, a deleted file?
[[nodiscard]] bool is_memory_only(const MemoryMap& map);

/// The four signal masks of /proc/TID/status; bit n - 1 is signal n.
struct SignalMasks {
  std::uint64_t pending = 0;
  std::uint64_t blocked = 0;
  std::uint64_t ignored = 0;
  std::uint64_t caught = 0;
};

/// What /proc/PID/stat holds that a core's notes need.
struct ProcessStat {
  std::string name;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  std::uint64_t flags = 0;
  std::uint64_t user_ticks = 0;
  std::uint64_t system_ticks = 0;
  long nice = 0;
  std::uint64_t arguments_start = 0;
  std::uint64_t arguments_end = 0;
  std::uint64_t environment_start = 0;
  std::uint64_t environment_end = 0;
};

/// The whole file, or nothing when it cannot be read.
[[nodiscard]] std::optional<std::string> read_file(const std::string& path);

/// Every mapping, lowest first. Falls back to /proc/PID/maps, which does not know MADV_DONTDUMP:
/// then every mapping that is neither file nor stack nor heap is never read.
/// Throws std::runtime_error when neither can be read.
[[nodiscard]] std::vector<MemoryMap> read_maps(pid_t pid);

/// Parses the text of smaps or maps.
[[nodiscard]] std::vector<MemoryMap> parse_maps(std::string_view text);

[[nodiscard]] std::optional<SignalMasks> read_signal_masks(pid_t tid);
[[nodiscard]] std::optional<ProcessStat> read_stat(pid_t pid);

/// The thread group and the parent of a thread.
struct Kinship {
  pid_t process = 0;
  pid_t parent = 0;
};
[[nodiscard]] std::optional<Kinship> read_kinship(pid_t tid);

/// The arguments of a process; empty where there are none to read.
[[nodiscard]] std::vector<std::string> read_arguments(pid_t pid);

/// How many processes the OOM killer ended in this process's memory cgroup (v2 memory.events, v1
/// memory.oom_control); nothing where neither is readable.
[[nodiscard]] std::optional<std::uint64_t> read_oom_kills();

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_PROC_FILES_H_
