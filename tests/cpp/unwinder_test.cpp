/// The parts of the unwinder that read files; walks of real cores are tested from Python.

#include <elf.h>
#include <gelf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "unwinder/core_memory.h"
#include "unwinder/core_stacks.h"
#include "unwinder/elf_file.h"

namespace {

using forensics::unwinder::CoreMemory;
using forensics::unwinder::ElfFile;
using forensics::unwinder::ElfFiles;

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::vector<char>& bytes)
      : path_(std::filesystem::temp_directory_path() /
              ("forensics-unwinder-" + std::to_string(::getpid()) + "-" +
               std::to_string(next_number()))) {
    std::ofstream(path_, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  static int next_number() {
    static int number = 0;
    return ++number;
  }

  std::filesystem::path path_;
};

/// A core of one segment at 0x1000 that holds the bytes 1, 2, … 16.
std::vector<char> small_core(std::uint64_t size_in_file = 16) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_CORE;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_phoff = sizeof(header);
  header.e_ehsize = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  Elf64_Phdr segment{};
  segment.p_type = PT_LOAD;
  segment.p_vaddr = 0x1000;
  segment.p_offset = sizeof(header) + sizeof(segment);
  segment.p_filesz = size_in_file;
  segment.p_memsz = size_in_file;
  std::vector<char> bytes(sizeof(header) + sizeof(segment) + 16);
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), &segment, sizeof(segment));
  for (std::size_t at = 0; at < 16; ++at) {
    bytes[sizeof(header) + sizeof(segment) + at] = static_cast<char>(at + 1);
  }
  return bytes;
}

TEST(CoreMemory, ReadsAWordWhereTheCoreHoldsOne) {
  const TemporaryFile file(small_core());
  const CoreMemory memory(file.path());

  EXPECT_EQ(memory.word(0x1000), 0x0807060504030201U);
  EXPECT_EQ(memory.word(0x1008), 0x100f0e0d0c0b0a09U);
}

TEST(CoreMemory, HasNothingBesideItsSegments) {
  const TemporaryFile file(small_core());
  const CoreMemory memory(file.path());

  EXPECT_EQ(memory.word(0xfff), std::nullopt);
  EXPECT_EQ(memory.word(0x1009), std::nullopt) << "half of the word is beyond the segment";
  EXPECT_EQ(memory.word(~std::uint64_t{0}), std::nullopt);
}

TEST(CoreMemory, BelievesNoSizeBeyondTheFile) {
  const TemporaryFile file(small_core(~std::uint64_t{0} / 2));
  const CoreMemory memory(file.path());

  EXPECT_EQ(memory.word(0x1008), 0x100f0e0d0c0b0a09U);
  EXPECT_EQ(memory.word(0x1010), std::nullopt);
}

TEST(CoreMemory, RefusesWhatIsNoCore) {
  const TemporaryFile text({'t', 'e', 'x', 't'});
  const TemporaryFile empty({});

  EXPECT_THROW(CoreMemory{text.path()}, std::runtime_error);
  EXPECT_THROW(CoreMemory{empty.path()}, std::runtime_error);
  EXPECT_THROW(CoreMemory{"/"}, std::runtime_error);
  EXPECT_THROW(CoreMemory{"/nowhere/core"}, std::runtime_error);
}

TEST(ElfFile, NamesTheFunctionThatCoversAnAddress) {
  ElfFile itself("/proc/self/exe");
  GElf_Addr entry = 0;
  {
    Elf* elf = itself.share();
    GElf_Ehdr header{};
    ASSERT_NE(gelf_getehdr(elf, &header), nullptr);
    entry = header.e_entry;
    elf_end(elf);
  }

  const forensics::unwinder::FunctionSymbol* found = itself.function_at(entry);

  ASSERT_NE(found, nullptr);
  EXPECT_STREQ(found->name, "_start");
  EXPECT_EQ(found->start, entry);
  EXPECT_EQ(itself.function_at(1), nullptr);
}

TEST(ElfFiles, OpensAFileOnce) {
  ElfFiles files;

  EXPECT_EQ(files.open("/proc/self/exe"), files.open("/proc/self/exe"));
  EXPECT_THROW((void)files.open("/"), std::runtime_error);
}

TEST(CoreStacks, ShowsTheFirstFrameOnlyWhereNothingIsKnown) {
  const TemporaryFile file(small_core());
  forensics::unwinder::CoreStacks stacks(file.path(), {}, std::make_shared<ElfFiles>());

  const forensics::unwinder::NativeStack stack =
      stacks.walk({0x42, {{7, 0x1000}, {6, 0x1000}}}, {});

  ASSERT_EQ(stack.frames.size(), 1U);
  EXPECT_EQ(stack.frames[0].pc, 0x42U);
  EXPECT_EQ(stack.end, forensics::unwinder::WalkEnd::no_table);
  EXPECT_TRUE(stacks.lines_of(0x42, false).empty());
}

}  // namespace
