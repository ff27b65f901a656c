#include "supervisor/core_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "supervisor/thread_registers.h"
#include "supervisor/unique_fd.h"

namespace forensics {
namespace {

constexpr std::size_t kStatusTid = 32;         // elf_prstatus: pr_pid
constexpr std::size_t kStatusRegisters = 112;  // elf_prstatus: pr_reg, on 64-bit machines
constexpr std::size_t kSignalAddress = 16;     // siginfo_t: si_addr
constexpr std::size_t kMostStrings = std::size_t{8} << 20U;

std::uint64_t round_up4(std::uint64_t value) { return (value + 3) & ~std::uint64_t{3}; }

std::string text_at(const MemoryReader& memory, std::uint64_t address) {
  std::string text(kPageSize, '\0');
  text.resize(memory.read(address, reinterpret_cast<std::byte*>(text.data()), text.size()));
  return text.substr(0, text.find('\0'));
}

}  // namespace

CoreFile::CoreFile(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat state{};
  if (!file || ::fstat(file.get(), &state) != 0) {
    throw std::system_error(errno, std::generic_category(), path);
  }
  if (!S_ISREG(state.st_mode) || state.st_size < static_cast<off_t>(sizeof(Elf64_Ehdr))) {
    throw std::runtime_error(path + " is no core file");
  }
  size_ = static_cast<std::uint64_t>(state.st_size);
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED) {
    throw std::system_error(errno, std::generic_category(), path);
  }
  data_ = static_cast<const std::byte*>(mapped);
  try {
    parse();
  } catch (...) {
    ::munmap(mapped, size_);
    throw;
  }
}

CoreFile::~CoreFile() { ::munmap(const_cast<std::byte*>(data_), size_); }

void CoreFile::parse() {
  Elf64_Ehdr header{};
  std::memcpy(&header, data_, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_CORE ||
      header.e_phentsize != sizeof(Elf64_Phdr)) {
    throw std::runtime_error("not a 64-bit ELF core");
  }
  machine_ = header.e_machine;
  std::uint64_t count = header.e_phnum;
  if (count == PN_XNUM && header.e_shoff <= size_ - sizeof(Elf64_Shdr)) {
    Elf64_Shdr section{};
    std::memcpy(&section, data_ + header.e_shoff, sizeof section);
    count = section.sh_info;
  }
  if (header.e_phoff > size_ || count > (size_ - header.e_phoff) / sizeof(Elf64_Phdr)) {
    throw std::runtime_error("the core is cut off within its program headers");
  }
  for (std::uint64_t index = 0; index < count; ++index) {
    Elf64_Phdr segment{};
    std::memcpy(&segment, data_ + header.e_phoff + index * sizeof segment, sizeof segment);
    segment.p_offset = std::min(segment.p_offset, size_);
    segment.p_filesz = std::min(segment.p_filesz, size_ - segment.p_offset);
    if (segment.p_type == PT_NOTE) {
      parse_notes(segment);
    } else if (segment.p_type == PT_LOAD && segment.p_memsz != 0 &&
               segment.p_vaddr + segment.p_memsz > segment.p_vaddr) {
      segment.p_filesz = std::min(segment.p_filesz, segment.p_memsz);
      segments_.push_back(segment);
    }
  }
  std::sort(
      segments_.begin(), segments_.end(),
      [](const Elf64_Phdr& left, const Elf64_Phdr& right) { return left.p_vaddr < right.p_vaddr; });
}

void CoreFile::parse_notes(const Elf64_Phdr& segment) {
  std::uint64_t at = segment.p_offset;
  const std::uint64_t end = segment.p_offset + segment.p_filesz;
  while (end - at >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header{};
    std::memcpy(&header, data_ + at, sizeof header);
    const std::uint64_t name = at + sizeof header;
    const std::uint64_t data = name + round_up4(header.n_namesz);
    if (data > end || header.n_descsz > end - data) {
      return;
    }
    const std::string owner(reinterpret_cast<const char*>(data_ + name), header.n_namesz);
    notes_.push_back(
        {owner.substr(0, owner.find('\0')), header.n_type, data_ + data, header.n_descsz});
    at = std::min(end, data + round_up4(header.n_descsz));
  }
}

std::size_t CoreFile::read(std::uint64_t address, std::byte* target, std::size_t size) const {
  std::size_t done = 0;
  while (done < size) {
    const std::uint64_t here = address + done;
    auto behind = std::upper_bound(
        segments_.begin(), segments_.end(), here,
        [](std::uint64_t value, const Elf64_Phdr& segment) { return value < segment.p_vaddr; });
    if (behind == segments_.begin()) {
      break;
    }
    const Elf64_Phdr& segment = *std::prev(behind);
    const std::uint64_t within = here - segment.p_vaddr;
    if (within >= segment.p_filesz) {
      break;
    }
    const std::size_t part = std::min<std::uint64_t>(size - done, segment.p_filesz - within);
    std::memcpy(target + done, data_ + segment.p_offset + within, part);
    done += part;
  }
  return done;
}

ProcessImage CoreFile::image() const {
  ProcessImage image;
  image.memory = this;
  for (const Elf64_Phdr& segment : segments_) {
    MemoryMap map;
    map.start = segment.p_vaddr;
    map.end = segment.p_vaddr + segment.p_memsz;
    map.readable = (segment.p_flags & PF_R) != 0;
    map.writable = (segment.p_flags & PF_W) != 0;
    map.executable = (segment.p_flags & PF_X) != 0;
    map.has_own_pages = segment.p_filesz > kPageSize || segment.p_filesz == segment.p_memsz;
    map.never_read = segment.p_filesz == 0;
    image.maps.push_back(map);
  }
  name_maps(image);
  add_threads(image);
  return image;
}

/// NT_FILE: count, page size, then start, end and page offset of each, then the names.
void CoreFile::name_maps(ProcessImage& image) const {
  for (const CoreNote& note : notes_) {
    std::array<std::uint64_t, 3> entry{};
    if (note.type != NT_FILE || note.size < 16) {
      continue;
    }
    std::memcpy(entry.data(), note.data, 16);
    const std::uint64_t page = entry[1];
    const std::uint64_t count = std::min<std::uint64_t>(entry[0], (note.size - 16) / sizeof entry);
    const char* names = reinterpret_cast<const char*>(note.data) + 16 + count * sizeof entry;
    const char* const names_end = reinterpret_cast<const char*>(note.data) + note.size;
    for (std::uint64_t index = 0; index < count && names < names_end; ++index) {
      std::memcpy(entry.data(), note.data + 16 + index * sizeof entry, sizeof entry);
      const std::string path(names, ::strnlen(names, static_cast<std::size_t>(names_end - names)));
      names += path.size() + 1;
      for (MemoryMap& map : image.maps) {
        if (map.start >= entry[0] && map.start < entry[1]) {
          map.path = path;
          map.file_offset = entry[2] * page + (map.start - entry[0]);
        }
      }
    }
  }
  // A mapping of which parts were kept has a segment a part: one mapping again.
  std::vector<MemoryMap> merged;
  for (const MemoryMap& map : image.maps) {
    MemoryMap* last = merged.empty() ? nullptr : &merged.back();
    if (last != nullptr && last->end == map.start && last->path == map.path &&
        last->readable == map.readable && last->writable == map.writable &&
        last->executable == map.executable &&
        (map.path.empty() || map.file_offset == last->file_offset + (last->end - last->start))) {
      last->end = map.end;
      last->never_read = last->never_read && map.never_read;
      last->has_own_pages = last->has_own_pages || map.has_own_pages;
    } else {
      merged.push_back(map);
    }
  }
  image.maps = std::move(merged);
}

void CoreFile::add_threads(ProcessImage& image) const {
  for (const CoreNote& note : notes_) {
    if (note.type == NT_PRSTATUS && note.owner == "CORE" && note.size > kStatusRegisters) {
      pid_t tid = 0;
      std::memcpy(&tid, note.data + kStatusTid, sizeof tid);
      image.threads.push_back(
          thread_state(tid, machine_, note.data + kStatusRegisters, note.size - kStatusRegisters));
    } else if (note.type == NT_AUXV) {
      image.auxv.resize(note.size / sizeof(Elf64_auxv_t));
      std::memcpy(image.auxv.data(), note.data, image.auxv.size() * sizeof(Elf64_auxv_t));
    } else if (note.type == NT_SIGINFO && note.size >= kSignalAddress + 8) {
      int code = 0;
      std::uint64_t address = 0;
      std::memcpy(&code, note.data + 2 * sizeof code, sizeof code);
      std::memcpy(&address, note.data + kSignalAddress, sizeof address);
      if (code > 0 && code != SI_KERNEL) {
        image.fault_address = address;
      }
    } else if (note.type == NT_ARM_TLS && !image.threads.empty() && note.size >= 8) {
      std::memcpy(&image.threads.back().thread_pointer, note.data, 8);
    }
  }
}

InitialStrings find_initial_strings(const ProcessImage& image) {
  InitialStrings found;
  const std::uint64_t file_name = image.auxiliary(AT_EXECFN);
  const auto stack = std::find_if(image.maps.begin(), image.maps.end(), [&](const MemoryMap& map) {
    return file_name >= map.start && file_name < map.end;
  });
  if (stack == image.maps.end() || image.auxv.size() < 4) {
    return found;
  }
  const std::uint64_t start =
      std::max(stack->start, stack->end - std::min<std::uint64_t>(stack->end, kMostStrings));
  std::vector<std::byte> bytes;
  std::uint64_t first = stack->end;  // The end of a stack is kept where its middle is not.
  while (first > start) {
    std::array<std::byte, kPageSize> page{};
    if (image.memory->read(first - kPageSize, page.data(), kPageSize) != kPageSize) {
      break;
    }
    first -= kPageSize;
  }
  bytes.resize(stack->end - first);
  static_cast<void>(image.memory->read(first, bytes.data(), bytes.size()) == bytes.size());
  constexpr std::size_t kWord = 8;
  const std::size_t needle = 4 * sizeof(Elf64_auxv_t);
  std::size_t at = 0;
  while (at + needle <= bytes.size() &&
         std::memcmp(bytes.data() + at, image.auxv.data(), needle) != 0) {
    at += kWord;
  }
  if (at + needle > bytes.size() || at < 2 * kWord) {
    return found;
  }
  const auto word = [&](std::size_t place) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + place, kWord);
    return value;
  };
  at -= kWord;  // the null pointer that ends envp
  while (at >= kWord && word(at - kWord) != 0) {
    at -= kWord;
  }
  found.environment_start = word(at);
  found.environment_end = found.environment_start != 0 ? file_name : 0;
  at -= std::min(at, kWord);  // the null pointer that ends argv
  std::size_t arguments = 0;
  while (at >= kWord && word(at - kWord) != arguments) {
    at -= kWord;
    ++arguments;
  }
  if (arguments != 0) {
    found.first_argument = text_at(*image.memory, word(at));
    found.arguments_start = word(at) + found.first_argument.size();
    found.arguments_end = found.environment_start != 0 ? found.environment_start : file_name;
  }
  return found;
}

}  // namespace forensics
