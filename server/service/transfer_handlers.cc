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
#include "server/service/guard.h"
#include "server/service/messages/messages.h"
#include "server/service/messages/resource_name.h"
#include "server/service/serialized_handler.h"

namespace mnemon {
namespace {

constexpr size_t kExportChunk = size_t{256} << 10;
constexpr size_t kMostImportChunk = size_t{1} << 20;

// The answer of the engine, which may come when the handler is gone.
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

// All members belong to the holder of the handler.
class ExportHandler final : public SerializedHandler {
 public:
  ExportHandler(const CallServices& services, Caller& caller,
                const v1::ExportSessionRequest& request,
                ResponseWriter<v1::ExportSessionResponse>& writer)
      : SerializedHandler(services, caller),
        writer_(writer),
        scope_{.session = request.name(), .model = {}, .paths = {}},
        arrival_(std::make_shared<Arrival<ExportedSession>>()) {}

  void Start() override {
    Open();
    const absl::Status waits = Guarded([&] {
      services_.handlers.Run(
          [this](const absl::Status& turn) { turn.ok() ? Begin() : End(turn); });
      return absl::OkStatus();
    });
    if (!waits.ok()) End(waits);
  }

 private:
  // REQUIRES: the caller holds the handler.
  void Begin() {
    if (const auto stop = holder_->stop()) return End(*stop);
    const absl::Status begun = Guarded([&] { return Export(); });
    begun.ok() ? Advance(/*may_wait=*/false) : End(begun);
  }

  absl::Status Export() {
    MNEMON_RETURN_IF_ERROR(services_.admission.Admit(caller_));
    MNEMON_ASSIGN_OR_RETURN(const std::string id,
                            ParseSessionResource(scope_.session, "name"));
    RecordNames(caller_.progress(), services_.engine, id, "");
    return services_.engine.ExportSession(
        id, [notify = Notification(), arrival = arrival_](auto exported) {
          arrival->Set(std::move(exported));
          notify();
        });
  }

  void Advance(bool) override {
    do {
      if (const auto stop = holder_->stop()) return End(*stop);
      bool writing = false;
      const absl::Status status = Guarded([&] { return Fill(writing); });
      if (!status.ok() || over_) return End(status);
      if (writing) {
        holder_->PassOn();
        open_call_->AwaitTransport();
        return writer_.Write(response_);
      }
    } while (!holder_->Release());
  }

  const std::string& snapshot() const { return exported_.snapshot; }

  absl::Status Fill(bool& writing) {
    if (auto exported = arrival_->Take()) {
      MNEMON_RETURN_IF_ERROR(exported->status());
      exported_ = **std::move(exported);
      ToMessage(exported_.facts, *response_.mutable_session());
      response_.set_size_bytes(static_cast<int64_t>(snapshot().size()));
      caller_.progress().SetModel(exported_.facts.model);
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

  void End(const absl::Status& status) override {
    open_call_->AwaitTransport();
    writer_.Finish(status, scope_);
  }

  ResponseWriter<v1::ExportSessionResponse>& writer_;
  const RequestScope scope_;
  const std::shared_ptr<Arrival<ExportedSession>> arrival_;
  ExportedSession exported_;
  size_t sent_ = 0;
  bool over_ = false;
  v1::ExportSessionResponse response_;
};

// All members but read_ belong to the holder of the handler; the request belongs to the
// door while a read is in flight.
class ImportHandler final : public SerializedHandler {
 public:
  ImportHandler(const CallServices& services, Caller& caller,
                RequestReader<v1::ImportSessionRequest>& reader, v1::Session& response,
                CallEnd& end)
      : SerializedHandler(services, caller),
        reader_(reader),
        response_(response),
        end_(end),
        arrival_(std::make_shared<Arrival<SessionFacts>>()),
        charge_(services.engine.QueueCharge()) {}

  void Start() override {
    Open();
    const absl::Status admitted =
        Guarded([&] { return services_.admission.Admit(caller_); });
    admitted.ok() ? Advance(/*may_wait=*/false) : End(admitted);
  }

  void OnRead(bool message) override {
    open_call_->TakeMessage();
    read_ = message ? Read::kMessage : Read::kEnd;
    if (holder_->Acquire()) Advance(/*may_wait=*/false);
  }

  void OnDone() override {
    if (!imported_ && caller_.gone()) {
      caller_.progress().ReplaceEnd(EndOfCaller(caller_).code(), "");
    }
    SerializedHandler::OnDone();
  }

 private:
  enum class Read { kIdle, kInFlight, kMessage, kEnd };

  enum class Next {
    kWait,
    kHandler,  // the import is for one of handlers_
    kEnd,      // with OK
  };

  void Advance(bool may_wait) override {
    do {
      if (const auto stop = holder_->stop()) return End(*stop);
      Next next = Next::kWait;
      const absl::Status status = Guarded([&]() -> absl::Status {
        MNEMON_RETURN_IF_ERROR(Work(next, may_wait));
        if (next != Next::kHandler) return absl::OkStatus();
        AdvanceApart();
        return absl::OkStatus();
      });
      if (!status.ok() || next == Next::kEnd) return End(status);
      if (next == Next::kHandler) return;
    } while (!holder_->Release());
  }

  absl::Status Work(Next& next, bool may_wait) {
    if (auto imported = arrival_->Take()) {
      MNEMON_RETURN_IF_ERROR(imported->status());
      imported_ = true;
      next = Next::kEnd;
      caller_.progress().AddDelivered();
      caller_.progress().SetSession((*imported)->id);
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
        open_call_->AwaitMessage();
        reader_.Read(request_);
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
      RecordNames(caller_.progress(), services_.engine, "", open_request_->model);
      caller_.progress().SetSession(open_request_->id);
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
    if (!charge_.TrySet(2 * bytes)) return services_.engine.MemoryLimitReached(bytes);
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
    return services_.engine.ImportSession(
        *std::move(open_request_),
        [notify = Notification(), arrival = arrival_](auto made) {
          arrival->Set(std::move(made));
          notify();
        });
  }

  void End(const absl::Status& status) override {
    open_call_->AwaitTransport();
    end_.Finish(status, scope_);
  }

  RequestReader<v1::ImportSessionRequest>& reader_;
  v1::Session& response_;
  CallEnd& end_;
  const std::shared_ptr<Arrival<SessionFacts>> arrival_;
  std::atomic<Read> read_ = Read::kIdle;
  RequestScope scope_;
  std::optional<ImportSessionRequest> open_request_;  // with what has come so far
  int64_t size_ = 0;
  ByteCharge charge_;
  bool sent_ = false;  // to the engine
  bool imported_ = false;
  v1::ImportSessionRequest request_;
};

}  // namespace

std::unique_ptr<StreamHandler> MakeExportHandler(
    const CallServices& services, Caller& caller,
    const v1::ExportSessionRequest& request,
    ResponseWriter<v1::ExportSessionResponse>& writer) {
  return std::make_unique<ExportHandler>(services, caller, request, writer);
}

std::unique_ptr<StreamHandler> MakeImportHandler(
    const CallServices& services, Caller& caller,
    RequestReader<v1::ImportSessionRequest>& reader, v1::Session& response,
    CallEnd& end) {
  return std::make_unique<ImportHandler>(services, caller, reader, response, end);
}

}  // namespace mnemon
