// SPDX-License-Identifier: MIT
#include "server/streams/token_stream.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "server/requests/engine_errors.h"

namespace mnemon {
namespace {

int64_t BytesOf(const TokenLogprobs& logprobs) {
  return static_cast<int64_t>(sizeof(logprobs) +
                              logprobs.candidates.size() * sizeof(TokenCandidate));
}

// What comes beside the tokens.
int64_t BytesBeside(const TokenChunk& chunk) {
  auto bytes = static_cast<int64_t>(chunk.text.size());
  for (const TokenLogprobs& one : chunk.logprobs) bytes += BytesOf(one);
  for (const Introspection& one : chunk.introspections) bytes += BytesOf(one);
  return bytes;
}

}  // namespace

std::string StreamText::Add(int32_t token) {
  if (tokenizer_ == nullptr || tokenizer_->special(token)) return {};
  return stop_.Push(utf8_.Push(tokenizer_->TokenBytes(token)));
}

std::string StreamText::Finish() {
  std::string text = stop_.Push(utf8_.Finish());
  return text += stop_.Finish();
}

TokenStream::TokenStream(Options options)
    : on_ready_(std::move(options.on_ready)),
      on_event_(std::move(options.on_event)),
      report_empty_(options.report_empty),
      interval_(options.interval),
      timer_(std::move(options.timer)),
      text_(options.tokenizer, std::move(options.stop_strings)),
      room_{.charge = std::move(options.charge), .full_since = {}},
      gate_{.end = options.gated ? 0 : std::numeric_limits<int64_t>::max(),
            .finish = !options.gated} {}

TokenChunk TokenStream::Take(int64_t most) {
  MNEMON_CHECK(most >= 0);
  TokenChunk chunk;
  std::vector<int32_t> silent;
  std::optional<RequestTimer::Time> full_since;
  bool space = false;
  {
    std::lock_guard lock(mutex_);
    const auto waited = static_cast<int64_t>(waiting_.tokens.size());
    if (most == 0 && waited > 0) return chunk;
    if (!std::exchange(due_.now, false)) return chunk;
    if (waiting_.progress) {
      chunk.start = std::exchange(waiting_.start, {});
      chunk.progress = std::exchange(waiting_.progress, {});
      return chunk;
    }
    const int64_t released = ReleasedLocked();
    const bool end = EndReleasedLocked();
    if (released == 0 && !(end && waited == 0)) return chunk;
    const int64_t count = std::min(released, most);
    const int64_t left = waited - count;
    const bool all = left == 0 && (end || !waiting_.finished);
    if (all) {
      chunk = std::exchange(waiting_, {});
      text_sizes_.clear();
    } else {
      due_.now = released > count;
      chunk = TakeFirstLocked(count);
      room_.charge.Set(room_.charge.bytes() - BytesBeside(chunk));
    }
    silent = std::exchange(resumed_.silent, {});
    if (left == 0) room_.charge.Set(0);
    const bool was_full = waited >= room_.capacity && left < room_.capacity;
    space = was_full || (report_empty_ && left == 0);
    if (was_full) full_since = std::exchange(room_.full_since, {});
    waiting_.first_index = chunk.first_index + count;
    delivered_.fetch_add(count, std::memory_order_release);
    waiting_count_.store(static_cast<int>(left), std::memory_order_release);
    if (chunk.finished) taken_ = true;
  }
  const auto report = [&] {
    if (!on_event_ || !(chunk.finished || space)) return;
    on_event_(chunk.finished ? StreamEvent::kEnd : StreamEvent::kSpace);
  };
  try {
    if (full_since) timer_.Stalled(*full_since);
    if (!text_.searches()) {
      for (const int32_t token : silent) text_.Add(token);
      for (const int32_t token : chunk.tokens) chunk.text += text_.Add(token);
    }
    // After an error the call may be resumed: then what is held back comes with what
    // follows.
    if (chunk.finished && chunk.status.ok()) chunk.text += text_.Finish();
  } catch (...) {
    // What was taken counts as delivered.
    report();
    throw;
  }
  report();
  return chunk;
}

TokenChunk TokenStream::TakeFirstLocked(int64_t count) {
  TokenChunk first;
  const auto reserve = [count](const auto& from, auto& to) {
    if (!from.empty()) to.reserve(static_cast<size_t>(count));
  };
  reserve(waiting_.tokens, first.tokens);
  reserve(waiting_.logprobs, first.logprobs);
  reserve(waiting_.introspections, first.introspections);
  if (text_.searches()) {
    const auto end = text_sizes_.begin() + count;
    const size_t bytes = std::accumulate(text_sizes_.begin(), end, size_t{0});
    first.text = waiting_.text.substr(0, bytes);
    waiting_.text.erase(0, bytes);
    text_sizes_.erase(text_sizes_.begin(), end);
  }
  first.start = std::exchange(waiting_.start, {});
  first.first_index = waiting_.first_index;
  const auto move = [count](auto& from, auto& to) {
    if (from.empty()) return;
    const auto end = from.begin() + count;
    to.assign(std::move_iterator(from.begin()), std::move_iterator(end));
    from.erase(from.begin(), end);
  };
  move(waiting_.tokens, first.tokens);
  move(waiting_.logprobs, first.logprobs);
  move(waiting_.introspections, first.introspections);
  return first;
}

void TokenStream::Cancel(CancelKind kind) {
  std::optional<RequestTimer::Time> full_since;
  {
    std::lock_guard lock(mutex_);
    if (cancelled() || taken_) return;
    cancel_kind_ = kind;
    full_since = StopLocked();
    if (kind == CancelKind::kEnd) waiting_.finished = false;
    if (waiting_.finished) waiting_.status = engine_errors::Cancelled();
    due_.now = waiting_.finished;
  }
  if (full_since) timer_.Stalled(*full_since);
  if (on_event_) on_event_(StreamEvent::kCancelled);
}

bool TokenStream::StopDelivery() {
  std::optional<RequestTimer::Time> full_since;
  {
    std::lock_guard lock(mutex_);
    if (cancelled() || taken_) return false;
    full_since = StopLocked();
    waiting_.finished = due_.now = false;
  }
  if (full_since) timer_.Stalled(*full_since);
  return true;
}

std::optional<RequestTimer::Time> TokenStream::StopLocked() {
  cancelled_.store(true, std::memory_order_release);
  waiting_.tokens.clear();
  waiting_.text.clear();
  text_sizes_.clear();
  waiting_.logprobs.clear();
  waiting_.introspections.clear();
  waiting_.progress.reset();
  resumed_.silent = {};
  room_.charge.Set(0);
  waiting_count_.store(0, std::memory_order_release);
  waiting_.finish.reset();
  return std::exchange(room_.full_since, {});
}

void TokenStream::Resume(const StartFacts& facts, int64_t after,
                         std::vector<int32_t> tokens) {
  const int64_t first = facts.first_index + facts.prompt_tokens;
  const auto count = static_cast<int64_t>(tokens.size());
  const int64_t had = std::clamp<int64_t>(after + 1 - first, 0, count);
  std::vector<int32_t> rest(tokens.begin() + had, tokens.end());
  std::string text;
  std::vector<size_t> sizes;
  for (int64_t i = 0; text_.searches() && i < count; ++i) {
    const std::string added = text_.Add(tokens[static_cast<size_t>(i)]);
    if (i < had) continue;
    text += added;
    sizes.push_back(added.size());
  }
  tokens.resize(text_.searches() ? 0 : static_cast<size_t>(had));
  std::lock_guard lock(mutex_);
  if (cancelled()) return;
  resumed_.resumed = true;
  resumed_.at = std::max(first, after + 1);
  waiting_.start = facts;
  waiting_.first_index = resumed_.at;
  waiting_.tokens = std::move(rest);
  waiting_.text = std::move(text);
  text_sizes_ = std::move(sizes);
  resumed_.silent = std::move(tokens);
  room_.charge.Set(count * static_cast<int64_t>(sizeof(int32_t)) +
                   BytesBeside(waiting_));
  delivered_.store(resumed_.at - first, std::memory_order_release);
  waiting_count_.store(static_cast<int>(count - had), std::memory_order_release);
  pushed_ = count > had;
  due_.now = ReleasedLocked() > 0;
}

TokenStream::Notice TokenStream::Release(int64_t end, bool finish,
                                         RequestTimer::Time now) {
  std::lock_guard lock(mutex_);
  if (gate_.end >= end && (gate_.finish || !finish)) return Notice::kNone;
  gate_.end = std::max(gate_.end, end);
  gate_.finish = gate_.finish || finish;
  return DueLocked(now);
}

void TokenStream::SetCapacity(int capacity) {
  MNEMON_CHECK(capacity >= 1 && capacity <= kCapacity);
  std::lock_guard lock(mutex_);
  room_.capacity = capacity;
}

void TokenStream::Start(const StartFacts& facts) {
  timer_.Admitted(facts);
  std::lock_guard lock(mutex_);
  if (resumed_.resumed) return;
  waiting_.start = facts;
  waiting_.first_index = facts.first_index + facts.prompt_tokens;
}

TokenStream::Notice TokenStream::Report(const PromptProgress& progress,
                                        RequestTimer::Time now) {
  std::lock_guard lock(mutex_);
  if (cancelled() || pushed_ || waiting_.finished) return Notice::kNone;
  if (!due_.reported) due_.reported = now;
  if (now - *due_.reported < kProgressInterval) return Notice::kNone;
  due_.reported = now;
  waiting_.progress = progress;
  return std::exchange(due_.now, true) ? Notice::kNone : Notice::kNow;
}

TokenStream::Notice TokenStream::Push(int64_t index, int32_t token,
                                      std::optional<TokenLogprobs> logprobs,
                                      RequestTimer::Time now,
                                      std::optional<Introspection> introspection) {
  timer_.Token(now);
  std::string text;
  if (text_.searches()) text = text_.Add(token);
  std::lock_guard lock(mutex_);
  // After Cancel nothing more is delivered, so that the point of the cut stays fixed.
  if (cancelled()) return Notice::kNone;
  if (index < resumed_.at) {
    if (text_.searches()) return Notice::kNone;
    resumed_.silent.push_back(token);
    room_.charge.Set(room_.charge.bytes() + static_cast<int64_t>(sizeof(token)));
    return Notice::kNone;
  }
  MNEMON_CHECK(static_cast<int>(waiting_.tokens.size()) < room_.capacity);
  if (waiting_.tokens.empty()) waiting_.first_index = index;
  waiting_.tokens.reserve(kCapacity);  // all are there, or none
  if (text_.searches()) {
    text_sizes_.reserve(kCapacity);
    waiting_.text.reserve(waiting_.text.size() + text.size());
  }
  if (introspection)
    waiting_.introspections.reserve(static_cast<size_t>(room_.capacity));
  auto bytes = static_cast<int64_t>(text.size());
  if (waiting_.tokens.empty()) bytes += kCapacity * int64_t{sizeof(token)};
  if (logprobs) {
    bytes += BytesOf(*logprobs);
    waiting_.logprobs.push_back(*std::move(logprobs));
  }
  if (introspection) {
    bytes += BytesOf(*introspection);
    waiting_.introspections.push_back(std::move(*introspection));
  }
  room_.charge.Set(room_.charge.bytes() + bytes);
  if (text_.searches()) {
    waiting_.text += text;
    text_sizes_.push_back(text.size());
  }
  waiting_.tokens.push_back(token);
  waiting_.progress.reset();
  pushed_ = true;
  const auto count = static_cast<int>(waiting_.tokens.size());
  waiting_count_.store(count, std::memory_order_release);
  if (count == room_.capacity) room_.full_since = now;
  return index < gate_.end ? DueLocked(now) : Notice::kNone;
}

int64_t TokenStream::ReleasedLocked() const {
  const auto waiting = static_cast<int64_t>(waiting_.tokens.size());
  return std::clamp<int64_t>(gate_.end - waiting_.first_index, 0, waiting);
}

bool TokenStream::EndReleasedLocked() const {
  return waiting_.finished &&
         (gate_.finish || cancelled() || (!pushed_ && !waiting_.status.ok()));
}

bool TokenStream::EndDueLocked() const {
  return EndReleasedLocked() &&
         ReleasedLocked() == static_cast<int64_t>(waiting_.tokens.size());
}

TokenStream::Notice TokenStream::DueLocked(RequestTimer::Time now) {
  if (due_.now) return Notice::kNone;
  const int64_t count = ReleasedLocked();
  const bool end = EndDueLocked();
  if (count == 0 && !end) return Notice::kNone;
  if (!end && count < room_.capacity / 2 && due_.last && now - *due_.last < interval_) {
    return std::exchange(due_.late, true) ? Notice::kNone : Notice::kLater;
  }
  due_.now = true;
  if (!end) due_.last = now;
  return Notice::kNow;
}

bool TokenStream::Finish(absl::Status status, std::optional<FinishFacts> facts,
                         bool held) {
  const auto later = [&] {
    return held && cancelled() && cancel_kind_ == CancelKind::kEnd;
  };
  bool record;
  {
    std::lock_guard lock(mutex_);
    if (waiting_.finished || taken_ || later()) return false;
    if (cancelled() && status.ok()) status = engine_errors::Cancelled();
    record = !std::exchange(recorded_, true);
  }
  if (record) timer_.Ended(status, facts);
  std::lock_guard lock(mutex_);
  if (later()) return false;
  waiting_.finished = true;
  waiting_.progress.reset();
  // Cancelled since: nothing is delivered, not even how it would have ended.
  if (cancelled() && status.ok()) status = engine_errors::Cancelled();
  if (status.ok()) waiting_.finish = std::move(facts);
  waiting_.status = std::move(status);
  // What waits for the interval is due with the end.
  return (EndDueLocked() || ReleasedLocked() > 0) && !std::exchange(due_.now, true);
}

void TokenStream::RunLate() {
  {
    std::lock_guard lock(mutex_);
    due_.late = false;
    if (due_.now || ReleasedLocked() == 0) return;
    due_.now = true;
    *due_.last += interval_;
  }
  RunCallback();
}

void TokenStream::RunCallback() {
  if (on_ready_) on_ready_();
}

void ReleaseEndOf(TokenStream& stream, const absl::Status& status) {
  const bool ended =
      !status.ok() && stream.StopDelivery() && stream.Finish(status, std::nullopt);
  const TokenStream::Notice notice =
      stream.Release(std::numeric_limits<int64_t>::max(), /*finish=*/true,
                     std::chrono::steady_clock::now());
  if (ended || notice != TokenStream::Notice::kNone) stream.RunCallback();
}

}  // namespace mnemon
