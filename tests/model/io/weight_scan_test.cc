// SPDX-License-Identifier: MIT
#include "model/io/weight_scan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using testing::ElementsAreArray;

// Float32 tensors of these sizes, and after the first one of int64, whose bytes are not
// finite as floats.
constexpr int64_t kSizes[] = {700, 0, 1, 256, 1300};
constexpr int64_t kInts = 3;

struct File {
  SafetensorsHeader header;
  std::vector<float> data;

  explicit File(int64_t header_bytes) {
    for (const int64_t size : kSizes) {
      Add(DType::kF32, size, size, 1.0f, header_bytes);
      if (header.tensors.size() > 1) continue;
      Add(DType::kI64, kInts, 2 * kInts, std::nanf(""), header_bytes);
    }
  }

  void Add(DType type, int64_t elements, int64_t words, float value, int64_t begin) {
    begin += 4 * static_cast<int64_t>(data.size());
    header.tensors.push_back({.name = "t" + std::to_string(header.tensors.size()),
                              .dtype = type,
                              .shape = {elements},
                              .begin = begin,
                              .end = begin + 4 * words});
    data.insert(data.end(), words, value);
  }

  // As WeightScan finds them, without pieces.
  std::vector<std::pair<std::string, int64_t>> NonFiniteOfEach() const {
    std::vector<std::pair<std::string, int64_t>> all;
    auto first = data.begin();
    for (size_t t = 0; t < header.tensors.size(); ++t) {
      const TensorInfo& tensor = header.tensors[t];
      const auto end = first + (tensor.end - tensor.begin) / 4;
      const auto bad =
          std::find_if(first, end, [](float v) { return !std::isfinite(v); });
      if (tensor.dtype == DType::kF32 && bad != end) {
        all.emplace_back(tensor.name, bad - first);
      }
      first = end;
    }
    return all;
  }
};

TEST(WeightScan, FindsTheFirstOfEachTensorInPiecesOfAnySize) {
  std::mt19937 random(1);
  constexpr float kBad[] = {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()};
  for (int round = 0; round < 500; ++round) {
    File file(/*header_bytes=*/8 + random() % 100);
    for (int bad = round % 6; bad > 0; --bad) {
      file.data[random() % file.data.size()] = kBad[random() % 3];
    }
    const std::string_view bytes(reinterpret_cast<const char*>(file.data.data()),
                                 4 * file.data.size());
    WeightScan scan(file.header);
    const size_t most = round % 3 == 0 ? 3 : 1000;  // floats in a piece
    for (size_t at = 0, size = 0; at < bytes.size(); at += size) {
      size = std::min(4 * (1 + random() % most), bytes.size() - at);
      scan.Follow(bytes.substr(at, size));
    }
    std::vector<std::pair<std::string, int64_t>> found;
    for (const BadWeight& one : scan.found()) {
      found.emplace_back(one.tensor, one.element);
    }
    EXPECT_THAT(found, ElementsAreArray(file.NonFiniteOfEach())) << round;
  }
}

// Tensors of all types and scales, in pieces that cut numbers anywhere.
TEST(WeightScan, FindsWhatNoInt8AndNoScaleMayBe) {
  constexpr int64_t kBegin = 9;  // of the data
  SafetensorsHeader header;
  std::string data;
  const auto add = [&](const char* name, DType type, std::string_view bytes) {
    const int64_t begin = kBegin + static_cast<int64_t>(data.size());
    data += bytes;
    header.tensors.push_back(
        {.name = name,
         .dtype = type,
         .shape = {static_cast<int64_t>(bytes.size()) * 8 / Bits(type)},
         .begin = begin,
         .end = kBegin + static_cast<int64_t>(data.size())});
  };
  const auto bytes = [](const std::vector<float>& values) {
    return std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size());
  };
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  using namespace std::string_view_literals;
  add("a.weight", DType::kI8, "\x7f\x81\x00\x01\xff"sv);
  add("a.weight.scale", DType::kF32, bytes({0, 1, 3e38f}));
  add("b.weight", DType::kI8, "\x01\x80\x80"sv);
  add("b.weight.scale", DType::kF32, bytes({1, 0, -1, kNan}));
  add("c.weight", DType::kF32, bytes({-1, kNan, -2}));
  add("c.weight.scale", DType::kF32, bytes({-0.0f}));
  add("d.weight.scale", DType::kF32, bytes({1, kInfinity}));
  add("e.weight", DType::kU8, "\x80"sv);
  add("f.weight", DType::kBF16, "\x7f\x7f\x00\x7c\x80\xff\x80\x7f"sv);
  add("g.weight", DType::kF16, "\xff\x7b\x00\xfb\x80\x7f\x00\x7c"sv);
  for (size_t size = 1; size <= data.size(); ++size) {
    WeightScan scan(header);
    for (size_t at = 0; at < data.size(); at += size) {
      scan.Follow(std::string_view(data).substr(at, size));
    }
    std::vector<std::string> found;
    for (const BadWeight& bad : scan.found()) {
      const TensorInfo& tensor =
          *std::ranges::find(header.tensors, bad.tensor, &TensorInfo::name);
      found.push_back(tensor.name + " " + std::string(FaultOf(tensor)) + " " +
                      std::to_string(bad.element));
    }
    EXPECT_THAT(
        found,
        testing::ElementsAre(
            "b.weight is -128 1", "b.weight.scale is negative or not finite 2",
            "c.weight is not finite 1", "c.weight.scale is negative or not finite 0",
            "d.weight.scale is negative or not finite 1", "f.weight is not finite 2",
            "g.weight is not finite 2"))
        << size;
  }
}

TEST(WeightScan, TheGreatestFloatsAreFinite) {
  File file(8);
  std::fill(file.data.begin(), file.data.end(), std::numeric_limits<float>::max());
  file.data[5] = std::numeric_limits<float>::lowest();
  file.data[6] = std::numeric_limits<float>::denorm_min();
  WeightScan scan(file.header);
  scan.Follow({reinterpret_cast<const char*>(file.data.data()), 4 * file.data.size()});
  EXPECT_TRUE(scan.found().empty());
}

}  // namespace
}  // namespace mnemon
