#ifndef VLLM_FORENSICS_SUPERVISOR_JSON_OBJECT_H_
#define VLLM_FORENSICS_SUPERVISOR_JSON_OBJECT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace forensics {

/// Builds the text of one JSON object, member by member. A name or text that is not UTF-8 is
/// written with its stray bytes as \udc80 to \udcff, Python's surrogateescape.
class JsonObject {
 public:
  template <typename Number, std::enable_if_t<std::is_integral_v<Number>, int> = 0>
  void add(std::string_view name, Number value) {
    if constexpr (std::is_same_v<Number, bool>) {
      add_raw(name, value ? "true" : "false");
    } else {
      add_raw(name, std::to_string(value));
    }
  }
  void add(std::string_view name, std::string_view value);
  void add(std::string_view name, const char* value) { add(name, std::string_view(value)); }
  void add(std::string_view name, const std::string& value) { add(name, std::string_view(value)); }

  /// An address as "0x1f", as our other JSON writes them.
  void add_hex(std::string_view name, std::uint64_t value);

  /// A member whose value is JSON already.
  void add_raw(std::string_view name, std::string_view json);

  [[nodiscard]] std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_JSON_OBJECT_H_
