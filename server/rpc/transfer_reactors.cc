// SPDX-License-Identifier: MIT
// Export and import of sessions: one chunk in flight at a time.
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/rpc/call_context.h"
#include "server/rpc/call_serializer.h"
#include "server/rpc/guard.h"
#include "server/rpc/messages.h"
#include "server/rpc/reactors.h"
#include "server/rpc/resource_name.h"

namespace mnemon {
namespace {

constexpr size_t kExportChunk = size_t{256} << 10;
constexpr size_t kMostImportChunk = size_t{1} << 20;

// The answer of the engine, which may come when the reactor is gone.
template <class T>
class Arrival {
 public:
  void Set(absl::StatusOr<T> outcome) {
    std::lock_guard lock(mutex_);
    outcome_ = std::move(outcome);
  }
  // Once.
  std::optional<absl::StatusOr<T>> Take() {
    std::lock_guard lock(mutex_);
    return std::exchange(outcome_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<absl::StatusOr<T>> outcome_;  // guarded by mutex_
};

// All members belong to the holder of turn_.
class ExportReactor final : public grpc::ServerWriteReactor<v1::ExportSessionResponse> {
 public:
  ExportReactor(const CallServices& shared, grpc::CallbackServerContext* context,
                const v1::ExportSessionRequest& request)
      : calls_(shared.calls),
        context_(context),
        scope_{.session = request.name(), .model = {}, .paths = {}},
        turn_(std::make_shared<CallSerializer>()),
        arrival_(std::make_shared<Arrival<ExportedSession>>()) {
    open_ = calls_.Add(
        [this, turn = turn_](const absl::Status& status) {
          if (turn->AcquireToStop(status)) Advance();
        },
        CancelFunctionOf(*context), CallOf(context)->connection());
    const absl::Status waits = Guarded([&] {
      shared.handlers.Run([this, &shared, &request](const absl::Status& turn) {
        turn.ok() ? Begin(shared, request.name()) : End(turn);
      });
      return absl::OkStatus();
    });
    if (!waits.ok()) End(waits);
  }

  void OnWriteDone(bool ok) override {
    open_->ResumeFromTransport();
    if (!ok) turn_->AcquireToStop(EndOfCaller(*context_));
    Advance();
  }

  void OnCancel() override {
    if (turn_->AcquireToStop(EndOfCaller(*context_))) Advance();
  }

  void OnDone() override {
    calls_.Remove(open_);
    delete this;
  }

 private:
  // REQUIRES: the caller holds turn_.
  void Begin(const CallServices& shared, const std::string& name) {
    if (const auto stop = turn_->stop()) return End(*stop);
    const absl::Status begun = Guarded([&] { return Start(shared, name); });
    begun.ok() ? Advance() : End(begun);
  }

  absl::Status Start(const CallServices& shared, const std::string& name) {
    MNEMON_RETURN_IF_ERROR(shared.admission.Admit(*context_));
    MNEMON_ASSIGN_OR_RETURN(const std::string id, ParseSessionResource(name, "name"));
    RecordNames(*CallOf(context_), shared.engine, id, "");
    return shared.engine.ExportSession(
        id, [this, turn = turn_, arrival = arrival_](auto exported) {
          arrival->Set(std::move(exported));
          if (turn->Acquire()) Advance();
        });
  }

  // REQUIRES: the caller holds turn_.
  void Advance() {
    do {
      if (const auto stop = turn_->stop()) return End(*stop);
      bool writing = false;
      const absl::Status status = Guarded([&] { return Fill(writing); });
      if (!status.ok() || over_) return End(status);
      if (writing) {
        turn_->PassOn();
        open_->AwaitTransport();
        return StartWrite(&response_);
      }
    } while (!turn_->Release());
  }

  const std::string& snapshot() const { return exported_.snapshot; }

  absl::Status Fill(bool& writing) {
    if (auto exported = arrival_->Take()) {
      MNEMON_RETURN_IF_ERROR(exported->status());
      exported_ = **std::move(exported);
      ToMessage(exported_.facts, *response_.mutable_session());
      response_.set_size_bytes(static_cast<int64_t>(snapshot().size()));
      CallOf(context_)->SetModel(exported_.facts.model);
    } else if (sent_ == 0) {
      return absl::OkStatus();
    } else {
      response_.Clear();
    }
    over_ = sent_ > 0 && sent_ == snapshot().size();
    if (over_) return absl::OkStatus();
    const size_t count = std::min(kExportChunk, snapshot().size() - sent_);
    response_.set_chunk(snapshot().data() + sent_, count);
    sent_ += count;
    writing = true;
    return absl::OkStatus();
  }

  void End(const absl::Status& status) {
    open_->AwaitTransport();
    Finish(ToGrpcStatus(status, scope_, context_));
  }

  OpenCalls& calls_;
  grpc::CallbackServerContext* const context_;
  const RequestScope scope_;
  const std::shared_ptr<CallSerializer> turn_;
  const std::shared_ptr<Arrival<ExportedSession>> arrival_;
  std::shared_ptr<OpenCall> open_;
  ExportedSession exported_;
  size_t sent_ = 0;
  bool over_ = false;
  v1::ExportSessionResponse response_;
};

// All members but read_ belong to the holder of turn_; the request belongs to gRPC
// while a read is in flight.
class ImportReactor final : public grpc::ServerReadReactor<v1::ImportSessionRequest> {
 public:
  ImportReactor(const CallServices& shared, grpc::CallbackServerContext* context,
                v1::Session& response)
      : engine_(shared.engine),
        calls_(shared.calls),
        handlers_(shared.handlers),
        context_(context),
        response_(response),
        turn_(std::make_shared<CallSerializer>()),
        arrival_(std::make_shared<Arrival<SessionFacts>>()),
        charge_(shared.engine.QueueCharge()) {
    open_ = calls_.Add(
        [this, turn = turn_](const absl::Status& status) {
          if (turn->AcquireToStop(status)) Advance();
        },
        CancelFunctionOf(*context), CallOf(context)->connection());
    const absl::Status admitted =
        Guarded([&] { return shared.admission.Admit(*context); });
    admitted.ok() ? Advance() : End(admitted);
  }

  void OnReadDone(bool ok) override {
    open_->TakeMessage();
    read_ = ok ? Read::kMessage : Read::kEnd;
    if (turn_->Acquire()) Advance();
  }

  void OnCancel() override {
    if (turn_->AcquireToStop(EndOfCaller(*context_))) Advance();
  }

  void OnDone() override {
    if (!imported_ && context_->IsCancelled()) {
      CallOf(context_)->ReplaceEnd(EndOfCaller(*context_).code(), "");
    }
    calls_.Remove(open_);
    delete this;
  }

 private:
  enum class Read { kIdle, kInFlight, kMessage, kEnd };

  enum class Next {
    kWait,
    kHandler,  // the import is for one of handlers_
    kEnd,      // with OK
  };

  // REQUIRES: the caller holds turn_; it `may_wait` on one of handlers_. Returns with
  // turn_ released, or held by a handler, or held for ever by the end of the call.
  void Advance(bool may_wait = false) {
    do {
      if (const auto stop = turn_->stop()) return End(*stop);
      Next next = Next::kWait;
      const absl::Status status = Guarded([&]() -> absl::Status {
        MNEMON_RETURN_IF_ERROR(Work(next, may_wait));
        if (next != Next::kHandler) return absl::OkStatus();
        handlers_.Run([this](const absl::Status& turn) {
          turn.ok() ? Advance(/*may_wait=*/true) : End(turn);
        });
        return absl::OkStatus();
      });
      if (!status.ok() || next == Next::kEnd) return End(status);
      if (next == Next::kHandler) return;
    } while (!turn_->Release());
  }

  absl::Status Work(Next& next, bool may_wait) {
    if (auto imported = arrival_->Take()) {
      MNEMON_RETURN_IF_ERROR(imported->status());
      imported_ = true;
      next = Next::kEnd;
      CallOf(context_)->AddDelivered();
      CallOf(context_)->SetSession((*imported)->id);
      ToMessage(**imported, response_);
      return absl::OkStatus();
    }
    switch (read_.load()) {
      case Read::kInFlight:
        return absl::OkStatus();
      case Read::kMessage:
        MNEMON_RETURN_IF_ERROR(TakeMessage());
        [[fallthrough]];
      case Read::kIdle:
        read_ = Read::kInFlight;
        // Its peer has as long for each message as for the first.
        open_->AwaitMessage();
        StartRead(&request_);
        return absl::OkStatus();
      case Read::kEnd:
        break;
    }
    if (sent_) return absl::OkStatus();
    if (!may_wait) {
      next = Next::kHandler;
      return absl::OkStatus();
    }
    sent_ = true;
    return Import();
  }

  absl::Status TakeMessage() {
    if (request_.has_open()) {
      if (open_request_)
        return InvalidField("open", "only the first message holds open");
      MNEMON_ASSIGN_OR_RETURN(open_request_, FromMessage(request_.open()));
      scope_ = ScopeOf(request_.open());
      size_ = request_.open().size_bytes();
      if (size_ < 0) return InvalidField("open.size_bytes", "size_bytes is negative");
      RecordNames(*CallOf(context_), engine_, "", open_request_->model);
      CallOf(context_)->SetSession(open_request_->id);
      return absl::OkStatus();
    }
    if (!open_request_) return InvalidField("open", "the first message must hold open");
    const std::string& chunk = request_.chunk();
    std::string& snapshot = open_request_->snapshot;
    if (chunk.empty()) return InvalidField("chunk", "the message holds nothing");
    if (chunk.size() > kMostImportChunk) {
      return InvalidField("chunk", StrCat("a chunk of ", chunk.size(),
                                          " bytes, at most ", kMostImportChunk));
    }
    if (static_cast<int64_t>(snapshot.size() + chunk.size()) > size_) {
      return InvalidField("chunk",
                          StrCat("more than the ", size_, " bytes of open.size_bytes"));
    }
    const auto bytes = static_cast<int64_t>(snapshot.capacity() + chunk.size());
    if (!charge_.TrySet(2 * bytes)) return engine_.MemoryLimitReached(bytes);
    snapshot += chunk;
    return absl::OkStatus();
  }

  absl::Status Import() {
    if (!open_request_) return InvalidField("open", "the first message must hold open");
    if (static_cast<int64_t>(open_request_->snapshot.size()) != size_) {
      return InvalidField(
          "chunk", StrCat(open_request_->snapshot.size(), " bytes have come of the ",
                          size_, " of open.size_bytes"));
    }
    charge_.Set(0);  // the engine counts them from here on
    return engine_.ImportSession(*std::move(open_request_),
                                 [this, turn = turn_, arrival = arrival_](auto made) {
                                   arrival->Set(std::move(made));
                                   if (turn->Acquire()) Advance();
                                 });
  }

  void End(const absl::Status& status) {
    open_->AwaitTransport();
    Finish(ToGrpcStatus(status, scope_, context_));
  }

  Engine& engine_;
  OpenCalls& calls_;
  HandlerThreads& handlers_;
  grpc::CallbackServerContext* const context_;
  v1::Session& response_;
  const std::shared_ptr<CallSerializer> turn_;
  const std::shared_ptr<Arrival<SessionFacts>> arrival_;
  std::atomic<Read> read_ = Read::kIdle;
  std::shared_ptr<OpenCall> open_;
  RequestScope scope_;
  std::optional<ImportSessionRequest> open_request_;  // with what has come so far
  int64_t size_ = 0;
  ByteCharge charge_;
  bool sent_ = false;  // to the engine
  bool imported_ = false;
  v1::ImportSessionRequest request_;
};

}  // namespace

grpc::ServerWriteReactor<v1::ExportSessionResponse>* StartExport(
    const CallServices& shared, grpc::CallbackServerContext* context,
    const v1::ExportSessionRequest* request) {
  return MakeReactor<ExportReactor>(context, shared, context, *request);
}

grpc::ServerReadReactor<v1::ImportSessionRequest>* StartImport(
    const CallServices& shared, grpc::CallbackServerContext* context,
    v1::Session* response) {
  return MakeReactor<ImportReactor>(context, shared, context, *response);
}

}  // namespace mnemon
