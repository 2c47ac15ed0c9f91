// SPDX-License-Identifier: MIT
// The common part of the handlers of streaming calls: an open call, one holder at a
// time of all members, and the order of the call's work, its messages and its end.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "server/service/methods.h"
#include "server/streams/token_stream.h"

namespace mnemon {

// A non-blocking lock for the progress of one handler, which several threads drive: the
// engine, its door, a shutdown. Safe for concurrent use. Held when constructed.
//
// Invariant: at most one holder. Only the holder starts a write or finishes the call,
// and it stays the holder while a write is in flight. The holder that finishes the call
// never releases the lock, so no thread acquires it afterwards, and the handler, which
// may be destroyed by then, is not touched by a late notification. Shared between the
// handler and all that notify it.
class CallSerializer {
 public:
  // True: the caller holds the lock now. False: the present holder will check for work
  // again before it releases, or the call is over.
  bool Acquire() {
    std::lock_guard lock(mutex_);
    return AcquireLocked();
  }

  // As Acquire, and requests the end of the call with `status`; the first such request
  // counts.
  bool AcquireToStop(const absl::Status& status) {
    std::lock_guard lock(mutex_);
    if (!stop_) stop_ = status;
    return AcquireLocked();
  }

  // False: another thread called Acquire meanwhile; the caller still holds the lock and
  // must check for work again.
  bool Release() {
    std::lock_guard lock(mutex_);
    if (std::exchange(again_, false)) return false;
    held_ = false;
    return true;
  }

  // Before a write, whose callback is the next holder: orders what this one did before
  // what that one does. gRPC does so too, where ThreadSanitizer does not see it.
  void PassOn() { std::lock_guard lock(mutex_); }

  // The requested end of the call.
  std::optional<absl::Status> stop() const {
    std::lock_guard lock(mutex_);
    return stop_;
  }

 private:
  bool AcquireLocked() {
    if (held_) {
      again_ = true;
      return false;
    }
    return held_ = true;
  }

  mutable std::mutex mutex_;
  bool held_ = true;                  // guarded by mutex_
  bool again_ = false;                // guarded by mutex_
  std::optional<absl::Status> stop_;  // guarded by mutex_
};

// All members belong to the holder of the handler, except that a request belongs to the
// door while a read is in flight.
class SerializedHandler : public StreamHandler {
 public:
  // Begins a call whose caller sends messages.
  void Start() override;
  void OnRead(bool message) final;
  void OnWritten(bool taken) final;
  void OnGone() final;
  void OnDone() final;

 protected:
  enum class Read { kIdle, kInFlight, kMessage, kEnd };
  // What follows Work.
  enum class Next {
    kWait,
    kApart,      // Work again, on one of services_.handlers, where it may wait
    kWrite,      // the response
    kWriteLast,  // the response, then the call ends with end_
    kEnd,        // the call ends with OK
  };

  SerializedHandler(const CallServices& services, Caller& caller, CallEnd& door)
      : services_(services),
        caller_(caller),
        door_(door),
        holder_(std::make_shared<CallSerializer>()) {}

  // Takes what has come. An error ends the call.
  virtual absl::StatusOr<Next> Work(bool may_wait) = 0;
  // The server ends a call of a stream: fills the response with what waits. False:
  // nothing does. May replace `status`, with which the call ends.
  virtual bool TakeRest(absl::Status&) { return false; }
  // The call waits: tells open_call_ what for.
  virtual void NoteWait() {}
  // Gives up what the call holds in the engine, before its end.
  virtual void Leave();
  virtual void Write() {}
  virtual void WriteLast(const absl::Status&) {}

  // Errors of the caller's messages.
  static absl::Status NotOpened();
  static absl::Status OpenedTwice();

  // Counts the call as open. REQUIRES, as all below: its caller holds the handler.
  void Open();
  // Continues the call. Returns with the handler released, or held by a write in flight
  // or by a thread that continues, or held for ever by the end of the call.
  void Advance(bool may_wait);
  // Has Advance called where it may wait. Throws std::bad_alloc: then it is not.
  void AdvanceApart();
  // Ends the call. The handler stays held.
  void End(const absl::Status& status);
  // What stream_ has, up to `most` tokens.
  TokenChunk Take(int64_t most = TokenStream::kCapacity);
  // Counts the output of a generation in the record of the call.
  void RecordOutput(const TokenChunk& chunk);
  // For the engine, which calls it when there is something to take, perhaps when the
  // handler is destroyed.
  auto Notification() {
    return [this, holder = holder_] {
      if (holder->Acquire()) Advance(/*may_wait=*/false);
    };
  }

  const CallServices services_;
  Caller& caller_;
  CallEnd& door_;
  // Shared with the notifications of the engine and of the shutdown, which may come
  // when the handler is destroyed.
  const std::shared_ptr<CallSerializer> holder_;
  std::shared_ptr<OpenCall> open_call_;   // constant once the call has begun
  std::atomic<Read> read_ = Read::kIdle;  // of the caller's next message
  RequestScope scope_;                    // of errors
  std::shared_ptr<TokenStream> stream_;   // of the engine's call; null: none runs
  absl::Status end_;                      // of the call, after the response
  // A caller that has gone counts as such, whatever the status: gRPC may report the end
  // of the caller's messages before the cancellation.
  bool gone_first_ = false;

 private:
  void EndByServer(absl::Status status);
  void EndAfterWrite(const absl::Status& status);
};

// A handler that answers with messages.
template <class Response>
class WritingHandler : public SerializedHandler {
 protected:
  WritingHandler(const CallServices& services, Caller& caller,
                 ResponseWriter<Response>& writer)
      : SerializedHandler(services, caller, writer), writer_(writer) {}

  void Write() final { writer_.Write(response_); }
  void WriteLast(const absl::Status& status) final {
    writer_.WriteLast(response_, status, scope_);
  }

  ResponseWriter<Response>& writer_;
  Response response_;
};

}  // namespace mnemon
