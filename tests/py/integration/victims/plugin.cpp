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

namespace victim_plugin {

volatile std::int64_t sink = 0;

template <typename T>
inline __attribute__((always_inline)) T hide(T value) {
  asm volatile("" : "+r"(value) : : "memory");
  return value;
}

struct Table {
  char padding[0x100];
  std::int64_t entry;
};

PLUGIN_NOINLINE std::int64_t read_entry(const Table* table) {
  return table->entry;  // CRASH:plugin_exported
}

PLUGIN_HIDDEN PLUGIN_NOINLINE void write_entry(Table* table) {
  table->entry = hide(1);  // CRASH:plugin_hidden
  sink = 1;
}

PLUGIN_HIDDEN PLUGIN_NOINLINE void release(void* block) {
  std::free(block);  // CRASH:plugin_double_free
  sink = 1;
}

PLUGIN_NOINLINE void reject(int id) {
  if (hide(id) > 0) throw std::out_of_range("entry 9 of 4");  // CRASH:plugin_exception
  sink = 1;
}

}  // namespace victim_plugin

extern "C" {

void run_exported() {
  victim_plugin::sink =
      victim_plugin::read_entry(victim_plugin::hide<victim_plugin::Table*>(nullptr));
  victim_plugin::sink = 1;
}

void run_hidden() {
  victim_plugin::write_entry(
      reinterpret_cast<victim_plugin::Table*>(victim_plugin::hide(std::uintptr_t{0x123456780000})));
  victim_plugin::sink = 1;
}

void run_double_free() {
  void* block = victim_plugin::hide(std::malloc(64));
  victim_plugin::release(block);
  victim_plugin::release(victim_plugin::hide(block));
  victim_plugin::sink = 1;
}

void run_exception() {
  victim_plugin::reject(victim_plugin::hide(9));
  victim_plugin::sink = 1;
}
}
