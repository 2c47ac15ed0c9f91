// SPDX-License-Identifier: MIT
// The tokens of one Generate call between the engine thread, which puts them in, and
// one consumer (a transport), which takes them out.
//
// Bounded: when kCapacity tokens wait, the engine pauses this session and no other.
// A token counts as delivered when Take returned it; cancelling cuts the session back
// to the last delivered one. Shared ownership, because either side may end first.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/text/detokenizer.h"
#include "model/text/stop_text.h"
#include "model/text/tokenizer.h"
#include "server/engine/call_meter.h"
#include "server/engine/request.h"

namespace mnemon {

// Everything that waited at one moment.
struct TokenChunk {
  std::optional<StartFacts> start;  // in the first chunk only
  int64_t first_index = 0;          // absolute index of tokens[0]
  std::vector<int32_t> tokens;
  std::vector<TokenLogprobs> logprobs;  // one per token, or none
  // What they add to the text up to a stop string: complete UTF-8. Text that may yet be
  // part of one is held back. Empty without a tokenizer.
  std::string text;
  bool finished = false;              // nothing comes after this chunk
  absl::Status status;                // when finished: how
  std::optional<FinishFacts> finish;  // when finished with OK
};

// Safe for concurrent use by the engine thread and one consumer.
class TokenStream {
 public:
  static constexpr int kCapacity = 64;

  // `tokenizer` may be null and must outlive the stream. `on_ready` is called, with no
  // lock held and possibly on the engine thread, when Take has something new after it
  // had nothing; it must not block. `on_space` likewise when room appears or the
  // consumer takes the end or cancels, always from within Take or Cancel. Either may
  // still run when the other side is gone: capture what it needs by shared ownership.
  // The text ends at the first of `stop_strings`, none of them empty. `meter` hears of
  // everything that the engine puts in.
  TokenStream(const Tokenizer* tokenizer, std::function<void()> on_ready,
              std::function<void()> on_space,
              const std::vector<std::string>& stop_strings = {}, CallMeter meter = {});

  // Consumer side.
  // Takes all that waits; empty and not finished when there is no token and no end yet
  // (start facts wait for the first of them). A consumer takes until `finished`, or
  // cancels: until then the session stays busy.
  TokenChunk Take();
  // The consumer wants no more: what waits is dropped, Take returns only the end.
  // Idempotent.
  void Cancel();

  // Engine side.
  void Start(const StartFacts& facts);
  // `logprobs` with all tokens of a stream or with none. REQUIRES: space() > 0.
  void Push(int64_t index, int32_t token,
            std::optional<TokenLogprobs> logprobs = std::nullopt);
  void Finish(absl::Status status, const std::optional<FinishFacts>& facts);
  int space() const;
  bool cancelled() const;
  // Take has returned the end.
  bool done() const;
  // Tokens that Take has returned.
  int64_t delivered() const;

 private:
  const Tokenizer* const tokenizer_;
  const std::function<void()> on_ready_;
  const std::function<void()> on_space_;
  CallMeter meter_;  // of the engine side, but for what is safe for concurrent use
  mutable std::mutex mutex_;
  Utf8Stream utf8_;        // owned by the consumer
  StopText stop_;          // owned by the consumer
  TokenChunk waiting_;     // guarded by mutex_, as everything below
  bool notified_ = false;  // on_ready_ called since the last Take
  bool cancelled_ = false;
  bool done_ = false;  // the finished chunk was taken
  int64_t delivered_ = 0;
  std::optional<CallMeter::Time> full_since_;
};

}  // namespace mnemon
