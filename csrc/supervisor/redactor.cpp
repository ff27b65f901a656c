#include "supervisor/redactor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

namespace forensics {
namespace {

constexpr std::size_t kShortest = 8;
constexpr std::size_t kLongest = 8192;

std::uint64_t word_at(const char* text) {
  std::uint64_t word = 0;
  std::memcpy(&word, text, sizeof word);
  return word;
}

std::size_t hash_of(std::uint64_t word) { return (word * 0x9E3779B97F4A7C15U) >> 48U; }

std::size_t hash_of(const char* text) { return hash_of(word_at(text)); }

bool contains_digit(std::string_view text) {
  return text.find_first_of("0123456789") != std::string_view::npos;
}

/// As wchar_t strings hold it: Python keeps its arguments so. Each letter of ASCII, or each byte of
/// what is not, in four bytes of this machine's order.
std::string widened(const std::string& value) {
  std::string wide;
  wide.reserve(value.size() * sizeof(char32_t));
  std::size_t at = 0;
  while (at < value.size()) {
    const auto lead = static_cast<unsigned char>(value[at]);
    // UTF-8 (RFC 3629): how many bytes follow, and which bits of the first count.
    const std::size_t following = lead >= 0xF0U ? 3 : lead >= 0xE0U ? 2 : lead >= 0xC0U ? 1 : 0;
    char32_t letter = following == 0 ? lead : lead & (0x3FU >> following);
    for (std::size_t next = 1; next <= following && at + next < value.size(); ++next) {
      letter = (letter << 6U) | (static_cast<unsigned char>(value[at + next]) & 0x3FU);
    }
    at += following + 1;
    std::array<char, sizeof letter> bytes{};
    std::memcpy(bytes.data(), &letter, sizeof letter);
    wide.append(bytes.data(), bytes.size());
  }
  return wide;
}

}  // namespace

bool Redactor::is_secret_shaped(std::string_view value) {
  if (value.size() < kShortest) {
    return false;
  }
  if (value.front() == '/' || value.front() == '.' || value.find(":/") == 0) {
    return false;  // a path, or a list of them
  }
  if (value.front() == '-' && value.find('=') == std::string_view::npos) {
    return false;  // the name of an option
  }
  if (value.size() > 3 && value.substr(value.size() - 3) == ".py") {
    return false;
  }
  if (value.find_first_not_of("0123456789.:,x") == std::string_view::npos && value.size() < 12) {
    return false;
  }
  const bool plain =
      value.find_first_not_of("abcdefghijklmnopqrstuvwxyz_./") == std::string_view::npos;
  return !plain || contains_digit(value);
}

void Redactor::add_range(std::uint64_t start, std::uint64_t end) {
  if (start < end) {
    ranges_.emplace_back(start, end);
  }
}

void Redactor::add_strings(std::string_view block) {
  while (!block.empty()) {
    const std::size_t end = std::min(block.find('\0'), block.size());
    const std::string_view text = block.substr(0, end);
    block.remove_prefix(std::min(end + 1, block.size()));
    add_value(text);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      add_value(text.substr(equals + 1));
    }
  }
}

void Redactor::add_value(std::string_view value) {
  if (is_secret_shaped(value)) {
    values_.emplace_back(value.substr(0, kLongest));
  }
}

void Redactor::prepare(const ProcessImage& image) {
  const auto names_file = [&](const std::string& value) {
    return std::any_of(image.maps.begin(), image.maps.end(), [&](const MemoryMap& map) {
      return map.path.find(value) != std::string::npos;
    });
  };
  values_.erase(std::remove_if(values_.begin(), values_.end(), names_file), values_.end());
  prepare_parts(image.maps);
  const std::vector<std::string> narrow = values_;
  for (const std::string& value : narrow) {
    values_.push_back(widened(value));
  }
  std::sort(values_.begin(), values_.end());
  values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
  for (const std::string& value : values_) {
    prefixes_.set(hash_of(value.data()));
    longest_ = std::max(longest_, value.size());
  }
  for (const ThreadState& thread : image.threads) {
    for (const MemoryMap& map : image.maps) {
      if (map.start <= thread.stack_pointer && thread.stack_pointer < map.end) {
        stacks_.emplace_back(map.start, map.end);
      }
    }
  }
}

void Redactor::prepare_parts(const std::vector<MemoryMap>& maps) {
  const auto words_of = [](std::string_view text, std::vector<std::uint64_t>& words) {
    for (std::size_t at = 0; at + kPrefix <= text.size(); ++at) {
      words.push_back(word_at(text.data() + at));
    }
  };
  const auto sort = [](std::vector<std::uint64_t>& words) {
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
  };
  std::vector<std::uint64_t> secret;
  for (const std::string& value : values_) {
    words_of(value, secret);
  }
  sort(secret);
  std::vector<std::uint64_t> named;
  for (const MemoryMap& map : maps) {
    words_of(map.path, named);
  }
  sort(named);
  std::set_difference(secret.begin(), secret.end(), named.begin(), named.end(),
                      std::back_inserter(parts_));
  for (const std::uint64_t part : parts_) {
    part_hashes_.set(hash_of(part));
  }
}

void Redactor::redact(const MemoryReader& memory, std::uint64_t address, std::byte* bytes,
                      std::size_t size) const {
  for (const auto& [start, end] : ranges_) {
    const std::uint64_t from = std::max(start, address);
    const std::uint64_t to = std::min(end, address + size);
    if (from < to) {
      std::memset(bytes + (from - address), 0, to - from);
    }
  }
  if (values_.empty()) {
    return;
  }
  // The same bytes with a margin, as far as it can be read.
  const std::size_t margin = std::min<std::uint64_t>(longest_, address);
  std::vector<char> wide(margin + size + margin, '\0');
  auto* start = reinterpret_cast<std::byte*>(wide.data());
  // Nearest page first: further down there may be nothing.
  for (std::size_t done = 0; done < margin;) {
    const std::size_t page = std::min<std::size_t>(kPageSize, margin - done);
    if (memory.read(address - done - page, start + margin - done - page, page) != page) {
      break;
    }
    done += page;
  }
  std::memcpy(start + margin, bytes, size);
  static_cast<void>(memory.read(address + size, start + margin + size, margin));
  blank_values(wide.data(), wide.size());
  const bool is_stack = std::any_of(stacks_.begin(), stacks_.end(), [&](const Range& stack) {
    return stack.first <= address && address < stack.second;
  });
  if (is_stack) {
    blank_parts(wide.data(), wide.size());
  }
  std::memcpy(bytes, start + margin, size);
}

void Redactor::redact_registers(std::vector<std::byte>& bytes) const {
  auto* text = reinterpret_cast<char*>(bytes.data());
  blank_values(text, bytes.size());
  blank_parts(text, bytes.size());
}

void Redactor::blank_values(char* text, std::size_t size) const {
  for (std::size_t at = 0; at + kPrefix <= size; ++at) {
    if (!prefixes_.test(hash_of(text + at))) {
      continue;
    }
    std::size_t longest = 0;
    for (const std::string& value : values_) {
      if (value.size() > longest && value.size() <= size - at &&
          std::memcmp(text + at, value.data(), value.size()) == 0) {
        longest = value.size();
      }
    }
    if (longest != 0) {
      std::memset(text + at, 0, longest);
      at += longest - 1;
    }
  }
}

void Redactor::blank_parts(char* text, std::size_t size) const {
  const std::string before(text, size);  // parts overlap
  for (std::size_t at = 0; at + kPrefix <= size; ++at) {
    const std::uint64_t word = word_at(before.data() + at);
    if (part_hashes_.test(hash_of(word)) &&
        std::binary_search(parts_.begin(), parts_.end(), word)) {
      std::memset(text + at, 0, kPrefix);
    }
  }
}

}  // namespace forensics
