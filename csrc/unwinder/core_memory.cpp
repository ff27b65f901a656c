#include "unwinder/core_memory.h"

#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <system_error>

#include "supervisor/unique_fd.h"

namespace forensics::unwinder {
namespace {

struct EndElf {
  void operator()(Elf* elf) const noexcept { elf_end(elf); }
};

}  // namespace

CoreMemory::CoreMemory(const std::string& path) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): open(2) is declared so
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat state{};
  if (!file || ::fstat(file.get(), &state) != 0) {
    throw std::runtime_error("the core cannot be opened: " +
                             std::generic_category().message(errno));
  }
  if (!S_ISREG(state.st_mode) || state.st_size <= 0) {
    throw std::runtime_error("the core is no file, or empty");
  }
  size_ = static_cast<std::size_t>(state.st_size);
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
  if (mapped == MAP_FAILED) {
    throw std::runtime_error("the core cannot be mapped: " +
                             std::generic_category().message(errno));
  }
  data_ = static_cast<char*>(mapped);
  try {
    read_segments();
  } catch (...) {
    ::munmap(data_, size_);
    throw;
  }
}

CoreMemory::~CoreMemory() { ::munmap(data_, size_); }

void CoreMemory::read_segments() {
  elf_version(EV_CURRENT);
  const std::unique_ptr<Elf, EndElf> elf(elf_memory(data_, size_));
  GElf_Ehdr header{};
  if (elf == nullptr || gelf_getehdr(elf.get(), &header) == nullptr || header.e_type != ET_CORE) {
    throw std::runtime_error("this is no core file");
  }
  word_size_ = header.e_ident[EI_CLASS] == ELFCLASS32 ? 4 : 8;
  is_big_endian_ = header.e_ident[EI_DATA] == ELFDATA2MSB;
  std::size_t count = 0;
  if (elf_getphdrnum(elf.get(), &count) != 0) count = 0;
  for (std::size_t at = 0; at < count; ++at) {
    GElf_Phdr segment{};
    if (gelf_getphdr(elf.get(), static_cast<int>(at), &segment) == nullptr) break;
    if (segment.p_type != PT_LOAD || segment.p_filesz == 0 || segment.p_offset >= size_) continue;
    const std::uint64_t held = std::min<std::uint64_t>(segment.p_filesz, size_ - segment.p_offset);
    if (segment.p_vaddr + held < segment.p_vaddr) continue;
    segments_.push_back({segment.p_vaddr, segment.p_vaddr + held, segment.p_offset});
  }
  std::sort(segments_.begin(), segments_.end(),
            [](const Segment& a, const Segment& b) { return a.start < b.start; });
}

const CoreMemory::Segment* CoreMemory::segment_of(Address address) const noexcept {
  auto next = std::upper_bound(
      segments_.begin(), segments_.end(), address,
      [](Address wanted, const Segment& segment) { return wanted < segment.start; });
  if (next == segments_.begin()) return nullptr;
  const Segment& found = *std::prev(next);
  return address < found.end ? &found : nullptr;
}

std::optional<Address> CoreMemory::word(Address address) const noexcept {
  const Segment* segment = segment_of(address);
  if (segment == nullptr || segment->end - address < word_size_) return std::nullopt;
  const char* from = data_ + segment->offset + (address - segment->start);
  Address value = 0;
  for (std::size_t at = 0; at < word_size_; ++at) {
    const std::size_t shift = is_big_endian_ ? word_size_ - 1 - at : at;
    value |= static_cast<Address>(static_cast<unsigned char>(from[at])) << (8 * shift);
  }
  return value;
}

}  // namespace forensics::unwinder
