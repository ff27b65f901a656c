// A crash with a second thread, for what systemd-coredump says of it.
#include <chrono>
#include <thread>

namespace cache {
struct Block {
  int tokens[20];
  int count;
};
[[gnu::noinline]] int read_block(Block* volatile block) { return block->count; }
[[gnu::noinline]] int execute_step(Block* block) {
  const int found = read_block(block);
  asm volatile("");  // not a tail call: its caller stays on the stack
  return found + 1;
}
}  // namespace cache

int main() {
  std::thread([] { std::this_thread::sleep_for(std::chrono::hours(1)); }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return cache::execute_step(nullptr);
}
