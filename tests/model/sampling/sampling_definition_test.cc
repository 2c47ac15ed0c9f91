// SPDX-License-Identifier: MIT
// Sampling equals its definition in docs/numerics.md, written down with plain loops,
// sorts of the whole vocabulary and recounted windows: the same kept sets, weights and
// tokens, bit by bit, on every target.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "gtest/gtest.h"
#include "model/compute/functions.h"
#include "model/sampling/logprobs.h"
#include "model/sampling/philox.h"
#include "model/sampling/sampler.h"
#include "tests/model/sampling/drawn_cases.h"

namespace mnemon {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();

// e^x for x <= 0.
float Exp(float x) {
  const float c = x > -40.0f ? x : -40.0f;
  const float n = std::nearbyint(c * 0x1.715476p+0f);
  float r = std::fma(-n, 0x1.62e4p-1f, c);
  r = std::fma(-n, 0x1.7f7d1cp-20f, r);
  float p = 1.0f / 5040;
  for (const float a :
       {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 1.0f / 2, 1.0f, 1.0f}) {
    p = std::fma(p, r, a);
  }
  const float e = std::ldexp(p, static_cast<int>(n));
  return e < 0x1p-48f ? 0.0f : e;
}

// sum16 of blocks of 1024, block after block.
float SumOfBlocks(const std::vector<float>& terms) {
  float all = 0;
  for (size_t block = 0; block < terms.size(); block += 1024) {
    float part[16] = {};
    for (size_t i = block; i < std::min(block + 1024, terms.size()); ++i) {
      part[i % 16] += terms[i];
    }
    for (int apart = 8; apart > 0; apart /= 2) {
      for (int i = 0; i < apart; ++i) part[i] += part[i + apart];
    }
    all += part[0];
  }
  return all;
}

float Saturated(float logit) { return std::max(-kMost, std::min(logit, kMost)); }

struct Defined {
  std::vector<float> logit;
  std::vector<uint64_t> weight;  // 0: not kept, or without weight
  int32_t token = -1;            // -1: no token is allowed
};

void Penalize(const SamplingParams& params, const std::vector<int32_t>& history,
              std::vector<float>& logit) {
  const size_t size = std::min<size_t>(history.size(), params.penalty_window_tokens);
  std::vector<int> counts(logit.size(), 0);
  for (size_t i = history.size() - size; i < history.size(); ++i) ++counts[history[i]];
  for (size_t id = 0; id < logit.size(); ++id) {
    float& l = logit[id];
    if (counts[id] == 0 || l == -kInfinity) continue;
    l = l > 0 ? l / params.repetition_penalty : l * params.repetition_penalty;
    const float often = params.frequency_penalty * static_cast<float>(counts[id]);
    l = l - often;
    l = Saturated(l - params.presence_penalty);
  }
}

// Uses the binary digits of the share: no product is longer than 128 bits.
bool Reaches(uint64_t sum, float share, uint64_t total) {
  int exponent = 0;
  const auto digits =
      static_cast<uint64_t>(std::ldexp(std::frexp(share, &exponent), 24));
  const int shift = 24 - exponent;
  const auto product = static_cast<unsigned __int128>(digits) * total;
  // sum >= product / 2^shift
  const unsigned __int128 whole = shift < 128 ? product >> shift : 0;
  const bool rest = shift < 128 ? (whole << shift) != product : product != 0;
  return sum > whole || (sum == whole && !rest);
}

void KeepUntil(const std::vector<uint64_t>& weight, float share,
               std::vector<int32_t>& ids) {
  uint64_t total = 0, sum = 0;
  for (const int32_t id : ids) total += weight[id];
  for (size_t i = 0; i < ids.size(); ++i) {
    sum += weight[ids[i]];
    if (!Reaches(sum, share, total)) continue;
    ids.resize(i + 1);
    return;
  }
}

// information[id] of the tokens of `kept`, and from it the order of typical sampling.
void SortTypical(const std::vector<float>& exponent,
                 const std::vector<uint64_t>& weight, std::vector<int32_t>& kept) {
  uint64_t total = 0;
  for (const int32_t id : kept) total += weight[id];
  const double scaled = static_cast<double>(total) / (1ull << 40);
  const auto log_total = static_cast<float>(numerics::Log(scaled));
  std::vector<float> term(weight.size(), 0.0f);
  for (const int32_t id : kept) {
    const float share = Exp(exponent[id]) / static_cast<float>(scaled);
    const float information = log_total - exponent[id];
    term[id] = share * information;
  }
  const float entropy = SumOfBlocks(term);
  std::vector<std::pair<float, int32_t>> order;
  for (const int32_t id : kept) {
    const float information = log_total - exponent[id];
    order.emplace_back(std::abs(information - entropy), id);
  }
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) kept[i] = order[i].second;
}

void Cut(const SamplingParams& params, const std::vector<float>& exponent,
         Defined& result) {
  const std::vector<float>& logit = result.logit;
  std::vector<uint64_t>& weight = result.weight;
  const auto by_logit = [&](int32_t a, int32_t b) {
    return logit[a] != logit[b] ? logit[a] > logit[b] : a < b;
  };
  std::vector<int32_t> kept(logit.size());
  std::iota(kept.begin(), kept.end(), 0);
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < kept.size()) {
    std::sort(kept.begin(), kept.end(), by_logit);
    kept.resize(static_cast<size_t>(params.top_k));
  }
  if (params.typical_p < 1) {
    std::erase_if(kept, [&](int32_t id) { return weight[id] == 0; });
    SortTypical(exponent, weight, kept);
    KeepUntil(weight, params.typical_p, kept);
  }
  if (params.top_p < 1) {
    std::sort(kept.begin(), kept.end(), by_logit);
    KeepUntil(weight, params.top_p, kept);
  }
  if (params.min_p > 0) {
    uint64_t most = 0;
    for (const int32_t id : kept) most = std::max(most, weight[id]);
    std::erase_if(kept,
                  [&](int32_t id) { return !Reaches(weight[id], params.min_p, most); });
  }
  std::vector<uint64_t> cut(weight.size(), 0);
  for (const int32_t id : kept) cut[id] = weight[id];
  weight = cut;
}

// REQUIRES: sampleable logits.
Defined Define(const std::vector<float>& logits, const SamplingParams& params,
               int64_t index, const std::vector<int32_t>& history) {
  Defined result;
  result.logit = logits;
  Penalize(params, history, result.logit);
  for (const auto [token, bias] : params.logit_bias) {
    float& l = result.logit[token];
    if (l != -kInfinity) l = bias == -kInfinity ? -kInfinity : Saturated(l + bias);
  }
  const auto best = std::max_element(result.logit.begin(), result.logit.end());
  if (*best == -kInfinity) return result;
  result.token = static_cast<int32_t>(best - result.logit.begin());
  if (params.temperature == 0) return result;
  std::vector<float> exponent;
  for (const float logit : result.logit) {
    const float gap = logit - *best;
    exponent.push_back(gap == 0 ? 0.0f : gap / params.temperature);
    result.weight.push_back(
        static_cast<uint64_t>(std::floor(std::ldexp(Exp(exponent.back()), 40))));
  }
  Cut(params, exponent, result);
  uint64_t total = 0, sum = 0;
  for (const uint64_t weight : result.weight) total += weight;
  const auto words = Philox4x32(
      {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0},
      {static_cast<uint32_t>(params.seed), static_cast<uint32_t>(params.seed >> 32)});
  const uint64_t random = words[0] + (uint64_t{words[1]} << 32);
  const auto target =
      static_cast<uint64_t>(static_cast<unsigned __int128>(random) * total >> 64);
  result.token = 0;
  while ((sum += result.weight[result.token]) <= target) ++result.token;
  return result;
}

std::vector<uint64_t> KeptWeights(const Defined& expected, const SamplingParams& params,
                                  SamplerScratch& scratch) {
  const float most = *std::max_element(expected.logit.begin(), expected.logit.end());
  Candidates candidates(expected.logit,
                        {.most = most, .temperature = params.temperature},
                        *scratch.operations, scratch.candidates);
  if (params.top_k > 0) candidates.CutTopK(params.top_k);
  if (params.typical_p < 1) candidates.CutTypical(params.typical_p);
  if (params.top_p < 1) candidates.CutTopP(params.top_p);
  if (params.min_p > 0) candidates.CutMinP(params.min_p);
  const std::span<const uint64_t> kept = candidates.Weigh();
  std::vector<uint64_t> weight(expected.logit.size(), 0);
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_TRUE(i == 0 || candidates.id(i - 1) < candidates.id(i));
    weight[candidates.id(i)] = kept[i];
  }
  return weight;
}

float Logprob(const std::vector<float>& logits, int32_t token) {
  const float most = *std::max_element(logits.begin(), logits.end());
  std::vector<float> terms;
  for (const float logit : logits) terms.push_back(Exp(logit - most));
  const auto log_total = static_cast<float>(numerics::Log(SumOfBlocks(terms)));
  const float gap = logits[token] - most;
  return gap - log_total;
}

// A scratch per target.
std::vector<SamplerScratch> Scratches() {
  std::vector<SamplerScratch> scratches;
  for (const SamplingOperations& operations : AllSamplingOperations()) {
    scratches.push_back({.operations = &operations});
  }
  return scratches;
}

void ExpectDefined(Draws& draws, size_t vocab, std::vector<SamplerScratch>& scratches) {
  std::vector<float> logits = draws.Logits(vocab);
  SamplingParams params = draws.Params(vocab);
  if (params.temperature > 0 && draws.Often(4)) {
    // The weight of a token, exactly.
    const float most = *std::max_element(logits.begin(), logits.end());
    params.min_p = Exp((logits[draws.Below(vocab)] - most) / params.temperature);
  }
  std::vector<int32_t> history(draws.Below(200));
  for (int32_t& id : history) id = draws.Below(vocab);
  PenaltyCounts counts(params, static_cast<int64_t>(vocab));
  counts.Update(history);
  const auto index = static_cast<int64_t>(history.size());
  const Defined expected = Define(logits, params, index, history);
  const int32_t scored = draws.Below(vocab);
  const float logprob = Logprob(logits, scored);
  for (SamplerScratch& scratch : scratches) {
    const auto shown = testing::Message()
                       << scratch.operations->target << " temperature "
                       << params.temperature << " top_k " << params.top_k << " top_p "
                       << params.top_p << " min_p " << params.min_p << " typical_p "
                       << params.typical_p << " V " << vocab;
    const auto got = ScoreToken(logits, scored, {}, scratch);
    ASSERT_TRUE(got.ok());
    ASSERT_EQ(got->logprob, logprob) << shown;
    const auto token = Sample(logits, params, index, scratch, counts.counts());
    ASSERT_EQ(token.ok() ? *token : -1, expected.token) << shown << token.status();
    if (params.temperature == 0 || expected.token < 0) continue;
    ASSERT_EQ(KeptWeights(expected, params, scratch), expected.weight) << shown;
  }
}

TEST(SamplingDefinition, SmallVocabularies) {
  Draws draws(1);
  std::vector<SamplerScratch> scratches = Scratches();
  for (int round = 0; round < 20000; ++round) {
    ExpectDefined(draws, 1 + draws.Below(60), scratches);
    if (HasFatalFailure()) return;
  }
}

TEST(SamplingDefinition, MiddlingVocabularies) {
  Draws draws(2);
  std::vector<SamplerScratch> scratches = Scratches();
  for (int round = 0; round < 1500; ++round) {
    ExpectDefined(draws, 500 + draws.Below(3000), scratches);
    if (HasFatalFailure()) return;
  }
}

TEST(SamplingDefinition, LargeVocabularies) {
  Draws draws(3);
  std::vector<SamplerScratch> scratches = Scratches();
  for (int round = 0; round < 60; ++round) {
    ExpectDefined(draws, draws.Often(2) ? 50257 : 50304, scratches);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace mnemon
