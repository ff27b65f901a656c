#include "supervisor/memory_reader.h"

#include <fcntl.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace forensics {

void MemoryReader::read_pages(const std::vector<std::uint64_t>& pages, std::byte* target,
                              std::vector<bool>& readable) const {
  readable.assign(pages.size(), false);
  for (std::size_t index = 0; index < pages.size(); ++index) {
    readable[index] = read(pages[index], target + index * kPageSize, kPageSize) == kPageSize;
  }
}

std::size_t read_directly(pid_t pid, std::uint64_t address, std::byte* target, std::size_t size) {
  const iovec local{target, size};
  // By pages: a read that ends in an unreadable one still gives those before it.
  std::array<iovec, 128> remote{};
  std::size_t count = 0;
  for (std::uint64_t at = address; at < address + size && count < remote.size(); ++count) {
    const std::uint64_t end = std::min((at & kPageMask) + kPageSize, address + size);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is another process's
    remote.at(count) = {reinterpret_cast<void*>(at), end - at};
    at = end;
  }
  const ssize_t got = ::process_vm_readv(pid, &local, 1, remote.data(), count, 0);
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

ProcessMemory::ProcessMemory(pid_t pid)
    : pid_(pid),
      file_(::open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC)) {}

std::size_t ProcessMemory::read(std::uint64_t address, std::byte* target, std::size_t size) const {
  const iovec local{target, size};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is another process's
  const iovec remote{reinterpret_cast<void*>(address), size};
  const ssize_t direct = ::process_vm_readv(pid_, &local, 1, &remote, 1, 0);
  std::size_t done = direct > 0 ? static_cast<std::size_t>(direct) : 0;
  while (done < size && file_) {
    const ssize_t got =
        ::pread(file_.get(), target + done, size - done, static_cast<off_t>(address + done));
    if (got <= 0) {
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void ProcessMemory::read_pages(const std::vector<std::uint64_t>& pages, std::byte* target,
                               std::vector<bool>& readable) const {
  readable.assign(pages.size(), false);
  constexpr std::size_t kBatch = 256;
  std::array<iovec, kBatch> remote{};
  std::size_t next = 0;
  while (next < pages.size()) {
    const std::size_t count = std::min(kBatch, pages.size() - next);
    for (std::size_t index = 0; index < count; ++index) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is another process's
      remote.at(index) = {reinterpret_cast<void*>(pages[next + index]), kPageSize};
    }
    const iovec local{target + next * kPageSize, count * kPageSize};
    const ssize_t got = ::process_vm_readv(pid_, &local, 1, remote.data(), count, 0);
    const std::size_t whole = got > 0 ? static_cast<std::size_t>(got) / kPageSize : 0;
    std::fill_n(readable.begin() + static_cast<std::ptrdiff_t>(next), whole, true);
    next += whole;
    if (whole < count) {  // It stops at the first page that it cannot read.
      readable[next] = read(pages[next], target + next * kPageSize, kPageSize) == kPageSize;
      ++next;
    }
  }
}

std::size_t OverlaidMemory::read(std::uint64_t address, std::byte* target, std::size_t size) const {
  const std::size_t got = below_.read(address, target, size);
  lay_over(address, target, got);
  return got;
}

void OverlaidMemory::read_pages(const std::vector<std::uint64_t>& pages, std::byte* target,
                                std::vector<bool>& readable) const {
  below_.read_pages(pages, target, readable);
  for (std::size_t index = 0; index < pages.size(); ++index) {
    lay_over(pages[index], target + index * kPageSize, kPageSize);
  }
}

void OverlaidMemory::lay_over(std::uint64_t address, std::byte* target, std::size_t size) const {
  const std::uint64_t from = std::max(address, start_);
  const std::uint64_t to = std::min(address + size, start_ + piece_.size());
  if (from < to) {
    std::memcpy(target + (from - address), piece_.data() + (from - start_), to - from);
  }
}

}  // namespace forensics
