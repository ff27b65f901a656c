#include <gtest/gtest.h>
#include <sys/procfs.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "supervisor/core_file.h"
#include "supervisor/core_minifier.h"
#include "supervisor/minicore_writer.h"
#include "supervisor/thread_registers.h"
#include "supervisor_support.h"

namespace forensics {
namespace {

constexpr std::uint64_t kStart = 0x400000;

/// A folder that goes with the test.
class WriterTest : public testing::Test {
 public:
  WriterTest(const WriterTest&) = delete;
  WriterTest& operator=(const WriterTest&) = delete;

 protected:
  WriterTest() {
    std::string name = (std::filesystem::temp_directory_path() / "writer-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~WriterTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  [[nodiscard]] std::string path(const char* name) const { return folder_ + "/" + name; }

  std::string folder_;
  MadeUpMemory memory_;
  NoteBuilder notes_;
  Redactor redactor_;
};

TEST_F(WriterTest, WritesWhatACoreReaderReadsBack) {
  const std::vector<MemoryMap> maps = {make_map(kStart, 8), make_map(kStart + 0x10000, 2)};
  memory_.fill(kStart, kStart + 8 * kPageSize);
  memory_.write_word(kStart + 3 * kPageSize + 16, 42);
  elf_prstatus status{};
  status.pr_pid = 7;
  notes_.add("CORE", NT_PRSTATUS, &status, sizeof status);
  const std::vector<std::uint64_t> pages = {kStart, kStart + 3 * kPageSize, kStart + 4 * kPageSize};

  const std::uint64_t size =
      write_core(path("core"), {kMachine, maps, notes_.bytes(), pages, memory_, redactor_});

  EXPECT_EQ(size, std::filesystem::file_size(path("core")));
  const CoreFile core(path("core"));
  std::uint64_t word = 0;
  EXPECT_TRUE(core.read_value(kStart + 3 * kPageSize + 16, word));
  EXPECT_EQ(word, 42);
  EXPECT_FALSE(core.read_value(kStart + kPageSize, word));
  EXPECT_FALSE(core.read_value(kStart + 5 * kPageSize, word));
  const ProcessImage image = core.image();
  ASSERT_EQ(image.maps.size(), 2);  // the parts of one mapping are one again
  EXPECT_EQ(image.maps[0].end, kStart + 8 * kPageSize);
  ASSERT_EQ(image.threads.size(), 1);
  EXPECT_EQ(image.threads[0].tid, 7);
}

TEST_F(WriterTest, LeavesNothingBehindWhenItFails) {
  const std::vector<MemoryMap> maps;
  const std::vector<std::uint64_t> pages;

  EXPECT_THROW(
      write_core(path("none/core"), {kMachine, maps, notes_.bytes(), pages, memory_, redactor_}),
      std::system_error);

  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(WriterTest, CountsMoreSegmentsThanTheHeaderCanHold) {
  constexpr std::size_t kMaps = 70'000;
  std::vector<MemoryMap> maps;
  maps.reserve(kMaps);
  for (std::size_t index = 0; index < kMaps; ++index) {
    maps.push_back(make_map(kStart + index * 2 * kPageSize, 1));
  }
  memory_.fill(maps.back().start, maps.back().end);
  const std::vector<std::uint64_t> pages = {maps.back().start};

  write_core(path("core"), {kMachine, maps, notes_.bytes(), pages, memory_, redactor_});

  const CoreFile core(path("core"));
  EXPECT_EQ(core.image().maps.size(), kMaps);
  std::uint64_t word = 1;
  EXPECT_TRUE(core.read_value(maps.back().start, word));
}

TEST_F(WriterTest, RefusesWhatIsCutOffOrNoCore) {
  const std::vector<MemoryMap> maps = {make_map(kStart, 1)};
  const std::vector<std::uint64_t> pages;
  write_core(path("core"), {kMachine, maps, notes_.bytes(), pages, memory_, redactor_});
  std::filesystem::resize_file(path("core"), 100);

  EXPECT_THROW(CoreFile(path("core")), std::runtime_error);
  EXPECT_THROW(CoreFile(path("missing")), std::system_error);
  EXPECT_THROW(CoreFile{folder_}, std::runtime_error);
}

TEST_F(WriterTest, BlanksSecretsAlsoWhereTheyCrossPages) {
  const std::string secret = "token-0123456789";
  const std::vector<MemoryMap> maps = {make_map(kStart, 4)};
  memory_.fill(kStart, kStart + 4 * kPageSize);
  memory_.write(kStart + kPageSize - 7, secret.data(), secret.size());  // only the second part kept
  memory_.write(kStart + 3 * kPageSize + 100, secret.data(), secret.size());
  memory_.write(kStart + 3 * kPageSize + 200, "in the range", 12);
  redactor_.add_strings("TOKEN=" + secret);
  redactor_.add_strings("LONG=" + std::string(2 * kPageSize, 'X'));  // looks for more than is below
  redactor_.add_range(kStart + 3 * kPageSize + 200, kStart + 3 * kPageSize + 212);
  ProcessImage image;
  image.maps = maps;
  redactor_.prepare(image);
  const std::vector<std::uint64_t> pages = {kStart + kPageSize, kStart + 3 * kPageSize};

  write_core(path("core"), {kMachine, maps, notes_.bytes(), pages, memory_, redactor_});

  const CoreFile core(path("core"));
  std::array<std::byte, 2 * kPageSize> bytes{};
  EXPECT_EQ(core.read(kStart + kPageSize, bytes.data(), kPageSize), kPageSize);
  EXPECT_EQ(core.read(kStart + 3 * kPageSize, bytes.data() + kPageSize, kPageSize), kPageSize);
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(),
                          [](std::byte value) { return value == std::byte{0}; }));
}

TEST_F(WriterTest, BlanksPartsOfSecretsOnStacksAlone) {
  const std::string part = "oken-0123456";
  ProcessImage image;
  image.maps = {make_map(kStart, 1), make_map(kStart + 2 * kPageSize, 1)};
  image.threads.resize(1);
  image.threads.front().stack_pointer = kStart + 64;
  memory_.fill(kStart, kStart + 3 * kPageSize);
  const std::vector<std::uint64_t> pages = {kStart, kStart + 2 * kPageSize};
  for (const std::uint64_t page : pages) {
    memory_.write(page + 200, part.data(), part.size());
  }
  redactor_.add_strings("TOKEN=token-0123456789");
  redactor_.prepare(image);

  write_core(path("core"), {kMachine, image.maps, notes_.bytes(), pages, memory_, redactor_});

  const CoreFile core(path("core"));
  std::string found(2 * part.size(), '?');
  auto* bytes = reinterpret_cast<std::byte*>(found.data());
  EXPECT_EQ(core.read(kStart + 200, bytes, part.size()), part.size());
  EXPECT_EQ(core.read(kStart + 2 * kPageSize + 200, bytes + part.size(), part.size()), part.size());
  EXPECT_EQ(found, std::string(part.size(), '\0') + part);
}

TEST(Redactor, BlanksPartsOfSecretsInRegisters) {
  const std::string secret = "--api-key=token-0123456789";
  std::string registers = "rounding" + secret.substr(10) + "kept...." + secret.substr(3, 16);
  std::vector<std::byte> bytes(registers.size());
  std::memcpy(bytes.data(), registers.data(), registers.size());
  Redactor redactor;
  redactor.add_strings(secret);
  redactor.prepare({});

  redactor.redact_registers(bytes);

  std::memcpy(registers.data(), bytes.data(), bytes.size());
  EXPECT_EQ(registers, "rounding" + std::string(16, '\0') + "kept...." + std::string(16, '\0'));
}

TEST(Redactor, LooksForSecretsAndNotForPathsAndPlainWords) {
  for (const char* value : {"hunter2-hunter2", "https://user:pass@host", "sk-Ab12Cd34Ef",
                            "CANARY-x", "--api-key=abc123def"}) {
    EXPECT_TRUE(Redactor::is_secret_shaped(value)) << value;
  }
  for (const char* value : {"short", "/usr/bin:/bin", "./train.py", "train_the_model.py",
                            "--no-color-please", "benchmark", "8080:8080"}) {
    EXPECT_FALSE(Redactor::is_secret_shaped(value)) << value;
  }
}

}  // namespace
}  // namespace forensics
