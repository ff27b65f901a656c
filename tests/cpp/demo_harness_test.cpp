#include "demo_harness.h"

#include <sstream>

// The harness has macros of GoogleTest's names; from here on GoogleTest's are meant.
#undef TEST
#undef EXPECT_EQ
#include <gtest/gtest.h>

namespace {

struct Outcome {
  int status;
  std::string text;
};

template <typename... Arguments>
Outcome run(Arguments... arguments) {
  const char* const line[] = {"minimal_demo", arguments...};
  std::ostringstream output;
  const int status = demo::run(sizeof...(arguments) + 1, line, output);
  return {status, output.str()};
}

TEST(DemoHarness, ListsEveryFaultUnderItsSuite) {
  const Outcome outcome = run("--gtest_list_tests");

  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.text,
            "NullDereference.\n  ResetThenCopy\n"
            "UseAfterFree.\n  StalePointer\n"
            "DoubleFree.\n  BorrowedBytesAdopted\n"
            "HeapOverflow.\n  LastBlockPlusOne\n"
            "IndexPastRedzone.\n  SlotInUnownedBlock\n"
            "IdShift.\n  EraseMovesNeighbours\n"
            "UncaughtException.\n  CopyOutOfRange\n"
            "DataRace.\n  FreeWhileCopying\n"
            "StackOverflow.\n  EvictionAllocates\n"
            "DivideByZero.\n  NoHeadsOnThisRank\n"
            "Abort.\n  FreedTwiceFailsTheCheck\n");
}

TEST(DemoHarness, FilterHasStarsQuestionMarksColonsAndAMinus) {
  EXPECT_EQ(run("--gtest_list_tests", "--gtest_filter=D*-*.F*:").text,
            "DoubleFree.\n  BorrowedBytesAdopted\nDivideByZero.\n  NoHeadsOnThisRank\n");
  EXPECT_EQ(run("--gtest_list_tests", "--gtest_filter=Abor?.*:IdShift*").text,
            "IdShift.\n  EraseMovesNeighbours\nAbort.\n  FreedTwiceFailsTheCheck\n");
  EXPECT_EQ(run("--gtest_list_tests", "--gtest_filter=*Copy*").text,
            "NullDereference.\n  ResetThenCopy\nUncaughtException.\n  CopyOutOfRange\n"
            "DataRace.\n  FreeWhileCopying\n");
}

TEST(DemoHarness, AFilterThatMatchesNothingIsAMistake) {
  const Outcome outcome = run("--gtest_filter=Nothing.*");

  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.text.find("no test matches"), std::string::npos);
}

TEST(DemoHarness, UnknownArgumentsAreNamedWithTheHelp) {
  const Outcome outcome = run("--gtest_repeat=3");

  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.text.find("unknown argument: --gtest_repeat=3"), std::string::npos);
  EXPECT_NE(outcome.text.find("--gtest_filter"), std::string::npos);
}

TEST(DemoHarness, HelpSaysThatATestMayDie) {
  const Outcome outcome = run("--help");

  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.text.find("the first death ends the run"), std::string::npos);
}

TEST(DemoHarness, AFaultOfValueFailsWithStatusOne) {
  const Outcome outcome = run("--gtest_filter=IdShift.*");

  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.text.find("[  FAILED  ] IdShift.EraseMovesNeighbours"), std::string::npos);
}

}  // namespace
