// SPDX-License-Identifier: MIT
#include "model/sampling/sampler.h"

#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/sampling/philox.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();

int32_t Draw(std::vector<float> logits, const SamplingParams& params, int64_t index = 0,
             const std::vector<int32_t>& history = {}) {
  SamplerScratch scratch;
  PenaltyCounts window(params, static_cast<int64_t>(logits.size()));
  window.Update(history);
  const auto token = Sample(logits, params, index, scratch, window.counts());
  EXPECT_TRUE(token.ok()) << token.status();
  return token.ok() ? *token : -1;
}

// The tokens that come up in many draws.
std::set<int32_t> Support(std::vector<float> logits, const SamplingParams& params) {
  SamplerScratch scratch;
  std::set<int32_t> seen;
  for (int64_t i = 0; i < 4000; ++i) seen.insert(*Sample(logits, params, i, scratch));
  return seen;
}

constexpr int32_t kVocab = 10;

bool Valid(const RequestedSampling& requested) {
  return ValidateSampling(requested, kVocab).ok();
}

TEST(ValidateSampling, TakesWhatIsDefined) {
  for (double t : {0.0, 1e-320, 1e-45, 1.0, 3.4e38, 0x1.fffffep127}) {
    EXPECT_TRUE(Valid({.temperature = t})) << t;
  }
  for (int32_t k : {0, 1, INT32_MAX}) EXPECT_TRUE(Valid({.top_k = k}));
  for (double p : {1e-300, 0.5, 1.0}) {
    EXPECT_TRUE(Valid({.top_p = p}));
    EXPECT_TRUE(Valid({.min_p = p}));
    EXPECT_TRUE(Valid({.typical_p = p}));
  }
  EXPECT_TRUE(Valid({.min_p = 0}));
  for (double p : {0.001, 1.0, 1000.0}) EXPECT_TRUE(Valid({.repetition_penalty = p}));
  for (double p : {-1000.0, 0.0, 1000.0}) {
    EXPECT_TRUE(Valid({.frequency_penalty = p}));
    EXPECT_TRUE(Valid({.presence_penalty = p}));
  }
  for (int32_t w : {0, 1, 65536}) EXPECT_TRUE(Valid({.penalty_window_tokens = w}));
  EXPECT_TRUE(Valid({.logit_bias = {{0, -kInf}, {9, 3.4e38f}, {9, -1}}}));
  EXPECT_TRUE(Valid({.logit_bias = std::vector<LogitBias>(1024)}));
  for (uint64_t seed : {uint64_t{0}, UINT64_MAX}) EXPECT_TRUE(Valid({.seed = seed}));
}

TEST(ValidateSampling, NamesTheFieldAtFault) {
  const auto field = [](const RequestedSampling& requested) {
    const absl::Status status = ValidateSampling(requested, kVocab);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return GetErrorDetail(status).value_or(ErrorDetail{}).field;
  };
  for (double t : {-1.0, -1e-300, double{NAN}, double{kInf}, -double{kInf},
                   0x1.ffffffp127, 1e308}) {
    EXPECT_EQ(field({.temperature = t}), "temperature") << t;
  }
  for (int32_t k : {-1, INT32_MIN}) EXPECT_EQ(field({.top_k = k}), "top_k");
  for (double p : {0.0, -0.1, 1.0001, double{NAN}, double{kInf}}) {
    EXPECT_EQ(field({.top_p = p}), "top_p") << p;
    EXPECT_EQ(field({.typical_p = p}), "typical_p") << p;
  }
  for (double p : {-1e-9, 1.0001, double{NAN}, double{kInf}}) {
    EXPECT_EQ(field({.min_p = p}), "min_p") << p;
  }
  for (double p :
       {0.0, -1.0, 1e-4, 1000.1, 1e308, double{NAN}, double{kInf}, -double{kInf}}) {
    EXPECT_EQ(field({.repetition_penalty = p}), "repetition_penalty") << p;
  }
  for (double p : {-1000.1, 1000.1, 1e308, double{NAN}, double{kInf}, -double{kInf}}) {
    EXPECT_EQ(field({.frequency_penalty = p}), "frequency_penalty") << p;
    EXPECT_EQ(field({.presence_penalty = p}), "presence_penalty") << p;
  }
  for (int32_t w : {-1, INT32_MIN, 65537, INT32_MAX}) {
    EXPECT_EQ(field({.penalty_window_tokens = w}), "penalty_window_tokens") << w;
  }
  for (int32_t token : {-1, kVocab, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(field({.logit_bias = {{0, 0}, {token, 0}}}), "logit_bias[1]") << token;
  }
  for (float bias : {NAN, kInf}) {
    EXPECT_EQ(field({.logit_bias = {{0, bias}}}), "logit_bias[0]") << bias;
  }
  EXPECT_EQ(field({.logit_bias = std::vector<LogitBias>(1025)}), "logit_bias");
}

TEST(Rounded, IsTheNearestFloat32) {
  const RequestedSampling requested{.temperature = 0x1.ffffffp127 - 0x1p76,
                                    .top_k = 7,
                                    .top_p = 1 - 1e-12,
                                    .min_p = 1e-300,
                                    .typical_p = 0.1,
                                    .repetition_penalty = 1.1,
                                    .frequency_penalty = -0.1,
                                    .presence_penalty = 1e-50,
                                    .penalty_window_tokens = 9,
                                    .logit_bias = {{3, 0.5f}},
                                    .seed = 11};
  ASSERT_TRUE(Valid(requested));
  const SamplingParams expected{.temperature = 0x1.fffffep127f,
                                .top_k = 7,
                                .top_p = 1,
                                .min_p = 0,
                                .typical_p = 0.1f,
                                .repetition_penalty = 1.1f,
                                .frequency_penalty = -0.1f,
                                .presence_penalty = 0,
                                .penalty_window_tokens = 9,
                                .logit_bias = {{3, 0.5f}},
                                .seed = 11};
  EXPECT_EQ(Rounded(requested), expected);
}

TEST(Rounded, TinyOnesKeepAMeaning) {
  const std::vector<float> logits = {1, 3, 2, 3};
  EXPECT_EQ(Draw(logits, Rounded({.temperature = 1e-320, .seed = 5})), 1);
  EXPECT_THAT(Support(logits, Rounded({.top_p = 1e-300})), ElementsAre(1));
  EXPECT_EQ(Support(logits, Rounded({.typical_p = 1e-300})).size(), 1u);
}

TEST(Sample, GreedyTakesTheFirstOfTheLargest) {
  SamplingParams greedy{.temperature = 0, .top_k = 1, .top_p = 0.1};
  EXPECT_EQ(Draw({1, 5, 5, 2}, greedy), 1);
  EXPECT_EQ(Draw({-kInf, -kInf, -3}, greedy), 2);
  EXPECT_EQ(Draw({7}, greedy), 0);
  EXPECT_EQ(Draw({-0.0f, 0.0f}, greedy), 0);
}

TEST(Sample, TinyAndHugeTemperaturesWork) {
  const std::vector<float> logits = {1, 3, 2.9999f, -kInf, 3};
  EXPECT_THAT(Support(logits, {.temperature = 1e-45}), UnorderedElementsAre(1, 4));
  EXPECT_THAT(Support(logits, {.temperature = 3.4e38f}),
              UnorderedElementsAre(0, 1, 2, 4));
  const std::vector<float> far = {3.4e38f, -3.4e38f};
  EXPECT_EQ(Draw(far, {.temperature = 1}), 0);
  // The distance is infinite in float32.
  EXPECT_THAT(Support(far, {.temperature = 3.4e38f}), UnorderedElementsAre(0));
}

TEST(Sample, UnusableLogitsAreInternal) {
  for (std::vector<float> logits : std::vector<std::vector<float>>{
           {1, NAN, 2}, {NAN, 1}, {2, 1, NAN}, {1, kInf}, {-kInf, -kInf}, {}}) {
    for (float temperature : {0.0f, 1.0f}) {
      SamplerScratch scratch;
      const auto token = Sample(logits, {.temperature = temperature}, 0, scratch);
      EXPECT_EQ(token.status().code(), absl::StatusCode::kInternal);
      EXPECT_EQ(GetErrorDetail(token.status())->reason, "NON_FINITE_LOGITS");
    }
  }
}

TEST(Sample, TopKKeepsTheLargestAndSmallIdsAtATie) {
  const std::vector<float> logits = {1, 2, 2, 3, 2};
  EXPECT_THAT(Support(logits, {.top_k = 1}), ElementsAre(3));
  EXPECT_THAT(Support(logits, {.top_k = 2}), ElementsAre(1, 3));
  EXPECT_THAT(Support(logits, {.top_k = 3}), ElementsAre(1, 2, 3));
  EXPECT_THAT(Support(logits, {.top_k = 4}), ElementsAre(1, 2, 3, 4));
  for (int32_t all : {0, 5, 6, INT32_MAX}) {
    EXPECT_THAT(Support(logits, {.top_k = all}), ElementsAre(0, 1, 2, 3, 4));
  }
}

TEST(Sample, TopPKeepsTheSmallestSetThatReachesP) {
  // Probabilities 1/8, 1/2, 1/4, 1/8: exact in floating point once divided by 1/2.
  const float half = std::log(0.5f);
  const std::vector<float> logits = {3 * half, half, 2 * half, 3 * half};
  EXPECT_THAT(Support(logits, {.top_p = 1e-300}), ElementsAre(1));
  EXPECT_THAT(Support(logits, {.top_p = 0.49}), ElementsAre(1));
  EXPECT_THAT(Support(logits, {.top_p = 0.51}), ElementsAre(1, 2));
  EXPECT_THAT(Support(logits, {.top_p = 0.74}), ElementsAre(1, 2));
  EXPECT_THAT(Support(logits, {.top_p = 0.76}), ElementsAre(0, 1, 2));
  EXPECT_THAT(Support(logits, {.top_p = 0.9}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Support(logits, {.top_p = 1}), ElementsAre(0, 1, 2, 3));
}

TEST(Sample, TopPComesAfterTopK) {
  // The first of the two that top-k keeps has 2/3.
  const float half = std::log(0.5f);
  const std::vector<float> logits = {3 * half, half, 2 * half, 3 * half};
  EXPECT_THAT(Support(logits, {.top_k = 2, .top_p = 0.6}), ElementsAre(1));
  EXPECT_THAT(Support(logits, {.top_k = 2, .top_p = 0.7}), ElementsAre(1, 2));
}

TEST(Sample, MinPKeepsWhatIsLikelyEnough) {
  // Probabilities 1/8, 1/2, 1/4, 1/8: shares 1/4, 1, 1/2, 1/4 of the most likely.
  const float half = std::log(0.5f);
  const std::vector<float> logits = {3 * half, half, 2 * half, 3 * half, -kInf};
  EXPECT_THAT(Support(logits, {.min_p = 1}), ElementsAre(1));
  EXPECT_THAT(Support(logits, {.min_p = 0.51}), ElementsAre(1));
  EXPECT_THAT(Support(logits, {.min_p = 0.49}), ElementsAre(1, 2));
  EXPECT_THAT(Support(logits, {.min_p = 0.26}), ElementsAre(1, 2));
  EXPECT_THAT(Support(logits, {.min_p = 0.24}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Support(logits, {.min_p = 0}), ElementsAre(0, 1, 2, 3));
  // After the temperature.
  EXPECT_THAT(Support(logits, {.temperature = 2, .min_p = 0.49}),
              ElementsAre(0, 1, 2, 3));
}

TEST(Sample, TypicalKeepsWhatIsCloseToTheEntropy) {
  // Probabilities 1/2, 1/4, 1/8, 1/16, 1/16 have the entropy 15/8 bits: information 1,
  // 2, 3, 4, 4 bits, distances 7/8, 1/8, 9/8, 17/8, 17/8.
  const float half = std::log(0.5f);
  const std::vector<float> logits = {half,     2 * half, 3 * half,
                                     4 * half, 4 * half, -kInf};
  EXPECT_THAT(Support(logits, {.typical_p = 1e-9}), ElementsAre(1));
  EXPECT_THAT(Support(logits, {.typical_p = 0.24}), ElementsAre(1));
  EXPECT_THAT(Support(logits, {.typical_p = 0.26}), ElementsAre(0, 1));
  EXPECT_THAT(Support(logits, {.typical_p = 0.74}), ElementsAre(0, 1));
  EXPECT_THAT(Support(logits, {.typical_p = 0.76}), ElementsAre(0, 1, 2));
  EXPECT_THAT(Support(logits, {.typical_p = 0.9}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Support(logits, {.typical_p = 0.95}), ElementsAre(0, 1, 2, 3, 4));
}

TEST(Sample, CutsApplyToWhatTheOnesBeforeHaveKept) {
  const float half = std::log(0.5f);
  const std::vector<float> logits = {half, 2 * half, 3 * half, 4 * half, 4 * half};
  // Typical sampling drops the most likely token; then 1/4 is the most likely.
  EXPECT_THAT(Support(logits, {.min_p = 0.6, .typical_p = 0.2}), ElementsAre(1));
  EXPECT_THAT(Support(logits, {.min_p = 0.4, .typical_p = 0.76}), ElementsAre(0, 1));
  // Typical sampling keeps 1/2 and 1/4, of which the first has 2/3.
  EXPECT_THAT(Support(logits, {.top_p = 0.6, .typical_p = 0.74}), ElementsAre(0));
  EXPECT_THAT(Support(logits, {.top_p = 0.7, .typical_p = 0.74}), ElementsAre(0, 1));
  // The two that top-k keeps have entropy 0.918 bits, information 0.585 and 1.585.
  EXPECT_THAT(Support(logits, {.top_k = 2, .typical_p = 0.5}), ElementsAre(0));
  // Top-p comes before min-p: of 1/2 .. 1/8 nothing is below 1/5 of 1/2.
  EXPECT_THAT(Support(logits, {.top_p = 0.8, .min_p = 0.2}), ElementsAre(0, 1, 2));
}

TEST(Sample, PenaltiesLookAtTheWindow) {
  SamplingParams greedy{.temperature = 0, .repetition_penalty = 2};
  // 4 / 2 falls below 3; -1 * 2 falls below -1.5.
  EXPECT_EQ(Draw({4, 3, 0}, greedy, 1, {0}), 1);
  EXPECT_EQ(Draw({4, 3, 0}, greedy, 0, {}), 0);
  EXPECT_EQ(Draw({-1, -1.5, -9}, greedy, 1, {0}), 1);
  EXPECT_EQ(Draw({4, 3, 0}, greedy, 4, {0, 0, 0, 0}), 1);
  greedy = {.temperature = 0, .frequency_penalty = 1};
  EXPECT_EQ(Draw({4, 2.5, 0}, greedy, 1, {0}), 0);
  EXPECT_EQ(Draw({4, 2.5, 0}, greedy, 3, {0, 2, 0}), 1);
  greedy = {.temperature = 0, .presence_penalty = 1};
  EXPECT_EQ(Draw({4, 2.5, 0}, greedy, 3, {0, 2, 0}), 0);
  EXPECT_EQ(Draw({4, 3.5, 0}, greedy, 3, {0, 2, 0}), 1);
  greedy = {.temperature = 0, .frequency_penalty = -1};
  EXPECT_EQ(Draw({4, 3.5, 0}, greedy, 1, {1}), 1);
  // Only what the window holds counts.
  greedy = {.temperature = 0, .presence_penalty = 1, .penalty_window_tokens = 2};
  EXPECT_EQ(Draw({4, 3.5, 0}, greedy, 3, {0, 2, 2}), 0);
  EXPECT_EQ(Draw({4, 3.5, 0}, greedy, 3, {2, 0, 2}), 1);
  greedy.penalty_window_tokens = 0;
  EXPECT_EQ(Draw({4, 3.5, 0}, greedy, 3, {0, 0, 0}), 0);
}

TEST(Sample, PenaltiesAtTheirLimitsStayFinite) {
  std::vector<int32_t> history(65536, 1);
  for (float sign : {-1.0f, 1.0f}) {
    const SamplingParams params{.repetition_penalty = sign > 0 ? 1000.0f : 0.001f,
                                .frequency_penalty = sign * 1000,
                                .presence_penalty = sign * 1000,
                                .penalty_window_tokens = 65536,
                                .logit_bias = {{1, 3.4e38f}, {1, 3.4e38f}}};
    const int32_t token = Draw({3.4e38f, 3.4e38f, -kInf}, params, 70000, history);
    EXPECT_NE(token, 2);
  }
}

TEST(Sample, OverflowsStopAtTheLargestNumbers) {
  // Else the sum of the first would be NaN, and the second would be forbidden.
  SamplingParams greedy{.temperature = 0,
                        .logit_bias = {{0, 3.4e38f}, {0, 3.4e38f}, {0, -kInf}}};
  EXPECT_EQ(Draw({3.4e38f, -kInf, -1}, greedy), 2);
  greedy.logit_bias = {{0, -3.4e38f}, {1, -kInf}};
  EXPECT_EQ(Draw({-3e38f, 1, -kInf}, greedy), 0);
}

TEST(Sample, BiasComesAfterPenaltiesAndAddsUp) {
  SamplingParams greedy{.temperature = 0, .logit_bias = {{2, 3}, {2, 2.5f}}};
  EXPECT_EQ(Draw({5, 4, 0}, greedy), 2);
  greedy.logit_bias = {{0, -kInf}};
  EXPECT_EQ(Draw({5, 4, 0}, greedy), 1);
  EXPECT_THAT(Support({5, 4, 3}, {.logit_bias = {{0, -kInf}}}), ElementsAre(1, 2));
  // (1 / 2) + 4 = 4.5; the other order would give (1 + 4) / 2.
  greedy = {.temperature = 0, .repetition_penalty = 2, .logit_bias = {{0, 4}}};
  EXPECT_EQ(Draw({1, 4, 0}, greedy, 1, {0}), 0);
}

TEST(Sample, ForbiddingEverythingIsTheCallersMistake) {
  SamplerScratch scratch;
  std::vector<float> logits = {1, 2, -kInf};
  for (float temperature : {0.0f, 1.0f}) {
    const auto token = Sample(
        logits, {.temperature = temperature, .logit_bias = {{0, -kInf}, {1, -kInf}}}, 0,
        scratch);
    EXPECT_EQ(token.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(GetErrorDetail(token.status())->reason, "NO_TOKEN_ALLOWED");
    EXPECT_THAT(logits, ElementsAre(1, 2, -kInf));
  }
}

// The token is the inverse of the cumulative distribution, by token id.
TEST(Sample, IsTheInverseOfTheDistribution) {
  const std::vector<float> logits = {0.3f, -1, 2, 0.7f, 1.1f, -kInf, 0};
  const float temperature = 0.8f;
  std::vector<double> p;
  for (float logit : logits) p.push_back(std::exp(logit / temperature));
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (int64_t index = 0; index < 3000; ++index) {
    double u = static_cast<double>(RandomAt(77, index)) * 0x1p-64 * total;
    size_t expected = 0;
    while (expected + 1 < p.size() && u >= p[expected]) u -= p[expected++];
    ASSERT_EQ(Draw(logits, {.temperature = temperature, .seed = 77}, index),
              static_cast<int32_t>(expected));
  }
}

// A token may be in the window and, more than once, in the bias. All logits are kept
// where most are touched, else those that are.
TEST(Sample, LogitsAreAsBefore) {
  SamplingParams params{.presence_penalty = 0.1f,
                        .logit_bias = {{1, 0.7f}, {4, 3}, {4, 0.3f}, {2, -kInf}}};
  SamplerScratch scratch;
  for (const int64_t vocab : {7, 200}) {
    std::vector<float> before = {0.3f, -1, 2, 0.7f, 1.1f, -kInf, 0};
    before.resize(static_cast<size_t>(vocab), 0.5f);
    std::vector<float> logits = before;
    PenaltyCounts counts(params, vocab);
    counts.Update(std::vector<int32_t>{1, 2, 1, 3});
    for (const float temperature : {0.0f, 1.0f}) {
      params.temperature = temperature;
      ASSERT_TRUE(Sample(logits, params, 0, scratch, counts.counts()).ok());
      EXPECT_EQ(logits, before) << vocab;
    }
  }
}

// The vocabulary is so large that only the touched tokens are compared.
TEST(Sample, TheLargestIsFoundWhereverItMoves) {
  std::vector<float> logits(200, 0);
  logits[50] = 5;
  logits[60] = 4;
  const auto largest = [&](std::vector<LogitBias> bias) {
    return Draw(logits, {.temperature = 0, .logit_bias = std::move(bias)});
  };
  EXPECT_EQ(largest({{10, 1}}), 50);            // untouched
  EXPECT_EQ(largest({{50, 1}}), 50);            // raised
  EXPECT_EQ(largest({{50, -0.5f}}), 50);        // lowered, and still
  EXPECT_EQ(largest({{50, -2}}), 60);           // no more: one that is not touched
  EXPECT_EQ(largest({{50, -2}, {70, 4}}), 60);  // of equal ones the first
  EXPECT_EQ(largest({{40, 5}}), 40);
  EXPECT_EQ(largest({{70, 5}}), 50);
  EXPECT_EQ(largest({{70, 6}, {60, 2}}), 60);
  EXPECT_EQ(largest({{50, 0}, {70, 5}, {40, 5}}), 40);
}

TEST(Candidates, DrawTheFirstWhoseRunningSumExceedsTheTarget) {
  // Weights 0, 1, 1, 0, 1, 1.
  const std::vector<float> logits = {-kInf, 2, 2, -99, 2, 2};
  for (const SamplingOperations& operations : AllSamplingOperations()) {
    CandidateScratch scratch;
    Candidates all(logits, {.most = 2, .temperature = 1}, operations, scratch);
    EXPECT_EQ(all.Draw(0), 1);
    EXPECT_EQ(all.Draw((uint64_t{1} << 62) - 1), 1);
    EXPECT_EQ(all.Draw(uint64_t{1} << 62), 2);
    EXPECT_EQ(all.Draw((uint64_t{1} << 63) - 1), 2);
    EXPECT_EQ(all.Draw(uint64_t{1} << 63), 4);
    EXPECT_EQ(all.Draw(UINT64_MAX), 5);
  }
}

TEST(Sample, FrequenciesMatchTheProbabilities) {
  constexpr int kDraws = 200000;
  std::vector<float> logits = {0, 1, 2, -1, 0.5f, 1.5f};
  const SamplingParams params{
      .temperature = 1.3f, .top_k = 5, .top_p = 0.95f, .seed = 5};
  // By hand: top-k drops id 3; of the rest, the smallest set that reaches 95 %.
  std::vector<std::pair<double, int>> kept;
  for (int i : {0, 1, 2, 4, 5}) kept.push_back({std::exp(logits[i] / 1.3), i});
  std::sort(kept.rbegin(), kept.rend());
  double total = 0, sum = 0;
  for (const auto& [w, i] : kept) total += w;
  size_t count = 0;
  while (sum < 0.95 * total) sum += kept[count++].first;
  std::vector<double> p(logits.size(), 0);
  for (size_t j = 0; j < count; ++j) p[kept[j].second] = kept[j].first / sum;

  SamplerScratch scratch;
  std::vector<int> seen(logits.size(), 0);
  for (int64_t i = 0; i < kDraws; ++i) ++seen[*Sample(logits, params, i, scratch)];
  double chi_squared = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0) {
      EXPECT_EQ(seen[i], 0);
    } else {
      chi_squared += std::pow(seen[i] - p[i] * kDraws, 2) / (p[i] * kDraws);
    }
  }
  // At most 5 degrees of freedom: less than 0.02 % exceeds 25.
  EXPECT_LT(chi_squared, 25.0);
}

TEST(Sample, IsPureWhateverTheScratchHeld) {
  std::mt19937 random(9);
  SamplerScratch scratch;
  for (int round = 0; round < 300; ++round) {
    std::vector<float> logits(1 + random() % 50);
    for (float& logit : logits) logit = static_cast<float>(random() % 7);
    const SamplingParams params{
        .temperature = 0.5f + static_cast<float>(random() % 3),
        .top_k = static_cast<int32_t>(random() % 60),
        .top_p = 0.05f + 0.05f * static_cast<float>(random() % 19),
        .min_p = 0.1f * static_cast<float>(random() % 5),
        .typical_p = 0.2f * static_cast<float>(1 + random() % 5),
        .repetition_penalty = 1 + 0.5f * static_cast<float>(random() % 2),
        .frequency_penalty = 0.5f * static_cast<float>(random() % 3),
        .presence_penalty = 0.5f * static_cast<float>(random() % 3),
        .penalty_window_tokens = static_cast<int32_t>(random() % 20),
        .seed = random()};
    std::vector<int32_t> history(random() % 40);
    for (int32_t& id : history) id = static_cast<int32_t>(random() % logits.size());
    const int64_t index = random();
    PenaltyCounts counts(params, static_cast<int64_t>(logits.size()));
    counts.Update(history);
    const auto token = Sample(logits, params, index, scratch, counts.counts());
    ASSERT_TRUE(token.ok());
    ASSERT_EQ(*token, Draw(logits, params, index, history));
    // What is older than the window is without effect.
    const size_t window =
        std::min<size_t>(history.size(), params.penalty_window_tokens);
    ASSERT_EQ(*token,
              Draw(logits, params, index, {history.end() - window, history.end()}));
  }
}

}  // namespace
}  // namespace mnemon
