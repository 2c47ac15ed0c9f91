// SPDX-License-Identifier: MIT
#include "server/engine/token_stream.h"

#include <utility>

#include "base/check.h"

namespace mnemon {

TokenStream::TokenStream(const Tokenizer* tokenizer, std::function<void()> on_ready,
                         std::function<void()> on_space,
                         const std::vector<std::string>& stop_strings, CallMeter meter)
    : tokenizer_(tokenizer),
      on_ready_(std::move(on_ready)),
      on_space_(std::move(on_space)),
      meter_(std::move(meter)),
      stop_(stop_strings) {}

TokenChunk TokenStream::Take() {
  TokenChunk chunk;
  std::optional<CallMeter::Time> full_since;
  {
    std::lock_guard lock(mutex_);
    notified_ = false;
    if (waiting_.tokens.empty() && !waiting_.finished) return chunk;
    chunk = std::exchange(waiting_, {});
    full_since = std::exchange(full_since_, {});
    delivered_ += static_cast<int64_t>(chunk.tokens.size());
    waiting_.first_index =
        chunk.first_index + static_cast<int64_t>(chunk.tokens.size());
    if (chunk.finished) done_ = true;
  }
  if (full_since) meter_.Stalled(*full_since);
  if (tokenizer_) {
    for (int32_t token : chunk.tokens) {
      chunk.text += stop_.Push(utf8_.Push(tokenizer_->TokenBytes(token)));
    }
    if (chunk.finished) chunk.text += stop_.Push(utf8_.Finish()) + stop_.Finish();
  }
  if (on_space_) on_space_();
  return chunk;
}

void TokenStream::Cancel() {
  std::optional<CallMeter::Time> full_since;
  {
    std::lock_guard lock(mutex_);
    if (cancelled_ || done_) return;
    cancelled_ = true;
    waiting_.tokens.clear();
    waiting_.logprobs.clear();
    full_since = std::exchange(full_since_, {});
    waiting_.finish.reset();
    if (waiting_.finished) waiting_.status = absl::CancelledError("call cancelled");
  }
  if (full_since) meter_.Stalled(*full_since);
  if (on_space_) on_space_();
}

void TokenStream::Start(const StartFacts& facts) {
  meter_.Admitted(facts);
  std::lock_guard lock(mutex_);
  waiting_.start = facts;
  waiting_.first_index = facts.first_index + facts.prompt_tokens;
}

void TokenStream::Push(int64_t index, int32_t token,
                       std::optional<TokenLogprobs> logprobs) {
  meter_.Token();
  bool notify;
  {
    std::lock_guard lock(mutex_);
    // After Cancel nothing more is delivered, so that the cut-back point stands still.
    if (cancelled_) return;
    MNEMON_CHECK(static_cast<int>(waiting_.tokens.size()) < kCapacity);
    if (waiting_.tokens.empty()) waiting_.first_index = index;
    waiting_.tokens.push_back(token);
    if (logprobs) waiting_.logprobs.push_back(*std::move(logprobs));
    if (waiting_.tokens.size() == kCapacity) full_since_ = meter_.Now();
    notify = !std::exchange(notified_, true);
  }
  if (notify && on_ready_) on_ready_();
}

void TokenStream::Finish(absl::Status status, const std::optional<FinishFacts>& facts) {
  bool notify;
  {
    std::lock_guard lock(mutex_);
    if (waiting_.finished || done_) return;
    waiting_.finished = true;
    if (cancelled_ && status.ok()) status = absl::CancelledError("call cancelled");
    if (status.ok()) waiting_.finish = facts;
    waiting_.status = status;
    notify = !std::exchange(notified_, true);
  }
  meter_.Ended(status, facts);
  if (notify && on_ready_) on_ready_();
}

int TokenStream::space() const {
  std::lock_guard lock(mutex_);
  return kCapacity - static_cast<int>(waiting_.tokens.size());
}

bool TokenStream::cancelled() const {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

bool TokenStream::done() const {
  std::lock_guard lock(mutex_);
  return done_;
}

int64_t TokenStream::delivered() const {
  std::lock_guard lock(mutex_);
  return delivered_;
}

}  // namespace mnemon
