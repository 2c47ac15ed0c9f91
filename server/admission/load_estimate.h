// SPDX-License-Identifier: MIT
// An estimate of how long calls of one model wait and run at the present load, from
// measured times: a value without clock or lock.
//
// A step computes a chunk of the prompt or one token of each running call, at most
// `step_tokens` tokens together (StepBudget::tokens). So work w on n running calls
// takes max(w.steps / n, w.tokens / step_tokens) steps: the first where most calls
// generate, the second where most compute long prompts. A step takes
// fixed + per_token * tokens, fitted to the newest steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace mnemon {

class LoadEstimate {
 public:
  using Duration = std::chrono::duration<double>;

  // Work of one call or of several.
  struct Work {
    int64_t prompt = 0;     // tokens to compute before the first one is generated
    int64_t chunks = 0;     // of the prompt
    int64_t generated = 0;  // tokens

    int64_t steps() const { return chunks + generated; }
    int64_t tokens() const { return prompt + generated; }
    Work& operator+=(const Work& other);
    Work& operator-=(const Work& other);
  };
  // What calls do now.
  struct Load {
    int64_t running = 0;     // calls that take part in steps: not stalled, not paused
    int64_t prefilling = 0;  // of them, those with prompt left to compute
    Work left;               // of all running ones

    // One more, with so much left.
    void Add(const Work& work);
    Load& operator+=(const Load& other);
  };

  // Factor on the estimated run time in the deadline check of a new call.
  static constexpr double kRunMargin = 1.15;

  // A prompt is computed in chunks of at most `chunk` tokens.
  LoadEstimate(int64_t chunk, int64_t step_tokens)
      : chunk_(chunk), step_tokens_(step_tokens) {}

  // A step of so many tokens ended `interval` after the one before it; not for the
  // first step after a pause.
  void RecordStep(Duration interval, int64_t tokens);
  // A call ended by itself after generating so many tokens.
  void RecordEnd(int64_t generated);

  // A queued call's turn came: still in time for its deadline, or too late.
  void RecordTurn(bool too_late);

  // Factor on the estimated wait time in the deadline check of a new call. It rises
  // with each queued call whose turn comes too late and falls with each other one, so
  // that few turns come too late when the machine's speed changes.
  double wait_margin() const { return wait_margin_; }

  // Work of a call that may generate up to `max_tokens`: it counts as many as calls
  // generated on average so far, few while none has ended.
  Work WorkOf(int64_t prompt_tokens, int64_t max_tokens) const;
  // What is left of `work` with so many of its tokens computed; at least one token.
  Work Left(const Work& work, int64_t computed) const;
  // Time of a call from its admission to its end, beside those of `load`.
  Duration RunTime(const Work& work, const Load& load) const;
  // From now until a queued call starts, with `waiting` queued before it.
  Duration WaitTime(const Work& waiting, const Load& load) const;
  // From now until a running call ends, on average.
  Duration TimeLeft(const Load& load) const;

  // Whether enough steps were measured for an estimate.
  bool measured() const { return steps_ >= kFewSteps; }

 private:
  static constexpr int kFewSteps = 16;
  static constexpr int64_t kFewTokens = 32;
  // Weight of the newest step and call in the moving averages.
  static constexpr double kStepWeight = 1.0 / 16;
  static constexpr double kCallWeight = 1.0 / 8;
  // Share of turns that may come too late, and what one that does adds to the logarithm
  // of the margin.
  static constexpr double kLateShare = 1.0 / 256;
  static constexpr double kLateWeight = 1.0 / 16;
  static constexpr double kLeastWaitMargin = 2;
  static constexpr double kMostWaitMargin = 16;

  // That as many calls as run at the present load take for so much together.
  Duration TimeOf(double steps, double tokens, const Load& load) const;

  const int64_t chunk_;
  const int64_t step_tokens_;
  int steps_ = 0;
  // Moving averages over steps: their seconds and tokens, the variance of the latter
  // and the covariance of both.
  double step_ = 0;
  double tokens_ = 0;
  double variance_ = 0;
  double covariance_ = 0;
  double per_token_ = 0;  // seconds; 0 until steps of different size were measured
  std::optional<double> generated_;
  double wait_margin_ = kLeastWaitMargin;
};

}  // namespace mnemon
