// SPDX-License-Identifier: MIT
#include "server/admission/load_estimate.h"

#include <algorithm>
#include <cmath>

namespace mnemon {
namespace {

// In squared tokens. Below it the steps do not tell what a token takes.
constexpr double kLeastVariance = 1e-3;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

LoadEstimate::Work& LoadEstimate::Work::operator+=(const Work& other) {
  prompt += other.prompt;
  chunks += other.chunks;
  generated += other.generated;
  return *this;
}

LoadEstimate::Work& LoadEstimate::Work::operator-=(const Work& other) {
  prompt -= other.prompt;
  chunks -= other.chunks;
  generated -= other.generated;
  return *this;
}

void LoadEstimate::Load::Add(const Work& work) {
  ++running;
  if (work.prompt > 0) ++prefilling;
  left += work;
}

LoadEstimate::Load& LoadEstimate::Load::operator+=(const Load& other) {
  running += other.running;
  prefilling += other.prefilling;
  left += other.left;
  return *this;
}

void LoadEstimate::RecordStep(Duration interval, int64_t tokens) {
  const double weight = steps_ == 0 ? 1 : kStepWeight;
  const double time_off = interval.count() - step_;
  const double tokens_off = static_cast<double>(tokens) - tokens_;
  step_ += weight * time_off;
  tokens_ += weight * tokens_off;
  variance_ = (1 - weight) * (variance_ + weight * tokens_off * tokens_off);
  covariance_ = (1 - weight) * (covariance_ + weight * tokens_off * time_off);
  if (variance_ > kLeastVariance) per_token_ = covariance_ / variance_;
  // A step takes neither less than nothing without tokens, nor less for more of them.
  if (tokens_ > 0) per_token_ = std::clamp(per_token_, 0.0, step_ / tokens_);
  steps_ = std::min(steps_ + 1, kFewSteps);
}

void LoadEstimate::RecordEnd(int64_t generated) {
  const auto count = static_cast<double>(generated);
  generated_ = generated_ ? *generated_ + (count - *generated_) * kCallWeight : count;
}

// Follows the quantile kLateShare of the margins that calls need: stochastic
// approximation, Robbins and Monro 1951.
void LoadEstimate::RecordTurn(bool too_late) {
  const double step = kLateWeight * (too_late ? 1 - kLateShare : -kLateShare);
  wait_margin_ =
      std::clamp(wait_margin_ * std::exp(step), kLeastWaitMargin, kMostWaitMargin);
}

LoadEstimate::Work LoadEstimate::WorkOf(int64_t prompt_tokens,
                                        int64_t max_tokens) const {
  const int64_t expected =
      generated_ ? std::min(max_tokens, static_cast<int64_t>(std::ceil(*generated_)))
                 : std::min(max_tokens, kFewTokens);
  return {.prompt = prompt_tokens,
          .chunks = CeilDiv(prompt_tokens, chunk_),
          .generated = expected};
}

LoadEstimate::Work LoadEstimate::Left(const Work& work, int64_t computed) const {
  const int64_t prompt = std::max<int64_t>(0, work.prompt - computed);
  const int64_t beyond = std::max<int64_t>(0, computed - work.prompt);
  return {.prompt = prompt,
          .chunks = CeilDiv(prompt, chunk_),
          .generated = std::max<int64_t>(prompt > 0 ? 0 : 1, work.generated - beyond)};
}

LoadEstimate::Duration LoadEstimate::RunTime(const Work& work, const Load& load) const {
  const int64_t room = std::max(step_tokens_ - (load.running - load.prefilling),
                                std::min(chunk_, step_tokens_));
  const double shared = static_cast<double>(work.prompt * (load.prefilling + 1)) /
                        static_cast<double>(room);
  const double steps = static_cast<double>(work.generated) +
                       std::max(static_cast<double>(work.chunks), shared);
  return Duration(steps * step_);
}

LoadEstimate::Duration LoadEstimate::WaitTime(const Work& waiting,
                                              const Load& load) const {
  const auto calls = static_cast<double>(std::max<int64_t>(1, load.running));
  // Of n running calls with uniformly distributed work left, the least is on average
  // 2 / (n + 1) of the mean; until then all n do as much.
  const double share = 2 / (calls + 1);
  return TimeOf(static_cast<double>(waiting.steps()) +
                    share * static_cast<double>(load.left.steps()),
                static_cast<double>(waiting.tokens()) +
                    share * static_cast<double>(load.left.tokens()),
                load);
}

LoadEstimate::Duration LoadEstimate::TimeLeft(const Load& load) const {
  return TimeOf(static_cast<double>(load.left.steps()),
                static_cast<double>(load.left.tokens()), load);
}

LoadEstimate::Duration LoadEstimate::TimeOf(double steps, double tokens,
                                            const Load& load) const {
  const auto calls = static_cast<double>(std::max<int64_t>(1, load.running));
  const double shared =
      std::max(steps / calls, tokens / static_cast<double>(step_tokens_));
  return Duration(shared * (step_ - per_token_ * tokens_) + tokens * per_token_);
}

}  // namespace mnemon
