#include "unwinder/elf_file.h"

#include <fcntl.h>
#include <gelf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string_view>

namespace forensics::unwinder {
namespace {

constexpr std::size_t kMaxSymbols = 4'000'000;
constexpr std::size_t kMaxOpenFiles = 512;

bool is_function(const GElf_Sym& symbol) {
  const int type = GELF_ST_TYPE(symbol.st_info);
  return (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE) &&
         symbol.st_shndx != SHN_UNDEF && symbol.st_shndx != SHN_ABS;
}

/// A table may name a function several times; a global name says more than a local one, and of
/// pthread_mutex_lock and ___pthread_mutex_lock the first is what people call.
int rank(const GElf_Sym& symbol) {
  if (GELF_ST_TYPE(symbol.st_info) == STT_NOTYPE) return 2;
  switch (GELF_ST_BIND(symbol.st_info)) {
    case STB_GLOBAL:
    case STB_WEAK:
      return 0;
    default:
      return 1;
  }
}

std::size_t underscores_of(std::string_view name) {
  return std::min(name.find_first_not_of('_'), name.size());
}

bool is_better(const FunctionSymbol& a, const FunctionSymbol& b) {
  const std::string_view first = a.name;
  const std::string_view second = b.name;
  if (underscores_of(first) != underscores_of(second)) {
    return underscores_of(first) < underscores_of(second);
  }
  return first.size() != second.size() ? first.size() < second.size() : first < second;
}

struct stat state_of(const std::string& path) {
  struct stat state{};
  if (::stat(path.c_str(), &state) != 0 || !S_ISREG(state.st_mode)) {
    throw std::runtime_error(path + " is no readable file");
  }
  return state;
}

}  // namespace

ElfFile::ElfFile(const std::string& path)
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): open(2) is declared so
    : fd_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  elf_version(EV_CURRENT);
  if (fd_) elf_ = elf_begin(fd_.get(), ELF_C_READ_MMAP, nullptr);
  if (elf_ == nullptr || elf_kind(elf_) != ELF_K_ELF) {
    elf_end(elf_);
    throw std::runtime_error(path + " cannot be read as an ELF file");
  }
}

ElfFile::~ElfFile() { elf_end(elf_); }

Elf* ElfFile::share() const { return elf_begin(fd_.get(), ELF_C_READ_MMAP, elf_); }

const FunctionSymbol* ElfFile::function_at(std::uint64_t address) {
  if (!has_read_symbols_) read_symbols();
  auto next = std::upper_bound(
      functions_.begin(), functions_.end(), address,
      [](std::uint64_t wanted, const FunctionSymbol& symbol) { return wanted < symbol.start; });
  if (next == functions_.begin()) return nullptr;
  const FunctionSymbol& found = *std::prev(next);
  // Assembly has functions without a size: they reach to the next one.
  const std::uint64_t end = found.size != 0
                                ? found.start + found.size
                                : (next == functions_.end() ? found.start + 1 : next->start);
  return address < end ? &found : nullptr;
}

void ElfFile::read_symbols() {
  has_read_symbols_ = true;
  Elf_Scn* full = nullptr;
  Elf_Scn* dynamic = nullptr;
  Elf_Scn* section = nullptr;
  while ((section = elf_nextscn(elf_, section)) != nullptr) {
    GElf_Shdr header{};
    if (gelf_getshdr(section, &header) == nullptr) continue;
    if (header.sh_type == SHT_SYMTAB) full = section;
    if (header.sh_type == SHT_DYNSYM) dynamic = section;
  }
  if (full != nullptr || dynamic != nullptr) read_table(full != nullptr ? full : dynamic);
}

void ElfFile::read_table(Elf_Scn* section) {
  GElf_Shdr header{};
  Elf_Data* data = elf_getdata(section, nullptr);
  if (gelf_getshdr(section, &header) == nullptr || data == nullptr || header.sh_entsize == 0)
    return;
  struct Ranked {
    FunctionSymbol symbol;
    int rank;
  };
  std::vector<Ranked> found;
  const std::size_t count = std::min<std::size_t>(data->d_size / header.sh_entsize, kMaxSymbols);
  for (std::size_t at = 0; at < count; ++at) {
    GElf_Sym symbol{};
    if (gelf_getsym(data, static_cast<int>(at), &symbol) == nullptr) break;
    if (!is_function(symbol)) continue;
    const char* name = elf_strptr(elf_, header.sh_link, symbol.st_name);
    if (name == nullptr || *name == '\0') continue;
    found.push_back({{symbol.st_value, symbol.st_size, name}, rank(symbol)});
  }
  std::sort(found.begin(), found.end(), [](const Ranked& a, const Ranked& b) {
    if (a.symbol.start != b.symbol.start) return a.symbol.start < b.symbol.start;
    return a.rank != b.rank ? a.rank < b.rank : is_better(a.symbol, b.symbol);
  });
  for (const Ranked& entry : found) {
    if (functions_.empty() || functions_.back().start != entry.symbol.start) {
      functions_.push_back(entry.symbol);
    }
  }
}

std::shared_ptr<ElfFile> ElfFiles::open(const std::string& path) {
  const struct stat state = state_of(path);
  const std::int64_t changed =
      (static_cast<std::int64_t>(state.st_mtim.tv_sec) * 1'000'000'000) + state.st_mtim.tv_nsec;
  const auto known = files_.find(path);
  if (known != files_.end()) {
    const Entry& entry = known->second;
    if (entry.device == state.st_dev && entry.inode == state.st_ino &&
        entry.changed_ns == changed) {
      return entry.file;
    }
    files_.erase(known);
  }
  if (files_.size() >= kMaxOpenFiles) files_.clear();
  auto file = std::make_shared<ElfFile>(path);
  files_.emplace(path, Entry{state.st_dev, state.st_ino, changed, file});
  return file;
}

}  // namespace forensics::unwinder
