// SPDX-License-Identifier: MIT
// The tokens of one call between the model runner, which puts them in, and one consumer
// (a transport), which takes them out.
//
// Bounded: when kCapacity tokens wait, or fewer where they bring much (SetCapacity),
// the runner pauses this session and no other. Tokens that come within
// Options::interval of one another are due together. A token counts as delivered when
// Take returned it; cancelling cuts the session back to the last delivered one, or
// leaves a call that goes on without a consumer: what it pushes is dropped, and the
// stream is never full. Shared ownership, because either side may end first.
//
// A stream that resumes a call begins with tokens that the session has already: Resume.
// A gated one holds back what depends on a record that is being written: Release.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/byte_budget.h"
#include "model/text/detokenizer.h"
#include "model/text/stop_text.h"
#include "model/text/tokenizer.h"
#include "server/engine/callback_threads.h"
#include "server/engine/request.h"
#include "server/engine/request_timer.h"

namespace mnemon {

// Everything that waited at one moment.
struct TokenChunk {
  std::optional<StartFacts> start;  // in the first chunk only
  // Then there are no tokens.
  std::optional<PromptProgress> progress;
  int64_t first_index = 0;  // absolute index of tokens[0]
  std::vector<int32_t> tokens;
  std::vector<TokenLogprobs> logprobs;        // one per token, or none
  std::vector<Introspection> introspections;  // likewise
  // What they add to the text up to a stop string: complete UTF-8. Text that may yet be
  // part of one is held back. Empty without a tokenizer.
  std::string text;
  bool finished = false;              // nothing comes after this chunk
  absl::Status status;                // when finished: how
  std::optional<FinishFacts> finish;  // when finished with OK
};

// How a consumer cancels.
enum class CancelKind {
  kLost,  // it is gone: a call that can be resumed may be kept for that
  kEnd,   // the call ends in any case; its end comes once it holds its session no more
};

// Events of a consumer that matter to the runner.
enum class StreamEvent {
  kSpace,      // took tokens out of a full stream, or see report_empty
  kEnd,        // took the end
  kCancelled,  // called Cancel
};

// Safe for concurrent use by one runner and one consumer.
class TokenStream final : public Callback {
 public:
  static constexpr int kCapacity = 64;
  // Between two reports of progress, and before the first one.
  static constexpr std::chrono::seconds kProgressInterval{1};

  // What the caller of Push posts to its callback threads.
  enum class Notice {
    kNone,
    kNow,    // the stream
    kLater,  // the stream's Late, to be run within the interval
  };

  struct Options {
    // Null: no text. Outlives the stream.
    const Tokenizer* tokenizer = nullptr;
    // The text ends at the first of them; none is empty.
    std::vector<std::string> stop_strings = {};
    // Between two times at which tokens become due. A token that comes earlier waits
    // for that, until the stream is half full, or for the end. Zero: it is due at once.
    std::chrono::nanoseconds interval{0};
    // Nothing is due before Release lets it leave.
    bool gated = false;
    // Called on a callback thread, with no lock held, when something becomes due after
    // nothing was; must not block for long.
    std::function<void()> on_ready = nullptr;
    // Called from within Take or Cancel, with no lock held. Either function may still
    // run when the other side is gone: capture what it needs by shared ownership.
    std::function<void(StreamEvent)> on_event = nullptr;
    // Whether on_event hears, by kSpace, of every time when nothing is left to take.
    bool report_empty = false;
    // Records the times of the call.
    RequestTimer timer = {};
    // Of what waits; whatever its limit, since the runner bounds that.
    ByteCharge charge = {};
  };
  explicit TokenStream(Options options);

  // Consumer side.
  // Takes the first `most` tokens that wait, with the end when none is left behind
  // them, or the newest progress of the prompt; empty and not finished when none of
  // them is due (start facts wait for the first of them), or a token waits and `most`
  // is 0. What is left is due at once. A consumer takes until `finished`, or cancels:
  // until then the session stays busy. May throw std::bad_alloc: then what waited is
  // lost, but counts as taken, an end too. REQUIRES: most >= 0.
  TokenChunk Take(int64_t most = kCapacity);
  // Ends the call: what waits is dropped, Take returns only the end. No effect after
  // the end was taken. The first one counts.
  void Cancel(CancelKind kind = CancelKind::kLost);

  // Before the runner gets the stream, by any thread: it goes on behind the index
  // `after` of a call of which `tokens` from the absolute index `first` on are there:
  // those up to `after` only bring the text to where it was, the others wait, also more
  // than kCapacity. What is pushed up to `after` counts as delivered and is not given
  // again. Throws std::bad_alloc.
  void Resume(const StartFacts& facts, int64_t after, std::vector<int32_t> tokens);
  // Likewise before, by any thread: at most so many tokens wait, 1 .. kCapacity.
  void SetCapacity(int capacity);
  // Of a gated stream, from any thread: tokens below the absolute index `end`, and with
  // `finish` the end, may leave, also those that come later. Neither is taken back.
  [[nodiscard]] Notice Release(int64_t end, bool finish, RequestTimer::Time now);

  // Runner side.
  // The facts go out with the first chunk, unless those of Resume do.
  void Start(const StartFacts& facts);
  // No effect within kProgressInterval of the last report, or of the first call, and
  // once there was a token. It is no delivery, and a gated stream gives it too.
  [[nodiscard]] Notice Report(const PromptProgress& progress, RequestTimer::Time now);
  // `logprobs` and `introspection` with all tokens of a stream or with none. REQUIRES:
  // space() > 0.
  [[nodiscard]] Notice Push(int64_t index, int32_t token,
                            std::optional<TokenLogprobs> logprobs,
                            RequestTimer::Time now,
                            std::optional<Introspection> introspection = {});
  // True: as Notice::kNow. The first end counts. Where no token was pushed, an error is
  // due although the stream is gated. `held`: the call holds its session until the end
  // is taken; no effect after Cancel(kEnd), whose end comes later.
  [[nodiscard]] bool Finish(absl::Status status, std::optional<FinishFacts> facts,
                            bool held = false);
  // Drops what waits, an end too, and delivers nothing more but the end that the next
  // Finish gives, gated or not. False, without an effect: it was cancelled, or its end
  // was taken.
  [[nodiscard]] bool StopDelivery();
  int space() const {
    return std::max(0, capacity_ - waiting_count_.load(std::memory_order_acquire));
  }
  // Tokens that wait; from any thread.
  int waiting() const { return waiting_count_.load(std::memory_order_acquire); }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // REQUIRES: cancelled().
  CancelKind cancel_kind() const { return cancel_kind_; }
  // Tokens that Take has returned; of a stream that resumes a call, those of the whole
  // call.
  int64_t delivered() const { return delivered_.load(std::memory_order_acquire); }

  // Calls on_ready.
  void RunCallback() override;
  // Makes what waits due and calls on_ready, if that has not happened yet.
  static std::shared_ptr<Callback> Late(const std::shared_ptr<TokenStream>& stream) {
    return {stream, &stream->late_};
  }

 private:
  class LateNotice final : public Callback {
   public:
    explicit LateNotice(TokenStream& stream) : stream_(stream) {}
    void RunCallback() override { stream_.SetDue(); }

   private:
    TokenStream& stream_;
  };

  void SetDue();
  // Waiting tokens that may leave.
  int64_t ReleasedLocked() const;
  // Whether the end may leave once no token waits.
  bool EndReleasedLocked() const;
  // Something may leave that could not before.
  Notice DueLocked(RequestTimer::Time now);
  // REQUIRES: at least `count` tokens wait. Throws std::bad_alloc.
  TokenChunk TakeFirstLocked(int64_t count);
  // Sets the chunk's text, which follows that of `silent`. May throw std::bad_alloc.
  void Decode(std::span<const int32_t> silent, TokenChunk& chunk);
  // Of Cancel and StopDelivery: since when the stream was full, if it was.
  std::optional<RequestTimer::Time> StopLocked();

  const Tokenizer* const tokenizer_;
  const std::function<void()> on_ready_;
  const std::function<void(StreamEvent)> on_event_;
  const bool report_empty_;
  const std::chrono::nanoseconds interval_;
  LateNotice late_{*this};
  RequestTimer timer_;  // of the runner's side, but for what is safe for concurrent use
  Utf8Stream utf8_;     // owned by the consumer
  StopText stop_;       // owned by the consumer

  std::mutex mutex_;
  // All below is guarded by mutex_; atomics are read without, and by the runner's side
  // capacity_, which is constant once that has the stream.
  int capacity_ = kCapacity;
  ByteCharge charge_;  // of waiting_ and silent_
  TokenChunk waiting_;
  std::vector<int32_t> silent_;  // that the text decoder is still to be fed with
  int64_t resumed_at_ = 0;       // tokens before it are fed silently
  bool resumed_ = false;
  bool pushed_ = false;    // a token, or one waited from the beginning
  int64_t released_;       // tokens below it may leave
  bool finish_released_;   // and the end
  bool due_ = false;       // for Take
  bool late_due_ = false;  // late_ is posted
  std::optional<RequestTimer::Time> last_due_;  // when tokens became due
  std::optional<RequestTimer::Time> reported_;  // when progress was, or might have been
  bool taken_ = false;                          // the finished chunk was taken
  bool recorded_ = false;                       // the timer has its end
  std::optional<RequestTimer::Time> full_since_;
  std::atomic<int> waiting_count_ = 0;
  std::atomic<bool> cancelled_ = false;
  CancelKind cancel_kind_ = CancelKind::kLost;  // constant once cancelled_ is set
  std::atomic<int64_t> delivered_ = 0;
};

}  // namespace mnemon
