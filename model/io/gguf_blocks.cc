// SPDX-License-Identifier: MIT
#include "model/io/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "model/compute/weights.h"

namespace mnemon {
namespace {

constexpr int kSmall = 32;   // numbers per block of Q4_0 to Q8_0
constexpr int kLarge = 256;  // per block of the K formats

template <class T>
T Load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

float LoadHalf(const uint8_t* from) { return FloatOfFp16(Load<uint16_t>(from)); }

// Each decodes one block.
void DecodeF32(const uint8_t* from, float* to) { *to = Load<float>(from); }
void DecodeF16(const uint8_t* from, float* to) { *to = LoadHalf(from); }
void DecodeBf16(const uint8_t* from, float* to) {
  *to = FloatOfBf16(Load<uint16_t>(from));
}

// d (q - 8), or d q + m; with a fifth bit d (q - 16). The first half of the numbers are
// the low four bits.
template <bool kMinimum, bool kFifthBit>
void DecodeSmall(const uint8_t* from, float* to) {
  const float scale = LoadHalf(from);
  from += 2;
  float minimum = 0;
  if (kMinimum) {
    minimum = LoadHalf(from);
    from += 2;
  }
  uint32_t fifth = 0;
  if (kFifthBit) {
    fifth = Load<uint32_t>(from);
    from += 4;
  }
  constexpr int kZero = kMinimum ? 0 : kFifthBit ? 16 : 8;
  for (int i = 0; i < kSmall; ++i) {
    const uint8_t both = from[i % (kSmall / 2)];
    int number = i < kSmall / 2 ? both & 15 : both >> 4;
    number |= static_cast<int>(fifth >> i & 1) << 4;
    const float product = scale * static_cast<float>(number - kZero);
    to[i] = kMinimum ? product + minimum : product;
  }
}

void DecodeQ8(const uint8_t* from, float* to) {
  const float scale = LoadHalf(from);
  for (int i = 0; i < kSmall; ++i) {
    to[i] = scale * static_cast<float>(static_cast<int8_t>(from[2 + i]));
  }
}

// Scale and minimum of stretch `i` of eight, six bits each in 12 bytes: those of the
// first four are the low bits of bytes 0..3 and 4..7; those of the others have their
// low bits in bytes 8..11 and their high bits above the first ones.
std::pair<float, float> ScaleAndMinimum(const uint8_t* packed, int i) {
  if (i < 4) {
    return {static_cast<float>(packed[i] & 63), static_cast<float>(packed[4 + i] & 63)};
  }
  const uint8_t low = packed[4 + i];
  return {static_cast<float>((low & 15) | packed[i - 4] >> 6 << 4),
          static_cast<float>(low >> 4 | packed[i] >> 6 << 4)};
}

// (d scale) q - (dmin minimum) in stretches of 32. Of each 32 bytes the low halves come
// first; the fifth bits of stretch i are bits i of 32 bytes.
template <bool kFifthBit>
void DecodeLarge(const uint8_t* from, float* to) {
  const float d = LoadHalf(from), dmin = LoadHalf(from + 2);
  const uint8_t* const scales = from + 4;
  const uint8_t* const fifth = from + 16;
  const uint8_t* const low = kFifthBit ? fifth + 32 : fifth;
  for (int stretch = 0; stretch < 8; ++stretch) {
    const auto [scale, minimum] = ScaleAndMinimum(scales, stretch);
    const float factor = d * scale, below = dmin * minimum;
    for (int i = 0; i < 32; ++i) {
      const uint8_t both = low[stretch / 2 * 32 + i];
      int number = stretch % 2 == 0 ? both & 15 : both >> 4;
      if (kFifthBit) number |= (fifth[i] >> stretch & 1) << 4;
      to[stretch * 32 + i] = factor * static_cast<float>(number) - below;
    }
  }
}

// (d scale) (q - 32), with a scale for every 16. 64 bytes have the low four bits of 128
// numbers, 32 bytes their high two bits.
void DecodeQ6K(const uint8_t* from, float* to) {
  const uint8_t* const low = from;
  const uint8_t* const high = from + 128;
  const uint8_t* const scales = from + 192;
  const float d = LoadHalf(from + 208);
  for (int i = 0; i < kLarge; ++i) {
    const int half = i / 128, within = i % 128;
    const uint8_t both = low[half * 64 + within % 64];
    const int bits = within < 64 ? both & 15 : both >> 4;
    const int more = high[half * 32 + within % 32] >> (within / 32 * 2) & 3;
    const float factor = d * static_cast<float>(static_cast<int8_t>(scales[i / 16]));
    to[i] = factor * static_cast<float>((bits | more << 4) - 32);
  }
}

template <void (*kDecode)(const uint8_t*, float*), int kNumbers, int kBytes>
constexpr BlockFormat Format(std::string_view name) {
  return {.name = name,
          .numbers = kNumbers,
          .bytes = kBytes,
          .decode = [](const char* from, int64_t blocks, float* to) {
            for (int64_t i = 0; i < blocks; ++i) {
              kDecode(reinterpret_cast<const uint8_t*>(from) + i * kBytes,
                      to + i * kNumbers);
            }
          }};
}

struct NumberedFormat {
  uint32_t type;
  BlockFormat format;
};
constexpr NumberedFormat kFormats[] = {
    {0, Format<DecodeF32, 1, 4>("F32")},
    {1, Format<DecodeF16, 1, 2>("F16")},
    {30, Format<DecodeBf16, 1, 2>("BF16")},
    {2, Format<DecodeSmall<false, false>, kSmall, 18>("Q4_0")},
    {3, Format<DecodeSmall<true, false>, kSmall, 20>("Q4_1")},
    {6, Format<DecodeSmall<false, true>, kSmall, 22>("Q5_0")},
    {7, Format<DecodeSmall<true, true>, kSmall, 24>("Q5_1")},
    {8, Format<DecodeQ8, kSmall, 34>("Q8_0")},
    {12, Format<DecodeLarge<false>, kLarge, 144>("Q4_K")},
    {13, Format<DecodeLarge<true>, kLarge, 176>("Q5_K")},
    {14, Format<DecodeQ6K, kLarge, 210>("Q6_K")}};

constexpr std::pair<uint32_t, std::string_view> kOthers[] = {
    {9, "Q8_1"},    {10, "Q2_K"},    {11, "Q3_K"},  {15, "Q8_K"},   {16, "IQ2_XXS"},
    {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},
    {22, "IQ2_S"},  {23, "IQ4_XS"},  {24, "I8"},    {25, "I16"},    {26, "I32"},
    {27, "I64"},    {28, "F64"},     {29, "IQ1_M"}, {34, "TQ1_0"},  {35, "TQ2_0"},
    {39, "MXFP4"},  {40, "NVFP4"},   {41, "Q1_0"}};

}  // namespace

const BlockFormat* FindBlockFormat(uint32_t type) {
  const auto* const found = std::ranges::find(kFormats, type, &NumberedFormat::type);
  return found == std::end(kFormats) ? nullptr : &found->format;
}

std::string NameOfBlockType(uint32_t type) {
  if (const BlockFormat* format = FindBlockFormat(type); format != nullptr) {
    return std::string(format->name);
  }
  for (const auto& [number, name] : kOthers) {
    if (number == type) return std::string(name);
  }
  return StrCat("number ", type);
}

std::string SupportedBlockTypes() {
  std::vector<std::string_view> names;
  for (const NumberedFormat& one : kFormats) names.push_back(one.format.name);
  return StrJoin(names, ", ");
}

}  // namespace mnemon
