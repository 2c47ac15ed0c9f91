// SPDX-License-Identifier: MIT
#include "train/fit/parameters.h"

#include <ATen/ops/zeros.h>

#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/sequence/make_model.h"

namespace mnemon {
namespace {

TEST(Parameters, ModelsShareValuesAndKeepTheirGradients) {
  for (const Family& entry : Families()) {
    const ModelConfig config = entry.variants().front();
    auto first = *MakeModel(config);
    auto second = *MakeModel(config);
    InitialiseWeights(*first, Initialisation::kSane, 3);
    std::vector<at::Tensor> before;
    first->Visit(
        [&](const std::string&, at::Tensor& w) { before.push_back(w.clone()); });

    Parameters parameters(*first);
    at::Tensor g1 = parameters.Bind(*first);
    at::Tensor g2 = parameters.Bind(*second);
    size_t i = 0;
    second->Visit([&](const std::string& name, at::Tensor& w) {
      EXPECT_TRUE(w.equal(before[i++])) << name;
      EXPECT_TRUE(w.requires_grad());
      EXPECT_TRUE(w.is_leaf());
    });

    const at::Tensor tokens = at::zeros({2, 5}, at::kLong);
    ForwardResult result = *first->Forward(tokens, {}, {});
    result.logits.sum().backward();
    EXPECT_GT(g1.abs().sum().item<float>(), 0.0f) << entry.name;
    EXPECT_EQ(g2.abs().sum().item<float>(), 0.0f) << entry.name;
    // Every gradient went into the buffer, none beside it.
    const NamedTensorList slices = parameters.Slices(g1, "");
    i = 0;
    first->Visit([&](const std::string& name, at::Tensor& w) {
      EXPECT_EQ(w.grad().data_ptr(), slices[i].second.data_ptr()) << name;
      EXPECT_EQ(slices[i++].first, name);
    });
  }
}

}  // namespace
}  // namespace mnemon
