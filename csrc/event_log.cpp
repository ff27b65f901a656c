#include "event_log.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

namespace vllm {

namespace {

constexpr unsigned kKeep = 1U;
constexpr unsigned kPrint = 2U;

std::atomic<std::uint64_t> current_step{0};

/// The events kept, and what guards them. Never destroyed: threads may outlive static objects.
struct Store {
  std::mutex mutex;
  std::vector<Event> events;
};

Store& store() {
  static Store& instance = *std::make_unique<Store>().release();
  return instance;
}

/// One write(2), so lines of several threads never mix and nothing is left in a buffer at a crash.
void write_line(std::string text) noexcept {
  text += '\n';
  const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(ignored);  // There is nobody to tell that stderr is gone.
}

unsigned mode_from_environment() {
  const char* const wish = std::getenv("FORENSICS_TRACE");
  if (wish == nullptr || *wish == '\0') {
    return 0;
  }
  if (std::strcmp(wish, "stderr") == 0) {
    return kPrint;
  }
  write_line(std::string("forensics: FORENSICS_TRACE=") + wish + " is not known; use stderr");
  return 0;
}

/// Reads the environment once, before main.
[[maybe_unused]] const unsigned initial_mode =
    event_log::internal::mode.fetch_or(mode_from_environment());

}  // namespace

const char* name_of(EventKind kind) noexcept {
  switch (kind) {
    case EventKind::allocate:
      return "allocate";
    case EventKind::free:
      return "free";
    case EventKind::fork:
      return "fork";
    case EventKind::copy:
      return "copy";
    case EventKind::swap:
      return "swap";
    case EventKind::use:
      return "use";
  }
  return "unknown";
}

const char* name_of(Pool pool) noexcept { return pool == Pool::device ? "device" : "host"; }

namespace event_log {

void internal::append(const EventDetails& details, SourceLocation where) {
  Event event{details.kind,
              details.pool,
              details.block,
              details.source,
              details.generation,
              current_step.load(std::memory_order_relaxed),
              static_cast<std::int64_t>(::syscall(SYS_gettid)),
              where.file,
              where.line};
  const unsigned wanted = mode.load(std::memory_order_relaxed);
  if ((wanted & kPrint) != 0) {
    write_line("forensics: " + to_string(event));
  }
  if ((wanted & kKeep) != 0) {
    const std::scoped_lock lock(store().mutex);
    store().events.push_back(std::move(event));
  }
}

void enable() noexcept { internal::mode.fetch_or(kKeep); }

void disable() noexcept { internal::mode.fetch_and(~kKeep); }

bool enabled() noexcept { return (internal::mode.load() & kKeep) != 0; }

void clear() {
  const std::scoped_lock lock(store().mutex);
  store().events.clear();
}

std::vector<Event> events() {
  const std::scoped_lock lock(store().mutex);
  return store().events;
}

void set_step(std::uint64_t step) noexcept { current_step.store(step, std::memory_order_relaxed); }

std::string to_string(const Event& event) {
  std::string text = name_of(event.kind);
  text += std::string(" ") + name_of(event.pool) + " block " + std::to_string(event.block);
  if (event.source.has_value()) {
    text += " from " + std::to_string(*event.source);
  }
  text += " generation " + std::to_string(event.generation);
  text += " step " + std::to_string(event.step);
  text += " thread " + std::to_string(event.thread);
  text += " " + event.file + ":" + std::to_string(event.line);
  return text;
}

}  // namespace event_log

}  // namespace vllm
