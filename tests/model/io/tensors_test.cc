// SPDX-License-Identifier: MIT
#include "model/sequence/tensors.h"

#include <limits>

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

class LoadWeightsTest : public testing::Test {
 protected:
  LoadWeightsTest() {
    config_ = FindFamily("causal").value()->variants().front();
    model_ = MakeModel(config_).value();
    InitialiseWeights(*model_, Initialisation::kSane, 1);
    model_->Visit([&](const std::string& name, at::Tensor& tensor) {
      tensors_.emplace_back(name, tensor.detach().clone().fill_(0.5));
    });
  }
  Safetensors File() const {
    return Safetensors::FromBytes(FormatTensors(tensors_).value()).value();
  }
  absl::Status Load(bool refuse_non_finite = true) {
    return LoadWeights(File(), refuse_non_finite, *model_);
  }
  std::string Weights() { return FormatWeights(*model_).value(); }

  ModelConfig config_;
  std::unique_ptr<Model> model_;
  NamedTensorList tensors_;
};

TEST_F(LoadWeightsTest, CopiesEveryTensor) {
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(Weights(), File().bytes());
}

TEST_F(LoadWeightsTest, CopiesIntoTensorsThatTakeGradients) {
  RequireGradients(*model_, true);
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(Weights(), File().bytes());
  model_->Visit([](const std::string&, at::Tensor& tensor) {
    EXPECT_TRUE(tensor.requires_grad() && tensor.is_leaf());
  });
}

TEST_F(LoadWeightsTest, ListsAllFaultsAndChangesNothing) {
  const std::string before = Weights();
  const std::string missing = tensors_[0].first;
  tensors_[0].first = "surplus";
  tensors_[1].second = at::ones({3, 1, 2}, at::kFloat);
  tensors_[2].second = tensors_[2].second.to(at::kDouble);
  tensors_[3].second.view({-1})[1] = std::numeric_limits<float>::infinity();
  const absl::Status status = Load();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      Message(status),
      AllOf(HasSubstr(StrCat("'", missing, "' is missing")),
            HasSubstr("'surplus' is not expected"),
            HasSubstr(StrCat("'", tensors_[1].first, "' is F32 [3, 1, 2]")),
            HasSubstr(StrCat("'", tensors_[2].first, "' is F64")),
            HasSubstr(StrCat("'", tensors_[3].first, "' is not finite at element 1"))));
  EXPECT_EQ(Weights(), before);
}

TEST_F(LoadWeightsTest, NonFiniteIsTakenByOption) {
  tensors_[0].second.view({-1})[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(Load().ok());
  EXPECT_TRUE(Load(/*refuse_non_finite=*/false).ok());
}

TEST_F(LoadWeightsTest, LongListsOfFaultsAreCut) {
  for (int i = 0; i < 1000; ++i) {
    tensors_.emplace_back(StrCat("extra", i), at::ones({1}, at::kFloat));
  }
  const std::string message = Message(Load());
  EXPECT_THAT(message, HasSubstr("; and 900 more"));
  EXPECT_LT(message.size(), 10'000u);
}

TEST_F(LoadWeightsTest, OnlyFloat32IsWritten) {
  CastWeights(*model_, at::kDouble);
  EXPECT_FALSE(FormatWeights(*model_).ok());
}

}  // namespace
}  // namespace mnemon
