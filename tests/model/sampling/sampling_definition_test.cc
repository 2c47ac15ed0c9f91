// SPDX-License-Identifier: MIT
// Sampling equals its definition, written down with sorts of the whole vocabulary and
// recounted windows: the same kept sets, weights and tokens, bit by bit.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "gtest/gtest.h"
#include "model/sampling/philox.h"
#include "model/sampling/sampler.h"

namespace mnemon {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Defined {
  std::vector<double> logit;
  std::vector<double> weight;  // 0: not kept
  int32_t token = -1;
};

void Penalize(const SamplingParams& params, const std::vector<int32_t>& history,
              std::vector<double>& logit) {
  const size_t size = std::min<size_t>(history.size(), params.penalty_window_tokens);
  std::vector<int> counts(logit.size(), 0);
  for (size_t i = history.size() - size; i < history.size(); ++i) ++counts[history[i]];
  for (size_t id = 0; id < logit.size(); ++id) {
    if (counts[id] == 0) continue;
    logit[id] = logit[id] > 0 ? logit[id] / params.repetition_penalty
                              : logit[id] * params.repetition_penalty;
    logit[id] -= params.frequency_penalty * counts[id];
    logit[id] -= params.presence_penalty;
  }
}

double Sum(const std::vector<double>& weight, const std::vector<int32_t>& ids) {
  double total = 0;
  for (const int32_t id : ids) total += weight[id];
  return total;
}

void KeepUntil(const std::vector<double>& weight, double target,
               std::vector<int32_t>& ids) {
  double sum = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    sum += weight[ids[i]];
    if (sum < target) continue;
    ids.resize(i + 1);
    return;
  }
}

void Cut(const SamplingParams& params, Defined& result) {
  const std::vector<double>& logit = result.logit;
  std::vector<double>& weight = result.weight;
  const auto by_logit = [&](int32_t a, int32_t b) {
    return logit[a] != logit[b] ? logit[a] > logit[b] : a < b;
  };
  std::vector<int32_t> kept(logit.size());
  std::iota(kept.begin(), kept.end(), 0);
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < kept.size()) {
    std::sort(kept.begin(), kept.end(), by_logit);
    kept.resize(static_cast<size_t>(params.top_k));
    std::sort(kept.begin(), kept.end());
  }
  if (params.typical_p < 1) {
    std::erase_if(kept, [&](int32_t id) { return weight[id] == 0; });
    const double total = Sum(weight, kept);
    const auto information = [&](int32_t id) {
      return std::log(total) - std::log(weight[id]);
    };
    double entropy = 0;
    for (const int32_t id : kept) entropy += weight[id] / total * information(id);
    const auto gap = [&](int32_t id) { return std::abs(information(id) - entropy); };
    std::vector<std::pair<double, int32_t>> order;
    for (const int32_t id : kept) order.emplace_back(gap(id), id);
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i < order.size(); ++i) kept[i] = order[i].second;
    KeepUntil(weight, params.typical_p * total, kept);
  }
  if (params.top_p < 1) {
    std::sort(kept.begin(), kept.end(), by_logit);
    KeepUntil(weight, params.top_p * Sum(weight, kept), kept);
  }
  if (params.min_p > 0) {
    double most = 0;
    for (const int32_t id : kept) most = std::max(most, weight[id]);
    std::erase_if(kept, [&](int32_t id) { return weight[id] < params.min_p * most; });
  }
  std::vector<double> cut(weight.size(), 0);
  for (const int32_t id : kept) cut[id] = weight[id];
  weight = cut;
}

// Only of what has a token.
Defined Define(const std::vector<float>& logits, const SamplingParams& params,
               int64_t index, const std::vector<int32_t>& history) {
  Defined result;
  result.logit.assign(logits.begin(), logits.end());
  Penalize(params, history, result.logit);
  for (const auto [token, bias] : params.logit_bias) result.logit[token] += bias;
  const auto best = std::max_element(result.logit.begin(), result.logit.end());
  result.token = static_cast<int32_t>(best - result.logit.begin());
  if (params.temperature == 0) return result;
  for (const double logit : result.logit) {
    const double gap = logit - *best;
    result.weight.push_back(gap == 0 ? 1.0 : std::exp(gap / params.temperature));
  }
  Cut(params, result);
  const double target =
      UniformAt(params.seed, static_cast<uint64_t>(index)) *
      std::accumulate(result.weight.begin(), result.weight.end(), 0.0);
  double sum = 0;
  for (size_t i = 0; i < result.weight.size(); ++i) {
    if (result.weight[i] == 0) continue;
    result.token = static_cast<int32_t>(i);
    sum += result.weight[i];
    if (sum > target) break;
  }
  return result;
}

class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed) {}

  bool Often(int in) { return random_() % in == 0; }
  uint64_t Bits() { return random_(); }
  int32_t Below(size_t n) { return static_cast<int32_t>(random_() % n); }
  double Normal() { return std::normal_distribution<double>()(random_); }
  template <class Number>
  Number OneOf(std::initializer_list<Number> of) {
    return of.begin()[random_() % of.size()];
  }

  std::vector<float> Logits(size_t vocab) {
    std::vector<float> logits(vocab);
    const int kind = Below(6);
    const double scale = OneOf({0.01, 1.0, 3.0, 30.0});
    for (float& logit : logits) {
      const double number = kind == 0   ? Below(2)
                            : kind == 1 ? Below(9)
                            : kind == 2 ? 1.0
                            : kind == 3 ? std::round(4 * Normal()) / 4
                                        : Normal();
      logit = static_cast<float>(scale * number);
      if (kind == 5 && Often(3)) logit = OneOf({-kInf, -3e38f, 0.0f, -0.0f});
    }
    logits[Below(vocab)] = static_cast<float>(scale);
    return logits;
  }

  SamplingParams Params(size_t vocab) {
    SamplingParams params;
    params.temperature =
        OneOf({1.0, 1.0, 0.7, 2.5, 0.0, 1e-3, 1e-45, 1e-320, 40.0, 1e4, 1e308});
    const auto share = [&] {
      return OneOf({0.9, 0.5, 0.25, 0.95, 0.999, 1e-300, 1e-9, 1 - 1e-12, 1.0 / 3,
                    (1.0 + Below(vocab - 1)) / static_cast<double>(vocab)});
    };
    if (Often(4)) params.top_k = OneOf({1, 2, 40, Below(vocab) + 1, INT32_MAX});
    if (Often(2)) params.top_p = share();
    if (Often(4)) params.typical_p = share();
    if (Often(4)) params.min_p = OneOf({share(), share() * 1e-3, 5e-324});
    if (Often(3)) {
      params.repetition_penalty = OneOf({1.0, 1.3, 0.5, 1000.0});
      params.frequency_penalty = OneOf({0.0, 0.25, -1.5});
      params.presence_penalty = OneOf({0.0, 0.5, -1000.0});
      params.penalty_window_tokens = OneOf({0, 1, 64, 65536});
    }
    if (Often(4)) {
      for (int i = Below(4); i >= 0; --i) {
        params.logit_bias.push_back(
            {Below(vocab), OneOf({-kInf, 0.5f, 8.0f, -1e4f, 3e38f})});
      }
    }
    params.seed = Bits();
    return params;
  }

 private:
  std::mt19937_64 random_;
};

void ExpectDefined(Draws& draws, size_t vocab, SamplerScratch& scratch) {
  const std::vector<float> logits = draws.Logits(vocab);
  const SamplingParams params = draws.Params(vocab);
  ASSERT_TRUE(ValidateSampling(params, static_cast<int64_t>(vocab)).ok());
  std::vector<int32_t> history(draws.Below(200));
  for (int32_t& id : history) id = draws.Below(vocab);
  PenaltyCounts counts(params);
  counts.Update(history);
  const auto index = static_cast<int64_t>(history.size());
  const auto token = Sample(logits, params, index, scratch, counts.counts());
  const Defined expected = Define(logits, params, index, history);
  if (!token.ok()) {
    EXPECT_EQ(expected.logit[expected.token], -INFINITY) << token.status();
    return;
  }
  const auto shown = testing::Message()
                     << "temperature " << params.temperature << " top_k "
                     << params.top_k << " top_p " << params.top_p << " min_p "
                     << params.min_p << " typical_p " << params.typical_p << " V "
                     << vocab;
  ASSERT_EQ(*token, expected.token) << shown;
  if (params.temperature == 0) return;

  Candidates candidates(expected.logit,
                        *std::max_element(expected.logit.begin(), expected.logit.end()),
                        params.temperature, scratch.candidates);
  if (params.top_k > 0) candidates.CutTopK(params.top_k);
  if (params.typical_p < 1) candidates.CutTypical(params.typical_p);
  if (params.top_p < 1) candidates.CutTopP(params.top_p);
  if (params.min_p > 0) candidates.CutMinP(params.min_p);
  candidates.Weigh();
  ASSERT_TRUE(std::is_sorted(candidates.ids().begin(), candidates.ids().end()));
  std::vector<double> weight(vocab, 0);
  for (const int32_t id : candidates.ids()) weight[id] = candidates.weight(id);
  ASSERT_EQ(weight, expected.weight) << shown;
}

TEST(SamplingDefinition, SmallVocabularies) {
  Draws draws(1);
  SamplerScratch scratch;
  for (int round = 0; round < 20000; ++round) {
    ExpectDefined(draws, 2 + draws.Below(60), scratch);
    if (HasFatalFailure()) return;
  }
}

TEST(SamplingDefinition, MiddlingVocabularies) {
  Draws draws(2);
  SamplerScratch scratch;
  for (int round = 0; round < 1500; ++round) {
    ExpectDefined(draws, 500 + draws.Below(3000), scratch);
    if (HasFatalFailure()) return;
  }
}

TEST(SamplingDefinition, LargeVocabularies) {
  Draws draws(3);
  SamplerScratch scratch;
  for (int round = 0; round < 60; ++round) {
    ExpectDefined(draws, draws.Often(2) ? 50257 : 50304, scratch);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace mnemon
