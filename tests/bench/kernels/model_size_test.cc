// SPDX-License-Identifier: MIT
#include "bench/kernels/model_size.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/sequence/make_model.h"
#include "model/sequence/model.h"

namespace mnemon {
namespace {

using testing::HasSubstr;

TEST(SizedConfig, EveryPairIsAValidModel) {
  for (const std::string& architecture : TypedNames()) {
    for (const std::string_view size : BenchSizes()) {
      const auto config = SizedConfig(architecture, size);
      ASSERT_TRUE(config.ok());
      EXPECT_TRUE(DescribeModel(*config).ok())
          << architecture << " " << size << ": " << DescribeModel(*config).status();
    }
  }
}

TEST(SizedConfig, Sizes) {
  struct Expected {
    const char* size;
    int64_t width, layers, heads, d_ff, vocab;
  };
  for (const Expected& e :
       {Expected{"XS", 128, 4, 4, 512, 128}, Expected{"S", 256, 6, 8, 1024, 128},
        Expected{"M", 512, 8, 8, 2048, 128}, Expected{"G", 768, 12, 12, 3072, 50257}}) {
    for (const std::string& architecture : TypedNames()) {
      const ModelConfig c = SizedConfig(architecture, e.size).value();
      EXPECT_EQ(c.d_model, e.width);
      EXPECT_EQ(c.layers, e.layers);
      EXPECT_EQ(c.heads, e.heads);
      EXPECT_EQ(c.d_ff, e.d_ff);
      EXPECT_EQ(c.vocab, e.vocab);
      EXPECT_EQ(c.positions, 4096);
      EXPECT_EQ(c.tie_head, architecture == "causal" || architecture == "llama");
      EXPECT_EQ(c.mem_len, architecture == "transformer_xl" ? 256 : 0);
    }
  }
}

// The reference experiments' parameters for a vocabulary of 65.
TEST(SizedConfig, ReferenceExperiments) {
  const auto parameters = [](std::string_view architecture) {
    return CountParameters(
        *MakeModel(SizedConfig(architecture, "SEED").value()).value());
  };
  EXPECT_EQ(parameters("feedback"), 31758408);
  EXPECT_EQ(parameters("feedback_shared"), 29133896);
  EXPECT_EQ(parameters("fast_weights"), 18997313);
  EXPECT_EQ(parameters("transformer_xl"), 7299137);
  EXPECT_EQ(parameters("causal"), 4772417);
}

TEST(SizedConfig, UnknownNames) {
  EXPECT_THAT(SizedConfig("lstm", "XS").status().message(),
              HasSubstr("feedback, feedback_shared, fast_weights"));
  EXPECT_THAT(SizedConfig("causal", "XXL").status().message(),
              HasSubstr("XS, S, M, G, SEED"));
}

}  // namespace
}  // namespace mnemon
