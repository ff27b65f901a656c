#include <csignal>
#include <sstream>
#include <string>

#include "arena.h"
#include "support.h"

namespace demo {
// As in demo_harness.h, whose macros have GoogleTest's names.
int run(int argument_count, const char* const* arguments, std::ostream& output);
}  // namespace demo

namespace {

using test_support::sanitized_by;
using testing::ExitedWithCode;
using testing::KilledBySignal;

/// Runs one demo in this process and ends it with the demo's status.
[[noreturn]] void run_and_exit(const std::string& name) {
  const std::string filter = "--gtest_filter=" + name;
  const char* const line[] = {"minimal_demo", filter.c_str()};
  std::ostringstream output;
  std::exit(demo::run(2, line, output));
}

/// Whatever ends a process that a sanitizer found guilty: its status depends on ASAN_OPTIONS.
bool ended_badly(int status) { return status != 0; }

const bool kAsan = vllm::built_with_address_sanitizer();
const bool kUbsan = sanitized_by("undefined");
const bool kTsan = sanitized_by("thread");
const bool kPlain = !kAsan && !kUbsan && !kTsan;

#if defined(__x86_64__) || defined(__i386__)
constexpr bool kDivisionTraps = true;
#else
constexpr bool kDivisionTraps = false;  // AArch64 answers 0
#endif

TEST(MinimalDemoDeathTest, NullDereference) {
  const std::string name = "NullDereference.ResetThenCopy";
  if (kPlain) {
    EXPECT_EXIT(run_and_exit(name), KilledBySignal(SIGSEGV), "");
  } else {
    EXPECT_EXIT(run_and_exit(name), ended_badly,
                kUbsan ? "runtime error: member call on null pointer" : "Sanitizer.*SEGV");
  }
}

TEST(MinimalDemoDeathTest, UseAfterFree) {
  const std::string name = "UseAfterFree.StalePointer";
  if (kAsan || kTsan) {
    EXPECT_EXIT(run_and_exit(name), ended_badly, "heap-use-after-free");
  }
}

TEST(MinimalDemoDeathTest, DoubleFree) {
  const std::string name = "DoubleFree.BorrowedBytesAdopted";
  if (kAsan) {
    EXPECT_EXIT(run_and_exit(name), ended_badly, "attempting double-free");
  } else if (!kTsan) {
    EXPECT_EXIT(run_and_exit(name), KilledBySignal(SIGABRT), "double free");
  }
}

TEST(MinimalDemoDeathTest, HeapOverflow) {
  if (kAsan) {
    EXPECT_EXIT(run_and_exit("HeapOverflow.LastBlockPlusOne"), ended_badly, "heap-buffer-overflow");
  }
}

TEST(MinimalDemoDeathTest, IndexPastRedzone) {
  const std::string name = "IndexPastRedzone.SlotInUnownedBlock";
  if (kAsan) {
    EXPECT_EXIT(run_and_exit(name), ended_badly, "use-after-poison");
  } else {
    EXPECT_EXIT(run_and_exit(name), ExitedWithCode(0), "");
  }
}

TEST(MinimalDemoDeathTest, IdShift) {
  EXPECT_EXIT(run_and_exit("IdShift.EraseMovesNeighbours"), ExitedWithCode(1), "");
}

TEST(MinimalDemoDeathTest, UncaughtException) {
  // GoogleTest catches what a death test throws; noexcept stands for the demo's own main.
  const auto run_uncaught = []() noexcept { run_and_exit("UncaughtException.CopyOutOfRange"); };

  EXPECT_EXIT(run_uncaught(), KilledBySignal(SIGABRT),
              "Invalid block id in copy_blocks: src=99, dst=0");
}

TEST(MinimalDemoDeathTest, DataRace) {
  if (kTsan) {
    EXPECT_EXIT(run_and_exit("DataRace.FreeWhileCopying"), ended_badly, "data race");
  } else {
    EXPECT_EXIT(run_and_exit("DataRace.FreeWhileCopying"), ExitedWithCode(0), "");
  }
}

TEST(MinimalDemoDeathTest, StackOverflow) {
  const std::string name = "StackOverflow.EvictionAllocates";
  if (kPlain) {
    EXPECT_EXIT(run_and_exit(name), KilledBySignal(SIGSEGV), "");
  } else {  // clang's UBSan reports it too, g++'s leaves the signal alone.
    EXPECT_EXIT(run_and_exit(name), ended_badly, kAsan || kTsan ? "stack-overflow" : "");
  }
}

TEST(MinimalDemoDeathTest, DivideByZero) {
  const std::string name = "DivideByZero.NoHeadsOnThisRank";
  if (kPlain && !kDivisionTraps) {
    EXPECT_EXIT(run_and_exit(name), ExitedWithCode(0), "");
  } else if (kPlain) {
    EXPECT_EXIT(run_and_exit(name), KilledBySignal(SIGFPE), "");
  } else {
    EXPECT_EXIT(run_and_exit(name), ended_badly,
                kUbsan ? "runtime error: division by zero" : "FPE");
  }
}

TEST(MinimalDemoDeathTest, Abort) {
  EXPECT_EXIT(run_and_exit("Abort.FreedTwiceFailsTheCheck"), KilledBySignal(SIGABRT),
              "check failed: reference_count_ > 0");
}

}  // namespace
