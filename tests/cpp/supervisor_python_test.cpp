#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "supervisor/python_memory.h"
#include "supervisor_support.h"

namespace forensics {
namespace {

constexpr std::uint64_t kLibrary = 0x10000000;
constexpr std::uint64_t kHeap = 0x20000000;
constexpr std::uint64_t kHeapEnd = kHeap + 64 * kPageSize;
constexpr std::uint64_t kVersion = kLibrary + 0x4000;
constexpr std::uint64_t kCodeType = kLibrary + 0x4100;
constexpr std::uint64_t kRuntime = kLibrary + 0x5000;
constexpr std::uint64_t kInterpreter = kHeap + 0x1000;
constexpr std::uint64_t kGil = kHeap + 0x3000;
constexpr std::uint64_t kThread = kHeap + 0x4000;
constexpr std::uint64_t kCframe = kHeap + 0x5000;
constexpr std::uint64_t kInner = kHeap + 0x6000;
constexpr std::uint64_t kOuter = kHeap + 0x6100;
constexpr std::uint64_t kCode = kHeap + 0x7000;
constexpr std::uint64_t kName = kHeap + 0x8000;
constexpr std::uint64_t kTable = kHeap + 0x9000;

/// A library whose one hash bucket holds CPython's symbols, and a thread in two calls of 3.12.
class PythonMemoryTest : public testing::Test {
 protected:
  PythonMemoryTest() {
    memory_.fill(kLibrary, kLibrary + 8 * kPageSize);
    memory_.fill(kHeap, kHeapEnd);
    write_symbols();
    const std::uint32_t version = 0x030C01F0;
    memory_.write(kVersion, &version, sizeof version);
    memory_.write_word(kRuntime + 40, kInterpreter);
    memory_.write_word(kInterpreter + 384, kGil);
    memory_.write_word(kInterpreter + 72, kThread);
    memory_.write_word(kThread + 56, kCframe);
    memory_.write_word(kCframe, kInner);
    memory_.write_word(kInner, kCode);
    memory_.write_word(kInner + 8, kOuter);
    memory_.write_word(kOuter, kCode);
    memory_.write_word(kCode + 8, kCodeType);
    for (const std::uint64_t name : {112, 120, 128}) {
      memory_.write_word(kCode + name, kName);
    }
    memory_.write_word(kCode + 136, kTable);
    memory_.write_word(kTable + 16, 3000);
  }

  void write_symbols() {
    const std::array<std::pair<std::string_view, std::uint64_t>, 3> symbols = {
        {{"Py_Version", kVersion}, {"PyCode_Type", kCodeType}, {"_PyRuntime", kRuntime}}};
    const std::uint64_t dynamic = kLibrary + 0x100;
    const std::uint64_t hashes = kLibrary + 0x1000;
    const std::uint64_t table = kLibrary + 0x2000;
    const std::uint64_t strings = kLibrary + 0x3000;
    memory_.write_word(dynamic, DT_GNU_HASH);
    memory_.write_word(dynamic + 8, hashes);
    memory_.write_word(dynamic + 16, DT_SYMTAB);
    memory_.write_word(dynamic + 24, table);
    memory_.write_word(dynamic + 32, DT_STRTAB);
    memory_.write_word(dynamic + 40, 0x3000);  // as some loaders leave it: an offset
    const std::array<std::uint32_t, 4> head = {1, 1, 1, 0};
    memory_.write(hashes, head.data(), sizeof head);
    const std::uint32_t first = 1;
    memory_.write(hashes + 24, &first, sizeof first);
    std::uint32_t at = 1;
    for (std::uint32_t index = 0; index < symbols.size(); ++index) {
      const auto& [name, address] = symbols.at(index);
      std::uint32_t hash = 5381;
      for (const char letter : name) {
        hash = hash * 33U + static_cast<unsigned char>(letter);
      }
      hash = index + 1 == symbols.size() ? hash | 1U : hash & ~1U;
      memory_.write(hashes + 28 + index * sizeof hash, &hash, sizeof hash);
      Elf64_Sym symbol{};
      symbol.st_name = at;
      symbol.st_value = address - kLibrary;
      memory_.write(table + (index + 1) * sizeof symbol, &symbol, sizeof symbol);
      memory_.write(strings + at, name.data(), name.size());
      at += static_cast<std::uint32_t>(name.size()) + 1;
    }
  }

  [[nodiscard]] std::vector<MemoryRange> find(
      const char* name = "/lib/libpython3.12.so.1.0") const {
    return find_python_memory(memory_, {{kLibrary, kLibrary + 0x100, name}});
  }
  static bool holds(const std::vector<MemoryRange>& ranges, std::uint64_t address) {
    return std::any_of(ranges.begin(), ranges.end(), [address](const MemoryRange& range) {
      return range.start <= address && address < range.end;
    });
  }

  MadeUpMemory memory_;
};

TEST_F(PythonMemoryTest, HoldsFramesTheirCodeItsNamesAndItsLines) {
  const std::vector<MemoryRange> ranges = find();

  for (const std::uint64_t address :
       {kRuntime + 40, kInterpreter + 72, kGil + 16, kThread + 144, kCframe, kInner + 56,
        kOuter + 56, kCode + 136, kName + 40, kTable + 32 + 2999}) {
    EXPECT_TRUE(holds(ranges, address)) << std::hex << address;
  }
}

TEST_F(PythonMemoryTest, IsNothingWithoutAnInterpreterThatIsKnown) {
  EXPECT_TRUE(find("/lib/libpool.so").empty());

  const std::uint32_t version = 0x04010000;
  memory_.write(kVersion, &version, sizeof version);

  EXPECT_TRUE(find().empty());
}

TEST_F(PythonMemoryTest, EndsWhereFramesAndThreadsLeadToThemselves) {
  memory_.write_word(kOuter + 8, kInner);
  memory_.write_word(kThread + 8, kThread);

  EXPECT_LT(find().size(), 2000);
}

TEST_F(PythonMemoryTest, TrustsNoSizeAndNoPointer) {
  memory_.write_word(kTable + 16, UINT64_MAX);
  memory_.write_word(kName + 16, UINT64_MAX / 2);
  memory_.write_word(kOuter + 8, 0xDEADBEEFDEADBEEF);
  memory_.write_word(kThread + 8, UINT64_MAX - 4);

  for (const MemoryRange& range : find()) {
    EXPECT_LE(range.end - range.start, (std::uint64_t{1} << 20U) + kPageSize);
  }
}

TEST_F(PythonMemoryTest, DoesNotTakeOtherObjectsForCode) {
  memory_.write_word(kCode + 8, kCodeType + 8);

  EXPECT_FALSE(holds(find(), kTable));
}

}  // namespace
}  // namespace forensics
