// libvictim_plugin.so: the culprit lives outside the executable.
#include <cstdint>
#include <cstdlib>
#include <stdexcept>

#if defined(__clang__)
#define PLUGIN_NOINLINE __attribute__((noinline))
#else
#define PLUGIN_NOINLINE __attribute__((noinline, noclone))
#endif
#define PLUGIN_HIDDEN __attribute__((visibility("hidden")))

// The value, of which the compiler now knows nothing. A macro, so that its line is the user's own.
#define HIDE(expression)                                \
  ({                                                    \
    auto hidden_value = (expression);                   \
    asm volatile("" : "+r"(hidden_value) : : "memory"); \
    hidden_value;                                       \
  })

namespace victim_plugin {

volatile std::int64_t sink = 0;

struct Table {
  char padding[0x100];
  std::int64_t entry;
};

PLUGIN_NOINLINE std::int64_t read_entry(const Table* table) {
  return table->entry;  // CRASH:plugin_exported
}

PLUGIN_HIDDEN PLUGIN_NOINLINE void write_entry(Table* table) {
  table->entry = HIDE(1);  // CRASH:plugin_hidden
  sink = 1;
}

PLUGIN_HIDDEN PLUGIN_NOINLINE void release(void* block) {
  std::free(block);  // CRASH:plugin_double_free
  sink = 1;
}

PLUGIN_NOINLINE void reject(int id) {
  if (HIDE(id) > 0) throw std::out_of_range("entry 9 of 4");  // CRASH:plugin_exception
  sink = 1;
}

}  // namespace victim_plugin

extern "C" {

void run_exported() {
  victim_plugin::sink =
      victim_plugin::read_entry(HIDE(static_cast<victim_plugin::Table*>(nullptr)));
  victim_plugin::sink = 1;
}

void run_hidden() {
  victim_plugin::write_entry(
      reinterpret_cast<victim_plugin::Table*>(HIDE(std::uintptr_t{0x123456780000})));
  victim_plugin::sink = 1;
}

void run_double_free() {
  void* block = HIDE(std::malloc(64));
  victim_plugin::release(block);
  victim_plugin::release(HIDE(block));
  victim_plugin::sink = 1;
}

void run_exception() {
  victim_plugin::reject(HIDE(9));
  victim_plugin::sink = 1;
}
}
