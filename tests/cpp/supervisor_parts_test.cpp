#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "supervisor/json_object.h"
#include "supervisor/options.h"
#include "supervisor/proc_files.h"
#include "supervisor/process_table.h"
#include "supervisor/selection_note.h"

namespace forensics {
namespace {

TEST(Maps, AreReadFromSmapsWithTheirFlags) {
  const std::vector<MemoryMap> maps = parse_maps(
      "00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/a\\012name\n"
      "Size:                328 kB\n"
      "Anonymous:             0 kB\n"
      "VmFlags: rd ex mr mw me dw \n"
      "7f0000000000-7f0000002000 rw-s 00000000 00:01 2048 /dev/shm/ring (deleted)\n"
      "Anonymous:             8 kB\n"
      "VmFlags: rd wr sh mr mw me ms dd \n");

  ASSERT_EQ(maps.size(), 2);
  EXPECT_EQ(maps[0].start, 0x400000);
  EXPECT_EQ(maps[0].file_offset, 0x1000);
  EXPECT_EQ(maps[0].path, "/usr/bin/a\nname");
  EXPECT_TRUE(maps[0].readable && maps[0].executable && !maps[0].writable && !maps[0].shared);
  EXPECT_FALSE(maps[0].has_own_pages || maps[0].never_read || is_memory_only(maps[0]));
  EXPECT_TRUE(maps[1].shared && maps[1].has_own_pages && maps[1].never_read);
  EXPECT_TRUE(is_memory_only(maps[1]));
}

TEST(ProcFiles, TellOfThisProcess) {
  const ProcessStat stat = read_stat(::getpid()).value_or(ProcessStat{});
  const Kinship kin = read_kinship(::getpid()).value_or(Kinship{});

  EXPECT_EQ(stat.parent, ::getppid());
  EXPECT_EQ(stat.group, ::getpgrp());
  EXPECT_LT(stat.environment_start, stat.environment_end);
  EXPECT_EQ(kin.process, ::getpid());
  EXPECT_FALSE(read_arguments(::getpid()).empty());
  EXPECT_FALSE(read_stat(0));
}

TEST(Json, EscapesAndKeepsStrayBytes) {
  JsonObject object;
  object.add("text", std::string("a\"b\\\n\xC3\xA9\xFF\xED\xA0\x80"));
  object.add("yes", true);
  object.add("number", -3);
  object.add_hex("address", 0x1F);

  EXPECT_EQ(object.text(),
            "{\"text\": \"a\\\"b\\\\\\u000a\xC3\xA9\\udcff\\udced\\udca0\\udc80\", \"yes\": true, "
            "\"number\": -3, \"address\": \"0x1f\"}");
}

TEST(Note, HasNeverTheSizeOfAThread) {
  EXPECT_GE(render_note({}, {}).size(), 512);  // gdb takes 296 and 336 bytes for a thread
}

TEST(ProcessTable, ForgetsAProcessWithItsThreads) {
  ProcessTable table;
  table.add(10, 10, 1);
  table.add(11, 10, 1);
  table.add(20, 20, 10);

  table.remove(11);
  EXPECT_EQ(table.thread(11), nullptr);
  EXPECT_NE(table.process(10), nullptr);

  table.add(12, 10, 1);
  table.remove(10);
  EXPECT_EQ(table.process(10), nullptr);
  EXPECT_EQ(table.thread(12), nullptr);
  EXPECT_EQ(table.size(), 1);
}

TEST(ProcessTable, HasOneThreadAfterAnExec) {
  ProcessTable table;
  table.add(10, 10, 1);
  table.add(11, 10, 1);

  table.collapse(10);

  EXPECT_EQ(table.thread(11), nullptr);
  EXPECT_EQ(table.process(10)->threads.size(), 1);
}

Options parse(std::vector<std::string> words) {
  std::vector<char*> argv;
  words.insert(words.begin(), "forensics-supervisor");
  argv.reserve(words.size() + 1);
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  Options options = parse_options(static_cast<int>(words.size()), argv.data());
  options.command = nullptr;  // it pointed into this function
  return options;
}

TEST(Options, AreReadUpToTheCommand) {
  const Options options =
      parse({"--output", "o", "--budget", "2M", "--events", "e", "--full", "--", "ls", "--output"});

  EXPECT_EQ(options.capture.folder, "o");
  EXPECT_EQ(options.capture.budget, 2 << 20);
  EXPECT_EQ(options.events, "e");
  EXPECT_TRUE(options.capture.everything);
}

TEST(Options, ThatAreWrongAreRefused) {
  EXPECT_THROW(parse({}), std::invalid_argument);
  EXPECT_THROW(parse({"--output"}), std::invalid_argument);
  EXPECT_THROW(parse({"--output", "o", "--"}), std::invalid_argument);
  EXPECT_THROW(parse({"--", "ls"}), std::invalid_argument);
  EXPECT_THROW(parse({"--budget", "1T", "--", "ls"}), std::invalid_argument);
  EXPECT_THROW(parse({"--budget", "99999999999G", "--", "ls"}), std::invalid_argument);
  EXPECT_THROW(parse({"--unknown"}), std::invalid_argument);
}

}  // namespace
}  // namespace forensics
