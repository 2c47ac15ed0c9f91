// SPDX-License-Identifier: MIT
#include "server/service/answer.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace mnemon {
namespace {

// Calls `body` when the `turn` of a call on a handler has come.
absl::Status RunInTurn(const Caller& caller, const absl::Status& turn,
                       absl::FunctionRef<absl::Status()> body) {
  if (!turn.ok()) return turn;
  return caller.gone() ? EndOfCaller(caller) : Guarded(body);
}

// The answer of a unary call, from the engine or from the end of the server: the first
// one finishes the call. Safe for concurrent use. Shared by all that may answer.
class LateAnswer {
 public:
  // `calls` outlives the call. Throws std::bad_alloc: then nobody answers.
  static std::shared_ptr<LateAnswer> Open(UnaryCaller& caller,
                                          const RequestScope& scope, OpenCalls& calls);

  // Calls `body`, which must not throw, unless the call was answered: who is refused
  // changes nothing. The messages of the call stay until it has returned.
  void Begin(absl::FunctionRef<void()> body);
  // See FinishCall. `write` must not throw.
  void Finish(absl::FunctionRef<absl::Status()> write) {
    if (!answered_.exchange(true)) FinishWith(write());
  }

 private:
  LateAnswer(UnaryCaller& caller, RequestScope scope, OpenCalls& calls)
      : caller_(caller), scope_(std::move(scope)), calls_(calls) {}

  void FinishWith(const absl::Status& status);

  UnaryCaller& caller_;
  const RequestScope scope_;
  OpenCalls& calls_;
  std::atomic<bool> answered_ = false;

  std::mutex mutex_;
  std::shared_ptr<OpenCall> open_;  // guarded by mutex_, as all below
  bool beginning_ = false;
  std::optional<absl::Status> end_;  // that came meanwhile
};

std::shared_ptr<LateAnswer> LateAnswer::Open(UnaryCaller& caller,
                                             const RequestScope& scope,
                                             OpenCalls& calls) {
  const std::shared_ptr<LateAnswer> answer(new LateAnswer(caller, scope, calls));
  std::shared_ptr<OpenCall> open = calls.Add(
      [weak = std::weak_ptr(answer)](const absl::Status& status) {
        if (const auto open = weak.lock()) open->Finish([&] { return status; });
      },
      caller.CancelFunction(), /*connection=*/nullptr);
  {
    std::lock_guard lock(answer->mutex_);
    if (!answer->answered_) {
      answer->open_ = std::move(open);
      return answer;
    }
  }
  // It was stopped meanwhile.
  calls.Remove(open);
  return answer;
}

void LateAnswer::Begin(absl::FunctionRef<void()> body) {
  {
    std::lock_guard lock(mutex_);
    if (answered_) return;
    beginning_ = true;
  }
  body();
  std::optional<absl::Status> end;
  {
    std::lock_guard lock(mutex_);
    beginning_ = false;
    end = std::move(end_);
  }
  if (end) FinishWith(*end);
}

void LateAnswer::FinishWith(const absl::Status& status) {
  std::shared_ptr<OpenCall> open;
  {
    std::lock_guard lock(mutex_);
    if (beginning_) {
      end_ = status;
      return;
    }
    open = std::move(open_);
  }
  // Before the call ends: then the server, and `calls_`, may.
  if (open != nullptr) calls_.Remove(open);
  caller_.Answer(status, scope_);
}

}  // namespace

void AnswerApart(UnaryCaller& caller, const RequestScope& scope,
                 HandlerThreads& handlers, std::function<absl::Status()> body) {
  const absl::Status begun = Guarded([&] {
    handlers.Run([&caller, scope, body = std::move(body)](const absl::Status& turn) {
      caller.Answer(RunInTurn(caller, turn, body), scope);
    });
  });
  if (!begun.ok()) caller.Answer(begun, scope);
}

void AnswerLater(UnaryCaller& caller, const RequestScope& scope,
                 const CallServices& services,
                 std::function<absl::Status(const FinishCall& finish)> begin) {
  std::shared_ptr<LateAnswer> answer;
  const absl::Status status = Guarded([&] {
    answer = LateAnswer::Open(caller, scope, services.calls);
    FinishCall finish = [answer](absl::FunctionRef<absl::Status()> write) {
      answer->Finish([&] { return Guarded(write); });
    };
    services.handlers.Run([&caller, answer, finish = std::move(finish),
                           begin = std::move(begin)](const absl::Status& turn) {
      answer->Begin([&] {
        const absl::Status begun =
            RunInTurn(caller, turn, [&] { return begin(finish); });
        if (!begun.ok()) finish([&] { return begun; });
      });
    });
  });
  if (status.ok()) return;
  if (answer != nullptr) return answer->Finish([&] { return status; });
  // Nobody else knows the call yet.
  caller.Answer(status, scope);
}

}  // namespace mnemon
