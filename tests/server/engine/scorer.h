// SPDX-License-Identifier: MIT
// The caller of one Score call, for tests.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/status_macros.h"
#include "model/sampling/logprobs.h"
#include "tests/server/engine/reader.h"

namespace mnemon {

struct Scores {
  std::vector<TokenLogprobs> tokens;
  int64_t first_index = -1;
  absl::Status status;
};

// One Score call, from its first to its last part.
class Scorer {
 public:
  Scorer(Engine& engine, const ScoreRequest& request)
      : signal_(std::make_shared<ReadySignal>()),
        call_(engine.Score(request, [signal = signal_] { signal->Raise(); })) {}

  absl::Status status() const { return call_.status(); }
  ScoreCall& call() { return *call_; }
  const Scores& scores() const { return scores_; }

  // Waits until everything in the part that can be scored is scored.
  absl::Status Append(const Prompt& part) {
    MNEMON_ASSIGN_OR_RETURN(const int64_t count, call_->append(part));
    const size_t target = scores_.tokens.size() + static_cast<size_t>(count);
    while (!ended_ && scores_.tokens.size() < target) Take();
    return ended_ ? scores_.status : absl::OkStatus();
  }

  Scores Finish() {
    call_->close();
    while (!ended_) Take();
    return scores_;
  }

  void Take() {
    const TokenChunk chunk = call_->stream->Take();
    if (!chunk.finished && chunk.tokens.empty()) {
      ASSERT_TRUE(signal_->Await());
      return;
    }
    EXPECT_EQ(chunk.logprobs.size(), chunk.tokens.size());
    if (scores_.first_index < 0) scores_.first_index = chunk.first_index;
    scores_.tokens.insert(scores_.tokens.end(), chunk.logprobs.begin(),
                          chunk.logprobs.end());
    ended_ = chunk.finished;
    if (ended_) scores_.status = chunk.status;
  }

 private:
  const std::shared_ptr<ReadySignal> signal_;
  absl::StatusOr<ScoreCall> call_;
  Scores scores_;
  bool ended_ = false;
};

}  // namespace mnemon
