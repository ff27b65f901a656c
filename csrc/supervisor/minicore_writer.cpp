#include "supervisor/minicore_writer.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "supervisor/unique_fd.h"

namespace forensics {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20U;

std::uint64_t round_up(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

[[noreturn]] void fail(const std::string& path) {
  throw std::system_error(errno, std::generic_category(), path);
}

Elf64_Word flags_of(const MemoryMap& map) {
  return static_cast<Elf64_Word>((map.readable ? PF_R : 0) | (map.writable ? PF_W : 0) |
                                 (map.executable ? PF_X : 0));
}

/// The segments of one mapping: each run of kept pages with the hole behind it.
void add_segments(const MemoryMap& map, const std::vector<std::uint64_t>& pages, std::size_t& next,
                  std::vector<Elf64_Phdr>& segments) {
  Elf64_Phdr segment{};
  segment.p_type = PT_LOAD;
  segment.p_flags = flags_of(map);
  segment.p_vaddr = map.start;
  segment.p_align = kPageSize;
  const auto close = [&](std::uint64_t end) {
    segment.p_memsz = end - segment.p_vaddr;
    if (segment.p_memsz != 0) {
      segments.push_back(segment);
    }
    segment.p_vaddr = end;
    segment.p_filesz = 0;
  };
  while (next < pages.size() && pages[next] < map.start) {
    ++next;
  }
  for (; next < pages.size() && pages[next] < map.end; ++next) {
    if (pages[next] != segment.p_vaddr + segment.p_filesz) {
      close(pages[next]);
    }
    segment.p_filesz += kPageSize;
  }
  close(map.end);
}

class OutputFile {
 public:
  explicit OutputFile(std::string path)
      : path_(std::move(path)),
        partial_(path_ + ".partial"),
        fd_(::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                   S_IRUSR | S_IWUSR)) {
    if (!fd_) {
      fail(partial_);
    }
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile() {
    if (!finished_) {
      ::unlink(partial_.c_str());
    }
  }

  void write(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    while (size > 0) {
      const ssize_t wrote = ::write(fd_.get(), bytes, size);
      if (wrote < 0 && errno == EINTR) {
        continue;
      }
      if (wrote <= 0) {
        fail(partial_);
      }
      bytes += wrote;
      size -= static_cast<std::size_t>(wrote);
    }
  }

  void finish() {
    if (std::rename(partial_.c_str(), path_.c_str()) != 0) {
      fail(path_);
    }
    finished_ = true;
  }

 private:
  std::string path_;
  std::string partial_;
  UniqueFd fd_;
  bool finished_ = false;
};

/// Places the segments one behind the other in the file; returns where the last one ends.
std::uint64_t place(std::vector<Elf64_Phdr>& segments, std::uint64_t notes_at,
                    std::uint64_t notes_size) {
  segments.front().p_offset = notes_at;
  segments.front().p_filesz = notes_size;
  std::uint64_t at = round_up(notes_at + notes_size, kPageSize);
  for (std::size_t index = 1; index < segments.size(); ++index) {
    segments[index].p_offset = at;
    at += segments[index].p_filesz;
  }
  return at;
}

Elf64_Ehdr header_for(std::uint16_t machine, std::size_t segments) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_CORE;
  header.e_machine = machine;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phoff = sizeof(Elf64_Ehdr);
  header.e_phnum = static_cast<Elf64_Half>(std::min<std::size_t>(segments, PN_XNUM));
  if (segments >= PN_XNUM) {  // elf(5): the number stands in the first section header
    header.e_shoff = sizeof(Elf64_Ehdr);
    header.e_phoff = sizeof(Elf64_Ehdr) + sizeof(Elf64_Shdr);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 1;
  }
  return header;
}

void write_memory(OutputFile& file, const std::vector<Elf64_Phdr>& segments,
                  const CoreContents& contents) {
  std::vector<std::byte> chunk(kChunk);
  for (const Elf64_Phdr& segment : segments) {
    for (std::uint64_t done = 0; segment.p_type == PT_LOAD && done < segment.p_filesz;) {
      const std::size_t size = std::min<std::uint64_t>(kChunk, segment.p_filesz - done);
      const std::uint64_t address = segment.p_vaddr + done;
      const std::size_t got = contents.memory.read(address, chunk.data(), size);
      std::fill(chunk.begin() + static_cast<std::ptrdiff_t>(got),
                chunk.begin() + static_cast<std::ptrdiff_t>(size), std::byte{0});
      contents.redactor.redact(contents.memory, address, chunk.data(), size);
      file.write(chunk.data(), size);
      done += size;
    }
  }
}

}  // namespace

void NoteBuilder::add(std::string_view owner, std::uint32_t type, const void* data,
                      std::size_t size) {
  Elf64_Nhdr header{};
  header.n_namesz = static_cast<Elf64_Word>(owner.size() + 1);
  header.n_descsz = static_cast<Elf64_Word>(size);
  header.n_type = type;
  const std::size_t at = bytes_.size();
  const std::size_t name_at = at + sizeof header;
  const std::size_t data_at = name_at + round_up(owner.size() + 1, 4);
  bytes_.resize(data_at + round_up(size, 4));
  std::memcpy(bytes_.data() + at, &header, sizeof header);
  std::memcpy(bytes_.data() + name_at, owner.data(), owner.size());
  if (size != 0) {
    std::memcpy(bytes_.data() + data_at, data, size);
  }
}

std::uint64_t write_core(const std::string& path, const CoreContents& contents) {
  std::vector<Elf64_Phdr> segments(1);
  segments.front().p_type = PT_NOTE;
  segments.front().p_align = 4;
  std::size_t next = 0;
  for (const MemoryMap& map : contents.maps) {
    add_segments(map, contents.pages, next, segments);
  }
  const Elf64_Ehdr header = header_for(contents.machine, segments.size());
  const std::uint64_t notes_at = header.e_phoff + segments.size() * sizeof(Elf64_Phdr);
  const std::uint64_t total = place(segments, notes_at, contents.notes.size());

  OutputFile file(path);
  file.write(&header, sizeof header);
  if (header.e_shnum != 0) {
    Elf64_Shdr section{};
    section.sh_info = static_cast<Elf64_Word>(segments.size());
    section.sh_size = 1;
    file.write(&section, sizeof section);
  }
  file.write(segments.data(), segments.size() * sizeof(Elf64_Phdr));
  file.write(contents.notes.data(), contents.notes.size());
  const std::uint64_t notes_end = notes_at + contents.notes.size();
  const std::vector<std::byte> padding(round_up(notes_end, kPageSize) - notes_end);
  file.write(padding.data(), padding.size());
  write_memory(file, segments, contents);
  file.finish();
  return total;
}

}  // namespace forensics
