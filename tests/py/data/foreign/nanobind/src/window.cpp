#include <nanobind/nanobind.h>

namespace {

// The window's last place is one past its end.
int last_of(int size) {
  int window[8] = {};
  for (int i = 0; i < size; ++i) {
    window[i & 7] = i;
  }
  volatile int end = size;
  return window[end];
}

}  // namespace

NB_MODULE(window, module) { module.def("last_of", &last_of); }
