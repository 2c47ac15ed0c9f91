// SPDX-License-Identifier: MIT
// What the sampler gives, hashed. When this fails because the arithmetic was meant to
// change, docs/numerics.md changes with it: a session that goes on with another build
// then goes on with other tokens.
#include <bit>

#include "gtest/gtest.h"
#include "tests/model/compute/bit_hash.h"
#include "tests/model/sampling/sampling_cases.h"

namespace mnemon {
namespace {

constexpr uint64_t kHash = 17496194381690167907ull;

void Add(const TokenLogprobs& of, BitHash& hash) {
  hash.Add(static_cast<uint64_t>(of.token));
  hash.Add(static_cast<uint64_t>(std::bit_cast<uint32_t>(of.logprob)));
  for (const TokenCandidate& candidate : of.candidates) {
    hash.Add(static_cast<uint64_t>(candidate.token));
    hash.Add(static_cast<uint64_t>(std::bit_cast<uint32_t>(candidate.logprob)));
  }
}

TEST(SamplingRevision, TokensAndWeightsAreThoseOfTheRevision) {
  for (const SamplingOperations& operations : AllSamplingOperations()) {
    SamplerScratch scratch{.operations = &operations};
    BitHash hash;
    for (const size_t vocab : {5, 101, 5001, 50258}) {
      std::vector<float> logits = CaseLogits(vocab, vocab);
      int64_t index = 1000;
      for (const SamplingParams& params : CaseParams()) {
        for (int i = 0; i < 5; ++i) {
          Add(RunCase(logits, params, index++, scratch), hash);
        }
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
