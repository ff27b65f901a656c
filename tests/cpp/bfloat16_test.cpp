#include "bfloat16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace {

using vllm::Bfloat16;

float from_bits(std::uint32_t bits) {
  float value = 0.0F;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

TEST(Bfloat16, KeepsWhatItCanHold) {
  for (const float value : {0.0F, 1.0F, -2.5F, 0.15625F}) {
    EXPECT_EQ(Bfloat16(value).to_float(), value);
  }
  EXPECT_TRUE(std::signbit(Bfloat16(-0.0F).to_float()));
}

TEST(Bfloat16, RoundsToTheNearest) {
  EXPECT_EQ(Bfloat16(from_bits(0x3f800001)).bits(), 0x3f80);
  EXPECT_EQ(Bfloat16(from_bits(0x3f807fff)).bits(), 0x3f80);
  EXPECT_EQ(Bfloat16(from_bits(0x3f808001)).bits(), 0x3f81);
}

TEST(Bfloat16, TiesGoToEven) {
  EXPECT_EQ(Bfloat16(from_bits(0x3f808000)).bits(), 0x3f80);
  EXPECT_EQ(Bfloat16(from_bits(0x3f818000)).bits(), 0x3f82);
}

TEST(Bfloat16, TheLargestFloatRoundsToInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();

  EXPECT_EQ(Bfloat16(std::numeric_limits<float>::max()).to_float(), infinity);
  EXPECT_EQ(Bfloat16(-infinity).to_float(), -infinity);
}

TEST(Bfloat16, NanStaysNanEvenIfItsFractionIsInTheLowerHalf) {
  EXPECT_TRUE(std::isnan(Bfloat16(from_bits(0x7f800001)).to_float()));
  EXPECT_TRUE(std::isnan(Bfloat16(std::numeric_limits<float>::quiet_NaN()).to_float()));
}

TEST(Bfloat16, SmallestSubnormalsAreRoundedNotFlushed) {
  EXPECT_EQ(Bfloat16(from_bits(0x00018000)).bits(), 0x0002);
}

}  // namespace
