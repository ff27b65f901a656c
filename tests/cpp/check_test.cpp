#include "check.h"

#include <gtest/gtest.h>

#include <csignal>

namespace {

TEST(Check, TrueConditionIsEvaluatedOnceAndPasses) {
  int evaluated = 0;

  FORENSICS_CHECK(++evaluated == 1);

  EXPECT_EQ(evaluated, 1);
}

TEST(Check, FailurePrintsPlaceAndConditionAndAborts) {
  EXPECT_EXIT(FORENSICS_CHECK(1 + 1 == 3), testing::KilledBySignal(SIGABRT),
              "tests/cpp/check_test.cpp:[0-9]+: .*: check failed: 1 \\+ 1 == 3");
}

}  // namespace
