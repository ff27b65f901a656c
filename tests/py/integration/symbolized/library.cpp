// A shared library whose fault lies in what a caller inlined.
#include <cstdlib>

struct Block {
  char* data;
};

inline void fill(Block& block, int count) {
  for (int i = 0; i < count; ++i) {
    block.data[i] = static_cast<char>(i);
  }
}

static inline void fill_twice(Block& block, int count) {
  fill(block, count);
  fill(block, count);
}

char* last_block;  // seen from outside, so that no compiler leaves the block out

extern "C" __attribute__((noinline)) void overflow_in_library(int count) {
  Block block{static_cast<char*>(std::malloc(16))};
  last_block = block.data;
  fill_twice(block, count);
  std::free(block.data);
}
