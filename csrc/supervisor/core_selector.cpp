#include "supervisor/core_selector.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>

namespace forensics {
namespace {

constexpr std::uint64_t kRedZone = 128;  // x86-64: a leaf function's variables below its sp
constexpr std::uint64_t kCrashStack = std::uint64_t{2} << 20U;
constexpr std::uint64_t kOtherStack = std::uint64_t{256} << 10U;
constexpr std::uint64_t kZeroData = std::uint64_t{4} << 20U;  // .bss of one module
constexpr std::uint64_t kBefore = 256;  // around a pointer: an object's header, its fields
constexpr std::uint64_t kBehind = 1024;
constexpr std::uint64_t kStaticTls = 4096;
constexpr std::uint64_t kThreadStruct = 2304;  // glibc's struct pthread, x86-64
constexpr std::uint64_t kLinkMap = 1200;       // ld.so's private part follows the public one
constexpr int kMaxModules = 8192;
constexpr std::size_t kMostPath = 4096;
constexpr std::size_t kBatch = 64;

bool is_readable(const MemoryMap& map) {
  return map.readable && !map.never_read && map.path != "[vsyscall]" && map.path != "[vvar]";
}

/// Would a reader of the core find nothing about it in the files of this machine?
bool differs_from_file(const MemoryMap& map) {
  if (!is_file_backed(map) || is_memory_only(map)) {
    return true;
  }
  return !map.shared && (map.writable || map.has_own_pages);
}

bool is_module_data(const MemoryMap& map) {
  return is_readable(map) && is_file_backed(map) && !map.shared && !map.executable &&
         (map.writable || map.has_own_pages);
}

}  // namespace

CoreSelector::CoreSelector(const ProcessImage& image, const SelectionLimits& limits)
    : image_(image),
      everything_(limits.everything),
      limit_pages_(limits.everything ? SIZE_MAX : limits.budget / kPageSize) {
  is_target_.reserve(image.maps.size());
  for (const MemoryMap& map : image.maps) {
    is_target_.push_back(is_readable(map) && differs_from_file(map));
    if (map.never_read) {
      result_.excluded_bytes += map.end - map.start;
    }
  }
}

Selection CoreSelector::select() {
  if (image_.threads.empty()) {
    return finish();
  }
  const ThreadState& crashed = image_.threads.front();
  add_stack(crashed, std::min(kCrashStack, limit_pages_ / 2 * kPageSize), Reason::crash_stack);
  for (const std::uint64_t value : crashed.registers) {
    add_around(value, Reason::registers);
  }
  if (image_.fault_address) {
    add_around(*image_.fault_address, Reason::registers);
  }
  add_thread_data(crashed);
  add_elf_headers();
  add_link_maps();
  add_stacks();
  const std::size_t first_python = chosen_.size();
  add_python();
  const std::size_t first_data = chosen_.size();
  // Half of what is left for data, so that some is left for what stacks and data point at.
  const std::size_t left = limit_pages_ - std::min(limit_pages_, first_data);
  add_module_data(everything_ ? UINT64_MAX : left / 2 * kPageSize);
  const std::size_t first_hop = chosen_.size();
  follow(0, first_python, Reason::one_hop);
  follow(first_data, first_hop, Reason::one_hop);
  const std::size_t second_hop = chosen_.size();
  follow(first_hop, second_hop, Reason::two_hops);
  // Last: code points at all that it may ever use.
  follow(first_python, first_data, Reason::two_hops);
  add_module_data(UINT64_MAX);
  if (everything_) {
    add_everything();
  }
  return finish();
}

const MemoryMap* CoreSelector::map_at(std::uint64_t address) const {
  const std::vector<MemoryMap>& maps = image_.maps;
  if (last_map_ < maps.size() && address >= maps[last_map_].start &&
      address < maps[last_map_].end) {
    return &maps[last_map_];
  }
  const auto behind =
      std::upper_bound(maps.begin(), maps.end(), address,
                       [](std::uint64_t value, const MemoryMap& map) { return value < map.start; });
  if (behind == maps.begin() || address >= std::prev(behind)->end) {
    return nullptr;
  }
  last_map_ = static_cast<std::size_t>(std::prev(behind) - maps.begin());
  return &maps[last_map_];
}

bool CoreSelector::add_page(std::uint64_t address, Reason reason) {
  const std::uint64_t page = address & kPageMask;
  const MemoryMap* map = map_at(address);
  if (map == nullptr || !is_readable(*map) || !seen_.insert(page)) {
    return false;
  }
  if (is_full()) {
    result_.dropped_bytes.at(static_cast<std::size_t>(reason)) += kPageSize;
    return false;
  }
  chosen_.push_back({page, reason, true});
  return true;
}

void CoreSelector::add_range(std::uint64_t start, std::uint64_t end, Reason reason) {
  for (std::uint64_t page = start & kPageMask; page < end; page += kPageSize) {
    add_page(page, reason);
  }
}

void CoreSelector::add_around(std::uint64_t address, Reason reason) {
  if (map_at(address) == nullptr) {
    return;
  }
  add_page(address, reason);
  add_page(address - std::min(address, kBefore), reason);
  add_page(address + kBehind, reason);
}

void CoreSelector::add_stack(const ThreadState& thread, std::uint64_t most_bytes, Reason reason) {
  const std::uint64_t start = (thread.stack_pointer - kRedZone) & kPageMask;
  const MemoryMap* map = map_at(thread.stack_pointer);
  if (map == nullptr) {
    // It ran into the guard below its stack: the stack is the next mapping up.
    map = map_at((thread.stack_pointer + kPageSize) & kPageMask);
  }
  if (map == nullptr) {
    return;
  }
  const std::uint64_t low = std::max(start, map->start);
  if (map->end - low <= most_bytes) {
    add_range(low, map->end, reason);
    return;
  }
  // Both ends: where it died, and how it got there. Between them a recursion repeats itself.
  const std::uint64_t top = (map->end - most_bytes / 4) & kPageMask;
  const std::uint64_t bottom = (low + most_bytes / 4 * 3) & kPageMask;
  add_range(low, bottom, reason);
  // A stack that is part of something larger (a coroutine's on the heap) has no top to be found.
  if (map->path == "[stack]" || map->end - map->start <= (std::uint64_t{64} << 20U)) {
    add_range(top, map->end, reason);
  }
  result_.dropped_bytes.at(static_cast<std::size_t>(reason)) += top - bottom;
}

void CoreSelector::add_stacks() {
  const std::size_t before = chosen_.size();
  const std::size_t share = limit_pages_ / 3;
  for (std::size_t index = 1; index < image_.threads.size(); ++index) {
    const ThreadState& thread = image_.threads[index];
    // Near the end of what all stacks may take, each later thread keeps its innermost frames.
    const bool plenty = chosen_.size() - before < share;
    add_stack(thread, plenty ? kOtherStack : kPageSize * 4, Reason::stacks);
    add_page(thread.program_counter, Reason::registers);
    add_thread_data(thread);
  }
}

void CoreSelector::add_thread_data(const ThreadState& thread) {
  if (map_at(thread.thread_pointer) != nullptr) {
    add_range(thread.thread_pointer - std::min(thread.thread_pointer, kStaticTls),
              thread.thread_pointer + kThreadStruct, Reason::thread_data);
  }
}

void CoreSelector::add_elf_headers() {
  for (const MemoryMap& map : image_.maps) {
    if (map.path == "[vdso]") {
      add_range(map.start, map.end, Reason::elf_headers);
      continue;
    }
    std::array<unsigned char, SELFMAG> magic{};
    if (map.file_offset == 0 && is_file_backed(map) && is_readable(map) &&
        image_.memory->read_value(map.start, magic) &&
        std::memcmp(magic.data(), ELFMAG, SELFMAG) == 0) {
      add_page(map.start, Reason::elf_headers);
    }
  }
}

void CoreSelector::add_link_maps() {
  const std::uint64_t headers = image_.auxiliary(AT_PHDR);
  const std::uint64_t count = std::min<std::uint64_t>(image_.auxiliary(AT_PHNUM), 256);
  std::uint64_t bias = 0;
  for (std::uint64_t index = 0; index < count; ++index) {
    ElfW(Phdr) header{};
    if (!image_.memory->read_value(headers + index * sizeof header, header)) {
      return;
    }
    if (header.p_type == PT_PHDR) {
      bias = headers - header.p_vaddr;
    } else if (header.p_type == PT_DYNAMIC) {
      const std::uint64_t dynamic = bias + header.p_vaddr;
      add_range(dynamic, dynamic + header.p_memsz, Reason::link_map);
      for (std::uint64_t at = 0; at + sizeof(ElfW(Dyn)) <= header.p_memsz;
           at += sizeof(ElfW(Dyn))) {
        ElfW(Dyn) entry{};
        if (!image_.memory->read_value(dynamic + at, entry) || entry.d_tag == DT_NULL) {
          break;
        }
        if (entry.d_tag == DT_DEBUG) {
          add_link_map_chain(entry.d_un.d_ptr);
        }
      }
    }
  }
}

/// ld.so's list of modules (link.h), which readers walk to find where each was loaded.
void CoreSelector::add_link_map_chain(std::uint64_t debug) {
  r_debug head{};
  if (!image_.memory->read_value(debug, head)) {
    return;
  }
  add_range(debug, debug + sizeof head + sizeof(void*), Reason::link_map);
  auto at = reinterpret_cast<std::uint64_t>(head.r_map);
  for (int count = 0; at != 0 && count < kMaxModules; ++count) {
    link_map node{};
    if (!image_.memory->read_value(at, node)) {
      return;
    }
    add_range(at, at + kLinkMap, Reason::link_map);
    const auto name = reinterpret_cast<std::uint64_t>(node.l_name);
    add_range(name, name + kBefore, Reason::link_map);
    modules_.push_back({node.l_addr, reinterpret_cast<std::uint64_t>(node.l_ld), text_at(name)});
    add_page(reinterpret_cast<std::uint64_t>(node.l_ld), Reason::link_map);
    at = reinterpret_cast<std::uint64_t>(node.l_next);
  }
}

/// What Python's stacks are read from: it lies several hops from a thread's stack.
void CoreSelector::add_python() {
  const std::size_t most = chosen_.size() + limit_pages_ / 8;
  for (const MemoryRange& range : find_python_memory(*image_.memory, modules_)) {
    if (chosen_.size() >= most) {
      return;
    }
    add_range(range.start, range.end, Reason::python);
  }
}

/// The path of a module; what is longer than a path may be is cut off.
std::string CoreSelector::text_at(std::uint64_t address) const {
  std::string text(kMostPath, '\0');
  text.resize(image_.memory->read(address, reinterpret_cast<std::byte*>(text.data()), kMostPath));
  return text.substr(0, text.find('\0'));
}

/// .data, .bss and what ld.so relocated, the smallest first: a module that is mostly data would
/// push out the others.
void CoreSelector::add_module_data(std::uint64_t most_bytes) {
  std::vector<MemoryMap> data;
  const MemoryMap* before = nullptr;
  for (const MemoryMap& map : image_.maps) {
    if (is_module_data(map)) {
      data.push_back(map);
    } else if (before != nullptr && before->end == map.start && is_module_data(*before) &&
               map.path.empty() && map.writable && is_readable(map)) {
      data.push_back(map);
      data.back().end = std::min(map.end, map.start + kZeroData);
    }
    before = &map;
  }
  std::stable_sort(data.begin(), data.end(), [](const MemoryMap& left, const MemoryMap& right) {
    return left.end - left.start < right.end - right.start;
  });
  std::uint64_t taken = 0;
  for (const MemoryMap& map : data) {
    taken += map.end - map.start;
    if (taken > most_bytes) {
      return;
    }
    add_range(map.start, map.end, Reason::module_data);
  }
}

/// What the kernel's coredump_filter keeps by default: anonymous memory and changed file pages.
void CoreSelector::add_everything() {
  for (std::size_t index = 0; index < image_.maps.size(); ++index) {
    if (is_target_[index]) {
      add_range(image_.maps[index].start, image_.maps[index].end, Reason::everything);
    }
  }
}

void CoreSelector::follow(std::size_t from, std::size_t to, Reason reason) {
  std::vector<std::uint64_t> pages;
  std::vector<bool> readable;
  std::vector<std::byte> bytes(kBatch * kPageSize);
  for (std::size_t first = from; first < to; first += kBatch) {
    if (is_full()) {
      result_.unfollowed_pages += to - first;
      return;
    }
    const std::size_t count = std::min(kBatch, to - first);
    pages.clear();
    for (std::size_t index = 0; index < count; ++index) {
      pages.push_back(chosen_[first + index].page);
    }
    image_.memory->read_pages(pages, bytes.data(), readable);
    for (std::size_t index = 0; index < count; ++index) {
      Chosen& source = chosen_[first + index];
      source.readable = readable[index];
      if (source.readable && source.reason != Reason::elf_headers) {
        follow_words(bytes.data() + index * kPageSize, reason);
      }
    }
  }
}

void CoreSelector::follow_words(const std::byte* page, Reason reason) {
  const std::uint64_t low = image_.maps.front().start;
  const std::uint64_t high = image_.maps.back().end;
  for (std::size_t at = 0; at < kPageSize; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, page + at, sizeof word);
    const std::uint64_t target = word & kPageMask;
    if (word < low || word >= high || target == last_page_) {
      continue;
    }
    const MemoryMap* map = map_at(word);
    if (map == nullptr || !is_target_[static_cast<std::size_t>(map - image_.maps.data())]) {
      continue;
    }
    last_page_ = target;
    add_page(word, reason);
  }
}

Selection CoreSelector::finish() {
  // The last hop's pages were not read yet, and a segment may only promise what can be had.
  std::vector<std::uint64_t> pages;
  std::vector<bool> readable;
  std::sort(chosen_.begin(), chosen_.end(),
            [](const Chosen& left, const Chosen& right) { return left.page < right.page; });
  std::vector<std::byte> bytes(kBatch * kPageSize);
  for (std::size_t first = 0; first < chosen_.size(); first += kBatch) {
    const std::size_t count = std::min(kBatch, chosen_.size() - first);
    pages.clear();
    for (std::size_t index = 0; index < count; ++index) {
      pages.push_back(chosen_[first + index].page);
    }
    image_.memory->read_pages(pages, bytes.data(), readable);
    for (std::size_t index = 0; index < count; ++index) {
      const auto reason = static_cast<std::size_t>(chosen_[first + index].reason);
      if (readable[index]) {
        result_.pages.push_back(pages[index]);
        result_.kept_bytes.at(reason) += kPageSize;
      } else {
        result_.unreadable_bytes += kPageSize;
      }
    }
  }
  return std::move(result_);
}

}  // namespace forensics
