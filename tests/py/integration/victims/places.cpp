// Where a fault can hide: other threads, callbacks, inlined code, another module.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "victim.h"

namespace victims {

namespace {

struct Item {
  std::int64_t weight;
  std::int64_t key;
};

struct Link {
  const Link* next;
  char padding[0x28];
  std::int64_t payloads[4];

  VICTIM_INLINE std::int64_t total() const {
    std::int64_t sum = 0;
    for (const auto payload : payloads) sum = HIDE(sum + payload);
    return sum;
  }
};

std::atomic<int> waiting{0};

}  // namespace

VICTIM_NOINLINE void write_in_thread(std::int64_t* target) {
  announce("tid", static_cast<std::uintptr_t>(syscall(SYS_gettid)));
  *target = HIDE(4);  // CRASH:write_in_thread
  sink = 1;
}

VICTIM(crash_in_second_thread) {
  std::thread worker(write_in_thread, pointer_to<std::int64_t>(0x28));
  worker.join();
  sink = 1;
}

VICTIM(crash_among_many_threads) {
  for (int i = 0; i < 6; ++i) {
    std::thread([] {
      ++waiting;
      for (;;) pause();
    }).detach();
  }
  while (waiting < 6) std::this_thread::yield();
  std::thread worker([] {
    pthread_setname_np(pthread_self(), "cache-writer");
    write_in_thread(pointer_to<std::int64_t>(0x123456789a00));
  });
  worker.join();
  sink = 1;
}

VICTIM_NOINLINE bool compare_items(const Item* left, const Item* right) {
  return left->key < right->key;  // CRASH:compare_items
}

VICTIM(crash_in_sort) {
  Item item{1, 2};
  std::vector<Item*> items(8, &item);
  items[HIDE(std::size_t{0})] = pointer_to<Item>(0);
  std::sort(items.begin(), items.end(), compare_items);
  sink = static_cast<std::uint64_t>(items[0]->key);
}

struct Reader {
  const Item* item;
  VICTIM_NOINLINE std::int64_t operator()(std::int64_t factor) const;
};

std::int64_t Reader::operator()(std::int64_t factor) const {
  return item->weight * factor;  // CRASH:crash_in_std_function
}

VICTIM(crash_in_std_function) {
  const std::function<std::int64_t(std::int64_t)> reader = Reader{pointer_to<Item>(0x123456789b00)};
  sink = static_cast<std::uint64_t>(reader(HIDE(std::int64_t{3})));
  sink = 1;
}

VICTIM_INLINE std::int64_t add_payloads(const Link* link, int count) {
  std::int64_t sum = 0;
  for (; count > 0; --count) {
    sum = HIDE(sum + link->payloads[0]);  // CRASH:add_payloads
    link = HIDE(link->next);
  }
  return sum;
}

VICTIM(crash_in_inlined_function) {
  Link first = {};
  const auto sum = add_payloads(HIDE(&first), HIDE(2));  // CRASH:crash_in_inlined_function
  sink = sum;
}

VICTIM(crash_in_inlined_member) {
  const auto* link = pointer_to<Link>(0);
  sink = link->total();  // CRASH:crash_in_inlined_member
  sink = 1;
}

namespace {

VICTIM_NOINLINE void call_plugin(const char* name) {
  void* plugin = dlopen("libvictim_plugin.so", RTLD_NOW);
  void* function = plugin != nullptr ? dlsym(plugin, name) : nullptr;
  if (function == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::_Exit(4);
  }
  reinterpret_cast<void (*)()>(function)();
  sink = 1;
}

}  // namespace

VICTIM(plugin_exported) {
  call_plugin("run_exported");
  sink = 1;
}

VICTIM(plugin_hidden) {
  call_plugin("run_hidden");
  sink = 1;
}

VICTIM(plugin_double_free) {
  call_plugin("run_double_free");
  sink = 1;
}

VICTIM(plugin_exception) {
  call_plugin("run_exception");
  sink = 1;
}

}  // namespace victims
