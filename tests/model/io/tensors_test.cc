// SPDX-License-Identifier: MIT
#include "model/sequence/tensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/sequence/make_model.h"

namespace mnemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

TEST(Tensors, EveryTypeComesBack) {
  NamedTensorList tensors;
  for (const at::ScalarType type :
       {at::kFloat, at::kDouble, at::kLong, at::kInt, at::kShort, at::kChar, at::kByte,
        at::kBool, at::kHalf, at::kBFloat16}) {
    // Transposed: the bytes of the file are row-major whatever the strides.
    tensors.emplace_back(StrCat("t", tensors.size()),
                         at::arange(6, at::kLong).view({3, 2}).t().to(type));
  }
  tensors.emplace_back("scalar", at::full({}, 2.5, at::kFloat));
  tensors.emplace_back("empty", at::full({0, 3}, 0, at::kFloat));
  const auto file = Safetensors::FromBytes(FormatTensors(tensors).value()).value();
  ASSERT_EQ(file.header().tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const auto read = ToTensor(file, *file.Find(name));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(read->equal(tensor)) << name;
    EXPECT_EQ(read->scalar_type(), tensor.scalar_type());
  }
}

TEST(Tensors, OtherTypesAreNamed) {
  const TensorToWrite odd = {"odd", DType::kF8E4M3, {1}, "x"};
  const auto file =
      Safetensors::FromBytes(FormatSafetensors({&odd, 1}).value()).value();
  EXPECT_THAT(Message(ToTensor(file, *file.Find("odd")).status()),
              AllOf(HasSubstr("'odd'"), HasSubstr("F8_E4M3")));
  EXPECT_THAT(
      Message(FormatTensors({{"c", at::ones({1}, at::kComplexFloat)}}).status()),
      HasSubstr("'c'"));
}

TEST(Tensors, OnlyFloat32IsWrittenAsWeights) {
  const auto model = MakeModel(FindFamily("causal").value()->variants().front());
  EXPECT_TRUE(FormatWeights(**model).ok());
  CastWeights(**model, at::kDouble);
  EXPECT_FALSE(FormatWeights(**model).ok());
}

}  // namespace
}  // namespace mnemon
