// SPDX-License-Identifier: MIT
// What the handlers of streaming calls have in common: an open call, and one holder at
// a time of all their members.
#pragma once

#include <memory>

#include "server/service/call_serializer.h"
#include "server/service/call_services.h"
#include "server/service/caller.h"
#include "server/service/open_call.h"
#include "server/service/stream_handlers.h"

namespace mnemon {

class SerializedHandler : public StreamHandler {
 public:
  void OnRead(bool) override {}
  void OnWritten(bool taken) final;
  void OnGone() final;
  void OnDone() override { services_.calls.Remove(open_call_); }

 protected:
  SerializedHandler(const CallServices& services, Caller& caller)
      : services_(services),
        caller_(caller),
        holder_(std::make_shared<CallSerializer>()) {}

  // Counts the call as open. Its caller holds the handler.
  void Open();
  // Goes on with the call; it `may_wait` on one of services_.handlers. REQUIRES: its
  // caller holds the handler. Returns with it released, or held by a write in flight or
  // by a thread that goes on, or held for ever by the end of the call.
  virtual void Advance(bool may_wait) = 0;
  // Ends the call. REQUIRES: its caller holds the handler, which stays held.
  virtual void End(const absl::Status& status) = 0;
  // Has Advance go on where it may wait. Throws std::bad_alloc: then it does not.
  void AdvanceApart();
  // For the engine, which calls it when there is something to take, perhaps when the
  // handler is destroyed.
  auto Notification() {
    return [this, holder = holder_] {
      if (holder->Acquire()) Advance(/*may_wait=*/false);
    };
  }

  const CallServices services_;
  Caller& caller_;
  // Shared with the notifications of the engine and of the shutdown, which may come
  // when the handler is destroyed.
  const std::shared_ptr<CallSerializer> holder_;
  std::shared_ptr<OpenCall> open_call_;  // constant once the call has begun
};

}  // namespace mnemon
