// One fault a run, chosen by the first argument: what each sanitizer finds, behind inlined calls.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#ifdef WITH_LIBRARY
extern "C" void overflow_in_library(int count);
#endif

namespace app {

struct Pool {
  int* items = nullptr;
  inline int get(int i) const { return items[i]; }
  inline void grow(int count) { items = new int[count](); }
};

inline int total(const Pool& pool, int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) {
    sum += pool.get(i);
  }
  return sum;
}

template <typename T>
__attribute__((noinline)) int use_after_free(T count) {
  Pool pool;
  pool.grow(8);
  auto drop = [&pool](int) { delete[] pool.items; };
  drop(count);
  return total(pool, count);
}

int shared_counter;
inline void bump() { shared_counter++; }
__attribute__((noinline)) void work() {
  for (int i = 0; i < 1000; ++i) {
    bump();
  }
}

inline int add(int left, int right) { return left + right; }
__attribute__((noinline)) int overflow(int by) { return add(0x7fffffff, by); }

inline bool is_set(const int* value) { return *value > 3; }
__attribute__((noinline)) int uninitialized(int count) {
  int* values = new int[16];
  values[0] = count;
  const bool set = is_set(values + count);
  if (set) {
    std::puts("set");
  }
  delete[] values;
  return set ? 1 : 0;
}

void race() {
  std::thread one(work);
  std::thread two(work);
  one.join();
  two.join();
}

}  // namespace app

int main(int argc, char** argv) {
  const char* fault = argc > 1 ? argv[1] : "";
  if (std::strcmp(fault, "use-after-free") == 0) {
    std::printf("%d\n", app::use_after_free<int>(argc));
  }
  if (std::strcmp(fault, "race") == 0) {
    app::race();
  }
  if (std::strcmp(fault, "overflow") == 0) {
    return app::overflow(argc);
  }
  if (std::strcmp(fault, "uninitialized") == 0) {
    return app::uninitialized(argc);
  }
#ifdef WITH_LIBRARY
  if (std::strcmp(fault, "library") == 0) {
    overflow_in_library(argc + 15);
  }
#endif
  return 0;
}
