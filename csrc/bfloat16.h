#ifndef VLLM_FORENSICS_BFLOAT16_H_
#define VLLM_FORENSICS_BFLOAT16_H_

#include <cstdint>
#include <cstring>

namespace vllm {

/// The upper half of an IEEE 754 binary32: 1 sign, 8 exponent and 7 fraction bits.
class Bfloat16 {
 public:
  Bfloat16() = default;

  /// Rounds to the nearest, ties to even; a NaN stays a NaN (made quiet), overflow is infinity.
  explicit Bfloat16(float value) noexcept {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    constexpr std::uint32_t kMagnitude = 0x7fffffffU;
    constexpr std::uint32_t kInfinity = 0x7f800000U;
    if ((bits & kMagnitude) > kInfinity) {
      bits_ = static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
      return;
    }
    const std::uint32_t half_minus_tie = 0x7fffU + ((bits >> 16U) & 1U);
    bits_ = static_cast<std::uint16_t>((bits + half_minus_tie) >> 16U);
  }

  /// The same number as a float; exact.
  [[nodiscard]] float to_float() const noexcept {
    const std::uint32_t bits = static_cast<std::uint32_t>(bits_) << 16U;
    float value = 0.0F;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

  [[nodiscard]] std::uint16_t bits() const noexcept { return bits_; }

 private:
  std::uint16_t bits_ = 0;
};

static_assert(sizeof(Bfloat16) == 2, "a bfloat16 is two bytes in the cache");

}  // namespace vllm

#endif  // VLLM_FORENSICS_BFLOAT16_H_
