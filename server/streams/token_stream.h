// SPDX-License-Identifier: MIT
// The queue of one call's tokens between the model runner, which pushes them, and one
// consumer (a transport), which takes them.
//
// It is bounded: when kCapacity tokens wait, or fewer if they are large (SetCapacity),
// the runner pauses this session and no other. Tokens within Options::interval of one
// another become due together. A token counts as delivered once Take has returned it.
// Cancelling cuts the session back to the last delivered token, or leaves a call that
// goes on without a consumer: then pushed tokens are dropped, and the stream is never
// full. Shared ownership, because either side may end first.
//
// Each token is decoded once: by Push where there are stop strings, because the runner
// has to know where the call ends, else by Take, on the consumer's thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/memory/byte_budget.h"
#include "model/text/detokenizer.h"
#include "model/text/stop_text.h"
#include "model/text/tokenizer.h"
#include "server/requests/observer.h"
#include "server/requests/request.h"
#include "server/waiting/callback_threads.h"

namespace mnemon {

// What the consumer takes at once.
struct TokenChunk {
  std::optional<StartFacts> start;  // in the first chunk only
  // Progress of the prompt; then there are no tokens.
  std::optional<PromptProgress> progress;
  int64_t first_index = 0;  // absolute index of tokens[0]
  std::vector<int32_t> tokens;
  std::vector<TokenLogprobs> logprobs;        // one per token, or none
  std::vector<Introspection> introspections;  // one per token, or none
  std::string text;                           // that they complete: see StreamText
  bool finished = false;                      // nothing comes after this chunk
  absl::Status status;                        // valid if finished
  std::optional<FinishFacts> finish;          // if finished with OK
};

// How a consumer cancels.
enum class CancelKind {
  kLost,  // the consumer is gone: the call may be kept for a resume
  kEnd,   // the call ends in any case; its end comes once it has released its session
};

// Actions of the consumer that the runner is told of.
enum class StreamEvent {
  kSpace,      // it took tokens from a full stream, or see report_empty
  kEnd,        // it took the end
  kCancelled,  // it called Cancel
};

// The text of generated tokens as complete UTF-8, up to a stop string. Text that may be
// part of one is held back. Special tokens add nothing. May throw std::bad_alloc.
class StreamText {
 public:
  // Without a `tokenizer` (null) there is no text. It outlives the object.
  StreamText(const Tokenizer* tokenizer, std::vector<std::string> stop_strings)
      : tokenizer_(tokenizer),
        searches_(!stop_strings.empty()),
        stop_(std::move(stop_strings)) {}

  // What the next token completes.
  std::string Add(int32_t token);
  // What was held back. No tokens follow.
  std::string Finish();
  bool searches() const { return searches_; }
  const std::optional<std::string>& found() const { return stop_.found(); }

 private:
  const Tokenizer* const tokenizer_;
  const bool searches_;
  Utf8Stream utf8_;
  StopText stop_;
};

// Safe for concurrent use by one runner and one consumer.
class TokenStream final : public Callback {
 public:
  static constexpr int kCapacity = 64;
  // Time between two reports of progress, and before the first one.
  static constexpr std::chrono::seconds kProgressInterval{1};

  // What the caller has to post to the callback threads.
  enum class Notice {
    kNone,
    kNow,    // the stream
    kLater,  // Late(stream), by PostLater
  };

  struct Options {
    // Null: no text. Must outlive the stream.
    const Tokenizer* tokenizer = nullptr;
    // The text ends at the first of them. None is empty.
    std::vector<std::string> stop_strings = {};
    // Least time between two moments when tokens become due. Earlier tokens wait for
    // the next one, a half full stream, or the end. Zero: tokens are due at once.
    std::chrono::nanoseconds interval{0};
    // Whether tokens and the end are held back until Release.
    bool gated = false;
    // Called on a callback thread, without a lock, when something becomes due after
    // nothing was. Must not block for long.
    std::function<void()> on_ready = nullptr;
    // Called by Take and Cancel, without a lock. Both functions may still run when the
    // other side is gone: they must share ownership of what they use.
    std::function<void(StreamEvent)> on_event = nullptr;
    // Whether kSpace is also reported whenever Take leaves no tokens.
    bool report_empty = false;
    RequestTimer timer = {};
    // For what waits. Its limit is not enforced, because the runner bounds what waits.
    ByteCharge charge = {};
  };
  explicit TokenStream(Options options);

  // Consumer side.
  // Takes up to `most` tokens, and the end if no token is left; or the newest progress
  // of the prompt. The chunk is empty and not finished if nothing is due, or if a token
  // waits and `most` is 0. Start facts come with the first token or progress. Tokens
  // that are left are due at once. A consumer takes until `finished`, or cancels: until
  // then the session stays busy. Throws std::bad_alloc: then what it took, the end
  // included, is lost but counts as taken. REQUIRES: most >= 0.
  TokenChunk Take(int64_t most = kCapacity);
  // Ends the call: what waits is dropped, and Take returns only the end. No effect
  // after the end was taken. The first Cancel counts.
  void Cancel(CancelKind kind = CancelKind::kLost);

  // Before the runner gets the stream, by any thread.
  // Makes the stream go on after the absolute index `after` of a call that has
  // generated `tokens` so far. Tokens up to `after` count as delivered and only advance
  // the text, whether they are among `tokens` or pushed later. The others wait, even
  // more than kCapacity. Throws std::bad_alloc.
  void Resume(const StartFacts& facts, int64_t after, std::vector<int32_t> tokens);
  // Sets how many tokens may wait, 1 .. kCapacity.
  void SetCapacity(int capacity);

  // Any thread. Lets tokens below the absolute index `end`, and with `finish` the end,
  // leave a gated stream, including those that come later. Cannot be undone.
  [[nodiscard]] Notice Release(int64_t end, bool finish, RequestTimer::Time now);

  // Runner side.
  // Sets the facts for the first chunk, unless Resume has.
  void Start(const StartFacts& facts);
  // Reports progress. No effect within kProgressInterval of the last report or of the
  // first call, or after a token. It is not held back by a gated stream and does not
  // count as delivered.
  [[nodiscard]] Notice Report(const PromptProgress& progress, RequestTimer::Time now);
  // Adds a token. Either all tokens of a stream have `logprobs`, or none; likewise
  // `introspection`. Throws std::bad_alloc. REQUIRES: space() > 0.
  [[nodiscard]] Notice Push(int64_t index, int32_t token,
                            std::optional<TokenLogprobs> logprobs,
                            RequestTimer::Time now,
                            std::optional<Introspection> introspection = {});
  // The stop string that the tokens of Resume and Push contain.
  const std::optional<std::string>& stop_string() const { return text_.found(); }
  // Sets the end. True: as Notice::kNow. The first end counts. An error before the
  // first token is not held back by a gated stream. `held`: the call holds its session
  // until the end is taken; then there is no effect after Cancel(kEnd), whose end comes
  // later.
  [[nodiscard]] bool Finish(absl::Status status, std::optional<FinishFacts> facts,
                            bool held = false);
  // Drops what waits, including an end. After that only the end of the next Finish is
  // delivered, gated or not. False, without an effect: it was cancelled, or its end was
  // taken.
  [[nodiscard]] bool StopDelivery();
  int space() const {
    return std::max(0, room_.capacity - waiting_count_.load(std::memory_order_acquire));
  }
  // Tokens that wait. For any thread.
  int waiting() const { return waiting_count_.load(std::memory_order_acquire); }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // REQUIRES: cancelled().
  CancelKind cancel_kind() const { return cancel_kind_; }
  // Tokens that Take has returned, or that count as delivered since Resume.
  int64_t delivered() const { return delivered_.load(std::memory_order_acquire); }

  void RunCallback() override;  // calls on_ready
  // The callback for Notice::kLater: makes what waits due and calls on_ready, unless
  // that has happened.
  static std::shared_ptr<Callback> Late(const std::shared_ptr<TokenStream>& stream) {
    return {stream, &stream->late_};
  }

 private:
  struct LateNotice final : Callback {
    explicit LateNotice(TokenStream& its_stream) : stream(its_stream) {}
    void RunCallback() override { stream.RunLate(); }
    TokenStream& stream;
  };

  // Limits and costs of what waits.
  struct Room {
    // The runner reads it without the mutex: constant once it has the stream.
    int capacity = kCapacity;
    ByteCharge charge;  // for waiting_ and Resumed::silent
    std::optional<RequestTimer::Time> full_since;
  };
  // What may leave; does not shrink.
  struct Gate {
    int64_t end = 0;      // tokens below this absolute index
    bool finish = false;  // the end of the stream
  };
  // What the consumer was told to take.
  struct Due {
    bool now = false;                        // something, by Take
    bool late = false;                       // late_ is posted
    std::optional<RequestTimer::Time> last;  // when tokens became due
    // Time of the last report of progress, or of the first call of Report.
    std::optional<RequestTimer::Time> reported;
  };
  // Where a stream that resumes a call begins.
  struct Resumed {
    bool resumed = false;
    int64_t at = 0;  // tokens below this absolute index only advance the text
    std::vector<int32_t> silent;  // such tokens, for Take to decode
  };

  void RunLate();  // see Late
  // Waiting tokens that may leave.
  int64_t ReleasedLocked() const;
  // Whether there is an end that may leave once no token waits; and now.
  bool EndReleasedLocked() const;
  bool EndDueLocked() const;
  // Makes due what may leave, and returns how to tell the consumer.
  Notice DueLocked(RequestTimer::Time now);
  // REQUIRES: at least `count` tokens wait. Throws std::bad_alloc.
  TokenChunk TakeFirstLocked(int64_t count);
  // Drops what waits. Returns since when the stream was full, if it was.
  std::optional<RequestTimer::Time> StopLocked();

  const std::function<void()> on_ready_;
  const std::function<void(StreamEvent)> on_event_;
  const bool report_empty_;
  const std::chrono::nanoseconds interval_;
  LateNotice late_{*this};
  // Used by the runner, except for its methods that are safe for concurrent use.
  RequestTimer timer_;
  // Used by whoever decodes the tokens, and by the consumer after an end with OK.
  StreamText text_;

  std::mutex mutex_;
  // All below is guarded by mutex_. Atomics are written under it and read without.
  TokenChunk waiting_;
  std::vector<size_t> text_sizes_;  // waiting_.text by token, where Push decodes
  Room room_;
  Gate gate_;
  Due due_;
  Resumed resumed_;
  bool pushed_ = false;                         // a token, or Resume left one waiting
  bool recorded_ = false;                       // the timer has the end
  bool taken_ = false;                          // by the consumer: the end
  CancelKind cancel_kind_ = CancelKind::kLost;  // constant once cancelled_ is set
  std::atomic<bool> cancelled_ = false;
  std::atomic<int> waiting_count_ = 0;
  std::atomic<int64_t> delivered_ = 0;
};

// Lets everything leave a gated stream. With an error, ends the stream with it.
void ReleaseEndOf(TokenStream& stream, const absl::Status& status);

}  // namespace mnemon
