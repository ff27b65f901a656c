#ifndef VLLM_FORENSICS_EVENT_LOG_H_
#define VLLM_FORENSICS_EVENT_LOG_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vllm {

/// Index of a block in its pool. Signed, because a wrong one is often negative.
using BlockId = std::int64_t;

/// Serial number of one life of a block: unique in its allocator, from 1 up; 0 is "none".
using Generation = std::uint64_t;

/// Which allocator a block belongs to; ids are counted from 0 in each.
enum class Pool : std::uint8_t { device, host };

/// What happened to a block.
enum class EventKind : std::uint8_t { allocate, free, fork, copy, swap, use };

/// A line of source; `file` has static storage.
struct SourceLocation {
  const char* file;
  std::uint32_t line;

  /// The line that calls this; as a default argument, the line of the call it completes.
  static constexpr SourceLocation here(const char* file = __builtin_FILE(),
                                       std::uint32_t line = __builtin_LINE()) noexcept {
    return {file, line};
  }
};

/// One entry of the event log.
struct Event {
  EventKind kind;
  Pool pool;
  BlockId block;                  ///< the block it happened to; of a copy or swap, the target
  std::optional<BlockId> source;  ///< of a copy or swap: the block that was read
  Generation generation;          ///< the life of `block` at that time; 0 if it had none
  std::uint64_t step;             ///< the worker's step, 0 before the first
  std::int64_t thread;            ///< kernel thread id, as in a core's notes
  std::string file;
  std::uint32_t line;
};

/// What the caller of `record` knows; the log adds step and thread.
struct EventDetails {
  EventKind kind;
  Pool pool;
  BlockId block;
  std::optional<BlockId> source;
  Generation generation;
};

/// The process's log of block events. Off by default; then an event costs one relaxed load.
///
/// With `FORENSICS_TRACE=stderr` in the environment every event is also written to stderr as it
/// happens, unbuffered, one line each, so the last line before a crash is the last event.
/// All functions are safe to call from any thread.
namespace event_log {

namespace internal {
/// Bit 0: keep events; bit 1: print them.
inline std::atomic<unsigned> mode{0};
void append(const EventDetails& details, SourceLocation where);
}  // namespace internal

/// Whether anybody wants events.
[[nodiscard]] inline bool active() noexcept {
  return internal::mode.load(std::memory_order_relaxed) != 0;
}

/// Starts to keep events in memory; they are not bounded, so clear or disable in long runs.
void enable() noexcept;

/// Stops keeping events; those kept stay. Printing goes on if the environment asked for it.
void disable() noexcept;

/// Whether events are kept.
[[nodiscard]] bool enabled() noexcept;

/// Forgets the events kept so far.
void clear();

/// A copy of the events kept so far, oldest first.
[[nodiscard]] std::vector<Event> events();

/// Sets the step that later events carry.
void set_step(std::uint64_t step) noexcept;

/// One line of text without its end: `copy device block 1 from 0 generation 2 step 3 thread 42
/// csrc/cache.cpp:88`.
[[nodiscard]] std::string to_string(const Event& event);

/// Notes one event, if the log is active.
inline void record(const EventDetails& details, SourceLocation where = SourceLocation::here()) {
  if (active()) {
    internal::append(details, where);
  }
}

}  // namespace event_log

/// The name of a kind, in lower case; static storage.
[[nodiscard]] const char* name_of(EventKind kind) noexcept;

/// The name of a pool, in lower case; static storage.
[[nodiscard]] const char* name_of(Pool pool) noexcept;

}  // namespace vllm

#endif  // VLLM_FORENSICS_EVENT_LOG_H_
