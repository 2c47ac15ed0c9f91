// SPDX-License-Identifier: MIT
// The reader of GGUF files: blocks of every type against PyPI's gguf, and hostile
// files.
#include "model/io/gguf.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/io/gguf_rope.h"
#include "tests/model/io/gguf_image.h"
#include "tests/model/io/heap_peak.h"

namespace mnemon {
namespace {

using testing::HasSubstr;

constexpr char kGgufData[] = MNEMON_SOURCE_DIR "/tests/model/io/data/gguf/";

std::string Committed(const std::string& name) {
  return *ReadFile(kGgufData + name, 1 << 20);
}

std::string FaultOfImage(const std::string& image) {
  const auto parsed = ParseGguf(image);
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

std::vector<float> Decoded(const std::string& image, const GgufTensor& tensor) {
  int64_t count = 1;
  for (const int64_t size : tensor.shape) count *= size;
  std::vector<float> numbers(static_cast<size_t>(count));
  tensor.format->decode(image.data() + tensor.begin, count / tensor.format->numbers,
                        numbers.data());
  return numbers;
}

TEST(GgufBlocks, HaveTheNumbersOfTheReference) {
  const std::string image = Committed("blocks.gguf");
  const auto gguf = ParseGguf(image);
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  int checked = 0;
  for (const GgufTensor& tensor : gguf->tensors) {
    const GgufTensor* expected = gguf->FindTensor(tensor.name + ".expected");
    if (expected == nullptr) continue;
    ++checked;
    const std::vector<float> found = Decoded(image, tensor);
    const std::vector<float> wanted = Decoded(image, *expected);
    ASSERT_EQ(found.size(), wanted.size()) << tensor.name;
    EXPECT_GE(found.size(), 6u);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(wanted[i]))
          << tensor.name << " " << i << ": " << found[i] << ", " << wanted[i];
    }
  }
  EXPECT_EQ(checked, 10);
}

GgufImage Sound() {
  GgufImage image;
  image.Text("general.name", "x")
      .Integer("a.b", 7)
      .Number("a.c", 1e-5F)
      .Flag("a.d", true)
      .Texts("a.e", {"p", ""})
      .Integers("a.f", {-1, 2})
      .Floats("a.g", {0.5F})
      .Key("a.h", 10, RawBytes(std::numeric_limits<uint64_t>::max()))
      .Key("a.i", 12, RawBytes(0.1))
      .Key("a.j", 1, RawBytes(int8_t{-3}));
  const std::string data(48, '\1');
  image.Tensor("t", {2, 3}, 0, data.substr(0, 24))
      .Tensor("u", {4}, 1, data.substr(0, 8));
  return image;
}

TEST(Gguf, ReadsValuesAndTensors) {
  const auto gguf = ParseGguf(Sound().Build());
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  EXPECT_EQ(*gguf->Find<std::string>("general.name"), "x");
  EXPECT_EQ(*gguf->Find<int64_t>("a.b"), 7);
  EXPECT_EQ(gguf->Number("a.b"), 7.0);
  EXPECT_EQ(gguf->Number("a.c"), 1e-5);
  EXPECT_EQ(gguf->Number("a.i"), 0.1);
  EXPECT_EQ(*gguf->Find<bool>("a.d"), true);
  EXPECT_EQ(*gguf->Find<std::vector<std::string>>("a.e"),
            (std::vector<std::string>{"p", ""}));
  EXPECT_EQ(*gguf->Find<std::vector<int64_t>>("a.f"), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(*gguf->Find<std::vector<double>>("a.g"), std::vector<double>{0.5});
  EXPECT_EQ(gguf->Number("a.h"), 0x1p64);
  EXPECT_EQ(*gguf->Find<int64_t>("a.j"), -3);
  EXPECT_EQ(gguf->Find<int64_t>("a.c"), nullptr);
  EXPECT_EQ(gguf->Number("a.e"), std::nullopt);
  ASSERT_EQ(gguf->tensors.size(), 2u);
  EXPECT_EQ(gguf->FindTensor("t")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(gguf->FindTensor("u")->format->name, "F16");
  EXPECT_EQ(gguf->FindTensor("u")->begin % 32, 0);
  EXPECT_EQ(gguf->FindTensor("u")->end - gguf->FindTensor("u")->begin, 8);
}

TEST(Gguf, IsRefusedWhereverItIsCut) {
  for (const std::string& image : {Sound().Build(), Committed("llama.gguf")}) {
    const auto whole = ParseGguf(image);
    ASSERT_TRUE(whole.ok()) << whole.status();
    // The last tensor may be followed by padding.
    int64_t end = 0;
    for (const GgufTensor& tensor : whole->tensors) end = std::max(end, tensor.end);
    for (size_t size = 0; size < static_cast<size_t>(end); ++size) {
      ASSERT_THAT(FaultOfImage(image.substr(0, size)), HasSubstr("gguf: ")) << size;
    }
  }
}

TEST(Gguf, AnyByteMayBeWrong) {
  const std::string image = Sound().Build();
  for (size_t at = 0; at < image.size(); ++at) {
    for (const int change : {1, 0x80, 0xFF}) {
      std::string changed = image;
      changed[at] = static_cast<char>(changed[at] ^ change);
      StartHeapPeak();
      const auto parsed = ParseGguf(changed);
      EXPECT_LT(HeapPeak(), 1 << 16) << at;
      if (!parsed.ok()) {
        EXPECT_LT(parsed.status().message().size(), 1000u);
        continue;
      }
      for (const GgufTensor& tensor : parsed->tensors) {
        EXPECT_LE(tensor.end, static_cast<int64_t>(image.size()));
      }
    }
  }
}

TEST(Gguf, FaultsNameTheKeyOrTheTensor) {
  const std::string data(64, 'x');
  const auto head = [](uint32_t version, uint64_t tensors, uint64_t keys) {
    return "GGUF" + RawBytes(version) + RawBytes(tensors) + RawBytes(keys);
  };
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  constexpr int64_t kLarge = int64_t{1} << 62;
  const struct {
    std::string image, fault;
  } kCases[] = {
      {"GGML" + RawBytes(uint32_t{3}), "it begins with 'GGML'"},
      {head(1, 0, 0), "version 1 is not supported; supported: 2 and 3"},
      {head(4, 0, 0), "version 4"},
      {head(0x03000000, 0, 0), "(or big-endian)"},
      {head(3, 0, kHuge), "key 0 of 18446744073709551615"},
      {head(3, kHuge, 0), "the table of tensors: 8 bytes at byte 24, 0 are left"},
      {head(3, 0, 1) + RawBytes(kHuge), "key 0 of 1: 18446744073709551615 bytes"},
      {head(3, 0, 1) + RawBytes(kHuge - 20), "bytes at byte 32, 0 are left"},
      {GgufImage().Key("", 4, RawBytes(uint32_t{1})).Build(), "the name '' is empty"},
      {GgufImage().Key("\xFF", 4, RawBytes(uint32_t{1})).Build(), "not UTF-8"},
      {GgufImage().Key("k", 13, data).Build(), "key 'k': type 13 of a value"},
      {GgufImage().Key("k", 7, "\2").Build(), "key 'k': the flag is 2"},
      {GgufImage().Key("k", 8, RawBytes(kHuge)).Build(),
       "key 'k': 18446744073709551615"},
      {GgufImage()
           .Key("k", 9, RawBytes(uint32_t{9}) + RawBytes(uint64_t{1}) + data)
           .Build(),
       "key 'k': arrays of arrays are not supported"},
      {GgufImage().Key("k", 9, RawBytes(uint32_t{0}) + RawBytes(kHuge) + data).Build(),
       "key 'k': an array of 18446744073709551615 elements"},
      {GgufImage()
           .Key("k", 9, RawBytes(uint32_t{8}) + RawBytes(uint64_t{60}) + data)
           .Build(),
       "key 'k': 8680820740569200760 bytes"},
      {GgufImage().Key("k", 9, RawBytes(uint32_t{77}) + RawBytes(uint64_t{0})).Build(),
       "key 'k': type 77 of a value"},
      {GgufImage().Integer("k", 1).Integer("k", 1).Build(), "key 'k': is there twice"},
      {GgufImage().Integer("general.alignment", 24).Build(),
       "key 'general.alignment': no power of two"},
      {GgufImage().Integer("general.alignment", 0).Build(), "no power of two"},
      {GgufImage().Integer("general.alignment", 1U << 31).Build(), "no power of two"},
      {GgufImage().Text("general.alignment", "32").Build(), "no power of two"},
      {GgufImage().Tensor("t", {}, 0, "").Build(), "tensor 't': 0 dimensions"},
      {GgufImage().Tensor("t", {1, 1, 1, 1, 1}, 0, data).Build(), "5 dimensions"},
      {GgufImage().Tensor("t", {0, 2}, 0, data).Build(), "a dimension of 0"},
      {GgufImage().Tensor("t", {-1}, 0, data).Build(), "a dimension of 1844674"},
      {GgufImage().Tensor("t", {kLarge, 4}, 0, data).Build(), "too large"},
      {GgufImage().Tensor("t", {kLarge}, 0, data).Build(), "are too many"},
      {GgufImage().Tensor("t", {kLarge / 64, 32}, 8, data).Build(), "ends after byte"},
      {GgufImage().Tensor("t", {4}, 10, data).Build(),
       "tensor 't': type Q2_K is not supported; supported: F32, F16, BF16, Q4_0"},
      {GgufImage().Tensor("t", {4}, 99, data).Build(),
       "type number 99 is not supported"},
      {GgufImage().Tensor("t", {2, 33}, 8, data).Build(),
       "rows of 33 numbers are no blocks of 32 as Q8_0 has them"},
      {GgufImage().Tensor("t", {4}, 0, data, 8).Build(),
       "offset 8 is not a multiple of 32"},
      {GgufImage().Tensor("t", {4}, 0, data, kLarge).Build(), "its data ends after"},
      {GgufImage().Tensor("t", {4}, 0, data, -32).Build(), ""},
      {GgufImage().Tensor("t", {17}, 0, data).Build(), "its data ends after byte"},
      {GgufImage().Tensor("t", {16}, 0, data).Tensor("u", {4}, 0, data, 32).Build(),
       "tensor 'u': its data overlaps that of 't'"},
      {GgufImage().Tensor("t", {4}, 0, data).Tensor("t", {4}, 0, data).Build(),
       "tensor 't': is there twice"},
  };
  for (const auto& [image, fault] : kCases) {
    StartHeapPeak();
    const std::string found = FaultOfImage(image);
    EXPECT_LT(HeapPeak(), 1 << 16) << fault;
    EXPECT_THAT(found, HasSubstr(fault));
    EXPECT_EQ(found.empty(), fault.empty()) << found;
  }
}

TEST(GgufRope, FindsWhatTheFactorsWereMadeOf) {
  // Factors of Llama 3.2, to float32 precision.
  std::vector<float> factors;
  for (int i = 0; i < 32; ++i) {
    const double wavelength = 2 * M_PI * std::pow(5e5, i / 32.0);
    const double turns = 8192 / wavelength, mix = (turns - 1) / 3;
    const double factor = turns > 4 ? 1 : turns < 1 ? 32 : 1 / ((1 - mix) / 32 + mix);
    factors.push_back(static_cast<float>(factor));
  }
  const auto found = FindLlama3Factors(factors, 5e5, 64);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->factor, 32);
  EXPECT_EQ(found->context, 8192);
  std::vector<float> changed = factors;
  changed[3] = 1.01F;
  EXPECT_FALSE(FindLlama3Factors(changed, 5e5, 64).has_value());
  EXPECT_FALSE(FindLlama3Factors(factors, 4e5, 64).has_value());
  EXPECT_FALSE(FindLlama3Factors(factors, 5e5, 32).has_value());
  EXPECT_FALSE(FindLlama3Factors(std::vector<float>(32, 1.0F), 5e5, 64).has_value());
  EXPECT_FALSE(FindLlama3Factors(std::vector<float>(32, NAN), 5e5, 64).has_value());
}

}  // namespace
}  // namespace mnemon
