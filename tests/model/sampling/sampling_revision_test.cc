// SPDX-License-Identifier: MIT
// What the sampler gives, hashed. When this fails because the arithmetic was meant to
// change, docs/numerics.md changes with it: a session that goes on with another build
// then goes on with other tokens.
#include <bit>

#include "gtest/gtest.h"
#include "tests/model/sampling/sampling_cases.h"

namespace mnemon {
namespace {

constexpr uint64_t kHash = 17939012215262031222ull;

class Hash {
 public:
  void Add(uint64_t bits) {
    for (int i = 0; i < 8; ++i) {
      value_ = (value_ ^ (bits >> (8 * i) & 0xFF)) * 1099511628211ull;  // FNV-1a
    }
  }
  void Add(const TokenLogprobs& of) {
    Add(static_cast<uint64_t>(of.token));
    Add(std::bit_cast<uint32_t>(of.logprob));
    for (const TokenCandidate& candidate : of.candidates) {
      Add(static_cast<uint64_t>(candidate.token));
      Add(std::bit_cast<uint32_t>(candidate.logprob));
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 14695981039346656037ull;
};

TEST(SamplingRevision, TokensAndWeightsAreThoseOfTheRevision) {
  for (const SamplingOperations& operations : AllSamplingOperations()) {
    SamplerScratch scratch{.operations = &operations};
    Hash hash;
    for (const size_t vocab : {1, 100, 5000, 50257}) {
      const std::vector<float> logits = CaseLogits(vocab + 1, vocab);
      int64_t index = 1000;
      for (const SamplingParams& params : CaseParams()) {
        for (int i = 0; i < 5; ++i) hash.Add(RunCase(logits, params, index++, scratch));
      }
      const LogitScale scale = {.most = 16, .temperature = 0.9f};
      Candidates candidates(logits, scale, operations, scratch.candidates);
      for (const uint64_t weight : candidates.Weigh()) hash.Add(weight);
    }
    EXPECT_EQ(hash.value(), kHash) << operations.target;
  }
}

}  // namespace
}  // namespace mnemon
