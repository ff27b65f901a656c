#include <gtest/gtest.h>

#include <algorithm>

#include "supervisor/core_selector.h"
#include "supervisor_support.h"

namespace forensics {
namespace {

constexpr std::uint64_t kHeap = 0x100000;
constexpr std::uint64_t kStack = 0x7000000;
constexpr std::uint64_t kStackPages = 64;
constexpr std::uint64_t kStackEnd = kStack + kStackPages * kPageSize;

/// A heap of 1,024 pages and one thread, which stopped two pages below its stack's top.
class SelectorTest : public testing::Test {
 protected:
  SelectorTest() {
    image_.maps = {make_map(kHeap, 1024), make_map(kStack, kStackPages, "[stack]")};
    memory_.fill(kHeap, image_.maps[0].end);
    memory_.fill(kStack, kStackEnd);
    image_.memory = &memory_;
    ThreadState thread;
    thread.tid = 1;
    thread.stack_pointer = kStackEnd - 2 * kPageSize + 512;
    image_.threads = {thread};
  }

  [[nodiscard]] Selection select(std::uint64_t budget = std::uint64_t{64} << 20U) {
    return CoreSelector(image_, {budget, false}).select();
  }
  static bool holds(const Selection& selection, std::uint64_t address) {
    return std::binary_search(selection.pages.begin(), selection.pages.end(), address & kPageMask);
  }
  static std::uint64_t heap_page(std::uint64_t index) { return kHeap + index * kPageSize; }

  MadeUpMemory memory_;
  ProcessImage image_;
};

TEST_F(SelectorTest, KeepsTheStackFromItsRedZoneToItsTop) {
  image_.threads[0].stack_pointer = kStackEnd - kPageSize;  // so the red zone is a page below

  const Selection selection = select();

  EXPECT_EQ(selection.pages,
            (std::vector<std::uint64_t>{kStackEnd - 2 * kPageSize, kStackEnd - kPageSize}));
}

TEST_F(SelectorTest, FollowsPointersTwoHopsAndNoFurther) {
  memory_.write_word(kStackEnd - 8, heap_page(10) + 8);
  memory_.write_word(heap_page(10) + 64, heap_page(20));
  memory_.write_word(heap_page(20) + 4088, heap_page(30) + 4095);
  memory_.write_word(heap_page(10) + 129, heap_page(40));  // not aligned: no pointer

  const Selection selection = select();

  EXPECT_TRUE(holds(selection, heap_page(10)));
  EXPECT_TRUE(holds(selection, heap_page(20)));
  EXPECT_FALSE(holds(selection, heap_page(30)));
  EXPECT_FALSE(holds(selection, heap_page(40)));
  EXPECT_EQ(selection.kept_bytes.at(static_cast<std::size_t>(Reason::two_hops)), kPageSize);
}

TEST_F(SelectorTest, KeepsWhatIsAroundRegistersAndTheFault) {
  image_.threads[0].registers = {heap_page(100) + 4000, 1, 0xFFFFFFFFFFFFFFFF};
  image_.fault_address = heap_page(200);

  const Selection selection = select();

  EXPECT_TRUE(holds(selection, heap_page(100)));
  EXPECT_TRUE(holds(selection, heap_page(101)));
  EXPECT_FALSE(holds(selection, heap_page(99)));
  EXPECT_TRUE(holds(selection, heap_page(199)));
  EXPECT_TRUE(holds(selection, heap_page(200)));
}

TEST_F(SelectorTest, NeverExceedsTheBudgetAndDropsTheFarthestFirst) {
  for (std::uint64_t index = 0; index < 100; ++index) {
    memory_.write_word(kStackEnd - 8 - index * 8, heap_page(index));
    memory_.write_word(heap_page(index) + 8, heap_page(500 + index));
  }

  const Selection selection = select(50 * kPageSize);

  EXPECT_EQ(selection.pages.size(), 50);
  EXPECT_TRUE(holds(selection, kStackEnd - kPageSize));
  EXPECT_FALSE(holds(selection, heap_page(500)));
  EXPECT_GT(selection.unfollowed_pages +
                selection.dropped_bytes.at(static_cast<std::size_t>(Reason::one_hop)),
            0);
}

TEST_F(SelectorTest, OfADeepRecursionKeepsBothEnds) {
  constexpr std::uint64_t kPages = 2048;  // 8 MiB
  image_.maps[1] = make_map(kStack, kPages, "[stack]");
  memory_.fill(kStack, image_.maps[1].end);
  image_.threads[0].stack_pointer = kStack + 256;

  const Selection selection = select();

  EXPECT_TRUE(holds(selection, kStack));
  EXPECT_TRUE(holds(selection, image_.maps[1].end - kPageSize));
  EXPECT_FALSE(holds(selection, kStack + kPages / 2 * kPageSize));
  EXPECT_GT(selection.dropped_bytes.at(static_cast<std::size_t>(Reason::crash_stack)),
            std::uint64_t{5} << 20U);
}

TEST_F(SelectorTest, OfAStackThatRanOutKeepsWhatIsAboveItsGuard) {
  image_.threads[0].stack_pointer = kStack - 32;

  EXPECT_TRUE(holds(select(), kStack));
}

TEST_F(SelectorTest, NeverReadsExcludedMemory) {
  image_.maps[0].never_read = true;
  memory_.write_word(kStackEnd - 8, heap_page(10));
  image_.threads[0].registers = {heap_page(11)};

  const Selection selection = select();

  EXPECT_FALSE(holds(selection, heap_page(10)));
  EXPECT_FALSE(holds(selection, heap_page(11)));
  EXPECT_EQ(selection.excluded_bytes, 1024 * kPageSize);
}

TEST_F(SelectorTest, PromisesNoPageThatCannotBeRead) {
  image_.maps[0] = make_map(0x9000000, 16);  // mapped, and not there
  std::swap(image_.maps[0], image_.maps[1]);
  memory_.write_word(kStackEnd - 8, 0x9000000);

  const Selection selection = select();

  EXPECT_FALSE(holds(selection, 0x9000000));
  EXPECT_EQ(selection.unreadable_bytes, kPageSize);
}

TEST_F(SelectorTest, LeavesUnchangedFilePagesToTheFile) {
  image_.maps[0].path = "/usr/lib/x.so";
  image_.maps[0].writable = false;
  image_.maps[0].has_own_pages = false;
  image_.maps[0].file_offset = kPageSize;
  memory_.write_word(kStackEnd - 8, heap_page(10));

  EXPECT_FALSE(holds(select(), heap_page(10)));

  image_.maps[0].path += " (deleted)";  // nobody else has it

  EXPECT_TRUE(holds(select(), heap_page(10)));
}

TEST_F(SelectorTest, KeepsTheDataOfModulesAndTheFirstPageOfEach) {
  MemoryMap text = make_map(0x5000000, 4, "/usr/lib/x.so");
  text.writable = false;
  text.has_own_pages = false;
  MemoryMap data = make_map(0x5004000, 2, "/usr/lib/x.so");
  data.file_offset = 0x4000;
  const MemoryMap zeroes = make_map(0x5006000, 1);  // .bss
  image_.maps = {image_.maps[0], text, data, zeroes, image_.maps[1]};
  memory_.fill(text.start, zeroes.end);
  memory_.write(text.start, "\177ELF", 4);

  const Selection selection = select();

  EXPECT_TRUE(holds(selection, text.start));
  EXPECT_FALSE(holds(selection, text.start + kPageSize));
  EXPECT_TRUE(holds(selection, data.start + kPageSize));
  EXPECT_TRUE(holds(selection, zeroes.start));
}

TEST_F(SelectorTest, HoldsTheWholeImageWhenAsked) {
  const Selection selection = CoreSelector(image_, {0, true}).select();

  EXPECT_EQ(selection.pages.size(), 1024 + kStackPages);
}

TEST(PageSet, KnowsWhatItHoldsAlsoAfterItGrew) {
  PageSet pages;

  for (std::uint64_t page = 1; page <= 100'000; ++page) {
    ASSERT_TRUE(pages.insert(page * kPageSize));
  }
  for (std::uint64_t page = 1; page <= 100'000; ++page) {
    ASSERT_FALSE(pages.insert(page * kPageSize));
  }
}

}  // namespace
}  // namespace forensics
