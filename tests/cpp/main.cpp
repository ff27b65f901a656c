#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/// Death tests die for real and must leave no core: the limit keeps files away, and "not dumpable"
/// a core_pattern that pipes to a program, which ignores the limit.
int main(int argc, char** argv) {
  const rlimit none{0, 0};
  if (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  // Not GTEST_FLAG_SET, which GoogleTest 1.11 (Ubuntu 22.04) lacks.
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  return RUN_ALL_TESTS();
}
