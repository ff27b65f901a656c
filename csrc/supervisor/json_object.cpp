#include "supervisor/json_object.h"

#include <array>
#include <cstddef>
#include <cstdio>

namespace forensics {
namespace {

/// The length of the UTF-8 sequence at the front, 0 if there is none.
std::size_t sequence_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length > text.size()) {
    return 0;
  }
  for (std::size_t at = 1; at < length; ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80) {
      return 0;
    }
  }
  if (length >= 3) {  // overlong forms, surrogates, beyond U+10FFFF
    const auto second = static_cast<unsigned char>(text[1]);
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
        (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) {
      return 0;
    }
  }
  return length;
}

std::string escape_unit(unsigned int unit) {
  std::array<char, 8> text{};
  static_cast<void>(std::snprintf(text.data(), text.size(), "\\u%04x", unit));
  return text.data();
}

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text.front());
    std::size_t length = sequence_length(text);
    if (length == 0) {
      quoted += escape_unit(0xDC00U + first);
      length = 1;
    } else if (first == '"' || first == '\\') {
      quoted += '\\';
      quoted += text.front();
    } else if (first < 0x20) {
      quoted += escape_unit(first);
    } else {
      quoted += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return quoted + '"';
}

}  // namespace

void JsonObject::add(std::string_view name, std::string_view value) { add_raw(name, quote(value)); }

void JsonObject::add_hex(std::string_view name, std::uint64_t value) {
  std::array<char, 24> text{};
  static_cast<void>(std::snprintf(text.data(), text.size(), "\"0x%llx\"",
                                  static_cast<unsigned long long>(value)));
  add_raw(name, text.data());
}

void JsonObject::add_raw(std::string_view name, std::string_view json) {
  if (!members_.empty()) {
    members_ += ", ";
  }
  members_ += quote(name);
  members_ += ": ";
  members_ += json;
}

}  // namespace forensics
