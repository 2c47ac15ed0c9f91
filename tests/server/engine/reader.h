// SPDX-License-Identifier: MIT
// A consumer of one stream for tests.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/engine/engine.h"
#include "tests/fakes/patience.h"

namespace mnemon {

// Everything that one call returned.
struct Outcome {
  std::vector<int32_t> tokens;
  std::string text;
  std::optional<StartFacts> start;
  int64_t first_index = -1;  // of tokens[0]
  absl::Status status;
  std::optional<FinishFacts> finish;
};

// Raised by on_ready.
struct ReadySignal {
  void Raise() {
    std::lock_guard lock(mutex);
    raised = true;
    condition.notify_all();
  }
  bool Await() {
    std::unique_lock lock(mutex);
    const bool came = condition.wait_for(lock, kPatience, [&] { return raised; });
    raised = false;
    return came;
  }
  std::mutex mutex;
  std::condition_variable condition;
  bool raised = false;  // guarded by mutex
};

class Reader {
 public:
  Reader(Engine& engine, const GenerateRequest& request)
      : signal_(std::make_shared<ReadySignal>()),
        stream_(engine.Generate(request, [signal = signal_] { signal->Raise(); })) {}

  // Whether the call was accepted.
  absl::Status status() const { return stream_.status(); }
  TokenStream& stream() { return **stream_; }

  // The next chunk that is not empty. Fails the test if none comes within a minute.
  TokenChunk Next() {
    while (true) {
      TokenChunk chunk = stream().Take();
      if (chunk.finished || !chunk.tokens.empty()) return Note(std::move(chunk));
      if (!signal_->Await()) {
        ADD_FAILURE() << "nothing came";
        chunk.finished = true;
        chunk.status = absl::DeadlineExceededError("nothing came");
        return Note(std::move(chunk));
      }
    }
  }

  // Reads to the end.
  Outcome Finish() {
    if (!stream_.ok()) {
      outcome_.status = stream_.status();
      return outcome_;
    }
    while (!ended_) Next();
    return outcome_;
  }

  bool ended() const { return ended_; }
  // Everything that Next has returned.
  const Outcome& so_far() const { return outcome_; }

 private:
  TokenChunk Note(TokenChunk chunk) {
    if (chunk.start) outcome_.start = chunk.start;
    if (outcome_.first_index < 0) outcome_.first_index = chunk.first_index;
    EXPECT_EQ(chunk.first_index,
              outcome_.first_index + static_cast<int64_t>(outcome_.tokens.size()));
    outcome_.tokens.insert(outcome_.tokens.end(), chunk.tokens.begin(),
                           chunk.tokens.end());
    outcome_.text += chunk.text;
    if (chunk.finished) {
      ended_ = true;
      outcome_.status = chunk.status;
      outcome_.finish = chunk.finish;
    }
    return chunk;
  }

  const std::shared_ptr<ReadySignal> signal_;
  const absl::StatusOr<std::shared_ptr<TokenStream>> stream_;
  Outcome outcome_;
  bool ended_ = false;
};

}  // namespace mnemon
