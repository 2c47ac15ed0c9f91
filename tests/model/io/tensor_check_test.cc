// SPDX-License-Identifier: MIT
#include "model/io/tensor_check.h"

#include <string>
#include <vector>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A file with tensors of two numbers.
Safetensors FileOf(const std::vector<std::string>& names, DType type = DType::kF32) {
  const std::string data(static_cast<size_t>(Bits(type)) / 8 * 2, '\0');
  std::vector<TensorToWrite> tensors;
  for (const std::string& name : names) tensors.push_back({name, type, {2}, data});
  return *Safetensors::FromBytes(*FormatSafetensors(tensors));
}

std::string Fault(const std::vector<Safetensors>& files,
                  const std::vector<NeededTensor>& needed,
                  const std::vector<BadWeight>& bad = {},
                  const std::vector<std::string>& ignored = {}) {
  return std::string(CheckTensors(files, needed, bad, ignored).message());
}

TEST(CheckTensors, WhatFitsIsTaken) {
  const NeededTensor either = {"b", {2}, {DType::kF32, DType::kBF16}};
  EXPECT_EQ(Fault({FileOf({"a"}), FileOf({"b"}, DType::kBF16)}, {{"a", {2}}, either}),
            "");
  // One that two others are made of.
  EXPECT_EQ(Fault({FileOf({"a"})}, {{"a", {2}}, {"a", {2}}}), "");
  EXPECT_EQ(Fault({FileOf({"a", "x.inv_freq"})}, {{"a", {2}}}, {}, {".inv_freq"}), "");
}

TEST(CheckTensors, AllFaultsAreListed) {
  EXPECT_THAT(
      Fault({FileOf({"a", "twice", "more"}), FileOf({"b", "twice"}, DType::kF64)},
            {{"a", {2}},
             {"b", {2}, {DType::kF32, DType::kF16}},
             {"c", {3, 1}},
             {"twice", {2}}},
            {{.tensor = "a", .element = 1}}),
      AllOf(HasSubstr("'a' is not finite at element 1"),
            HasSubstr("'b' is F64 [2], expected F32 or F16 [2]"),
            HasSubstr("'c' is missing, expected F32 [3, 1]"),
            HasSubstr("'twice' is in two files"), HasSubstr("'more' is not expected")));
}

TEST(CheckTensors, LongListsOfFaultsAreCut) {
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back(StrCat("extra", i));
  const std::string message = Fault({FileOf(names)}, {});
  EXPECT_THAT(message, HasSubstr("; and 900 more"));
  EXPECT_LT(message.size(), 10'000u);
}

}  // namespace
}  // namespace mnemon
