#include "event_log.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cache.h"
#include "support.h"

namespace {

using test_support::kSafe;
using test_support::kStory;
using vllm::BlockAllocator;
using vllm::BlockId;
using vllm::Event;
using vllm::EventKind;
using vllm::PagedKVCache;
namespace event_log = vllm::event_log;

class EventLog : public testing::Test {
 public:
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;
  EventLog(EventLog&&) = delete;
  EventLog& operator=(EventLog&&) = delete;

 protected:
  EventLog() { event_log::clear(); }
  ~EventLog() override {
    event_log::disable();
    event_log::clear();
    event_log::set_step(0);
  }
};

std::vector<EventKind> kinds() {
  std::vector<EventKind> result;
  for (const Event& event : event_log::events()) {
    result.push_back(event.kind);
  }
  return result;
}

TEST_F(EventLog, IsOffAtFirst) {
  BlockAllocator allocator(2, 64, kSafe);

  static_cast<void>(allocator.allocate());

  EXPECT_FALSE(event_log::enabled());
  EXPECT_TRUE(event_log::events().empty());
}

TEST_F(EventLog, KnowsTheCallersLineTheThreadAndTheStep) {
  BlockAllocator allocator(2, 64, kSafe);
  event_log::enable();
  event_log::set_step(7);

  const std::uint32_t line = __LINE__ + 1;
  const BlockId block = allocator.allocate();

  const std::vector<Event> events = event_log::events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, EventKind::allocate);
  EXPECT_EQ(events[0].block, block);
  EXPECT_EQ(events[0].generation, allocator.generation(block));
  EXPECT_EQ(events[0].step, 7U);
  EXPECT_EQ(events[0].thread, static_cast<std::int64_t>(::syscall(SYS_gettid)));
  EXPECT_EQ(events[0].file, "tests/cpp/event_log_test.cpp");
  EXPECT_EQ(events[0].line, line);
}

TEST_F(EventLog, TellsALifeInOrder) {
  PagedKVCache cache(4, {2, 1, 1, 2}, kSafe);
  event_log::enable();

  const BlockId first = cache.allocator().allocate();
  const BlockId second = cache.allocator().allocate();
  cache.allocator().fork(first);
  cache.copy_blocks({{first, second}});
  cache.allocator().free(first);
  cache.allocator().free(first);

  EXPECT_EQ(kinds(),
            (std::vector<EventKind>{EventKind::allocate, EventKind::allocate, EventKind::fork,
                                    EventKind::copy, EventKind::free, EventKind::free}));
  const Event copy = event_log::events()[3];
  EXPECT_EQ(copy.block, second);
  EXPECT_EQ(copy.source, first);
  EXPECT_EQ(copy.file, "csrc/cache.cpp");
}

TEST_F(EventLog, AFailedCallLeavesNoEvent) {
  BlockAllocator allocator(1, 64, kSafe);
  event_log::enable();

  EXPECT_THROW(allocator.free(0), std::invalid_argument);

  EXPECT_TRUE(event_log::events().empty());
}

TEST_F(EventLog, KeepsEveryEventOfSeveralThreads) {
  constexpr int kEach = 200;
  event_log::enable();
  const auto work = [] {
    BlockAllocator allocator(1, 64, kSafe);
    for (int i = 0; i < kEach; ++i) {
      allocator.free(allocator.allocate());
    }
  };

  std::thread first(work);
  std::thread second(work);
  first.join();
  second.join();

  EXPECT_EQ(event_log::events().size(), 4U * kEach);
}

TEST_F(EventLog, DisableKeepsWhatThereIsAndClearForgetsIt) {
  BlockAllocator allocator(2, 64, kSafe);
  event_log::enable();
  static_cast<void>(allocator.allocate());

  event_log::disable();
  static_cast<void>(allocator.allocate());

  EXPECT_EQ(event_log::events().size(), 1U);
  event_log::clear();
  EXPECT_TRUE(event_log::events().empty());
}

TEST_F(EventLog, TextNamesEverything) {
  const Event event{EventKind::copy, vllm::Pool::host, 1, 0, 2, 3, 42, "csrc/cache.cpp", 88};

  EXPECT_EQ(event_log::to_string(event),
            "copy host block 1 from 0 generation 2 step 3 thread 42 csrc/cache.cpp:88");
}

using EventLogDeathTest = EventLog;

TEST_F(EventLogDeathTest, TraceShowsTheCopyBeforeTheCrash) {
  if (::setenv("FORENSICS_TRACE", "stderr", 1) != 0) {  // The death test's child reads it.
    FAIL();
  }

  EXPECT_DEATH(
      {
        PagedKVCache cache(4, {2, 1, 1, 2}, kStory);
        const BlockId source = cache.allocator().allocate();
        const BlockId target = cache.allocator().allocate();
        cache.allocator().free(source);
        cache.copy_blocks({{source, target}});
      },
      "forensics: allocate device block 0 generation 1.*\n"
      "forensics: allocate device block 1 generation 2.*\n"
      "forensics: free device block 0 generation 1.*\n"
      "forensics: copy device block 1 from 0 generation 2 step 0 thread [0-9]+ csrc/cache.cpp");
  ASSERT_EQ(::unsetenv("FORENSICS_TRACE"), 0);
}

TEST_F(EventLogDeathTest, UnknownTraceTargetIsNamed) {
  ASSERT_EQ(::setenv("FORENSICS_TRACE", "somewhere", 1), 0);

  EXPECT_EXIT(std::_Exit(3), testing::ExitedWithCode(3),
              "FORENSICS_TRACE=somewhere is not known; use stderr");
  ASSERT_EQ(::unsetenv("FORENSICS_TRACE"), 0);
}

}  // namespace
