// SPDX-License-Identifier: MIT
// The answer of a unary call that comes later, from the engine or from the end of the
// server: the first one finishes the call.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "server/service/caller.h"
#include "server/service/open_calls.h"

namespace mnemon {

// Safe for concurrent use. Shared by all that may answer.
class LateAnswer {
 public:
  // The call is open until it is answered, and ends early with StopAll. `calls`
  // outlives the call. Throws std::bad_alloc: then nobody answers.
  static std::shared_ptr<LateAnswer> Open(UnaryCaller& caller,
                                          const RequestScope& scope, OpenCalls& calls);

  // Calls `body`, which must not throw, unless the call was answered: who is refused
  // changes nothing. The messages of the call stay until it has returned.
  template <class Body>
  void Begin(const Body& body) {
    if (!Enter()) return;
    body();
    Leave();
  }

  // Finishes the call with the status that `write` returns, which may fill in the
  // response and must not throw. Not called when the call was finished: then the
  // response may be gone.
  template <class Write>
  void Finish(const Write& write) {
    if (answered_.exchange(true)) return;
    FinishWith(write());
  }

 private:
  LateAnswer(UnaryCaller& caller, RequestScope scope, OpenCalls& calls)
      : caller_(caller), scope_(std::move(scope)), calls_(calls) {}

  bool Enter();
  void Leave();
  void FinishWith(const absl::Status& status);

  UnaryCaller& caller_;
  const RequestScope scope_;
  OpenCalls& calls_;
  std::atomic<bool> answered_ = false;

  std::mutex mutex_;
  std::shared_ptr<OpenCall> open_;  // guarded by mutex_, as all below
  bool closed_ = false;
  bool beginning_ = false;
  std::optional<absl::Status> end_;  // that came meanwhile
};

}  // namespace mnemon
