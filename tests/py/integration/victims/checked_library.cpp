// A container that checks itself, as distributions build them.
#define _GLIBCXX_ASSERTIONS 1
#include <vector>

#include "victim.h"

namespace victims {

namespace {
struct Slot {
  std::int64_t value;
};
}  // namespace

VICTIM(library_assertion) {
  std::vector<Slot> slots(3);
  sink = slots[HIDE(std::size_t{8})].value;  // CRASH:library_assertion
  sink = 1;
}

}  // namespace victims
