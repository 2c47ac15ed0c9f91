// SPDX-License-Identifier: MIT
// Export and import of sessions: one chunk in flight at a time.
#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/service/messages/messages.h"
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

class ExportHandler final : public WritingHandler<v1::ExportSessionResponse> {
 public:
  ExportHandler(const CallServices& services, Caller& caller,
                const v1::ExportSessionRequest& request,
                ResponseWriter<v1::ExportSessionResponse>& writer)
      : WritingHandler(services, caller, writer),
        arrival_(std::make_shared<Arrival<ExportedSession>>()) {
    scope_ = ScopeOf(request);
  }

  void Start() override {
    Open();
    const absl::Status waits = Guarded([&] { AdvanceApart(); });
    if (!waits.ok()) End(waits);
  }

 private:
  absl::StatusOr<Next> Work(bool) override {
    if (!std::exchange(begun_, true)) MNEMON_RETURN_IF_ERROR(Export());
    if (auto exported = arrival_->Take()) {
      MNEMON_RETURN_IF_ERROR(exported->status());
      exported_ = **std::move(exported);
      ToMessage(exported_.facts, *response_.mutable_session());
      response_.set_size_bytes(static_cast<int64_t>(snapshot().size()));
      caller_.progress().SetModel(exported_.facts.model);
    } else if (sent_ == 0) {
      return Next::kWait;
    } else {
      response_.Clear();
    }
    if (sent_ > 0 && sent_ == snapshot().size()) return Next::kEnd;
    const size_t count = std::min(kExportChunk, snapshot().size() - sent_);
    response_.set_chunk(snapshot().data() + sent_, count);
    sent_ += count;
    return Next::kWrite;
  }

  absl::Status Export() {
    MNEMON_RETURN_IF_ERROR(services_.admission.Admit(caller_));
    MNEMON_ASSIGN_OR_RETURN(const std::string id,
                            ParseSessionResource(scope_.session, "name"));
    services_.RecordNames(caller_, id, "");
    return services_.engine.ExportSession(
        id, [notify = Notification(), arrival = arrival_](auto exported) {
          arrival->Set(std::move(exported));
          notify();
        });
  }

  const std::string& snapshot() const { return exported_.snapshot; }

  const std::shared_ptr<Arrival<ExportedSession>> arrival_;
  ExportedSession exported_;
  bool begun_ = false;
  size_t sent_ = 0;
};

class ImportHandler final : public SerializedHandler {
 public:
  ImportHandler(const CallServices& services, Caller& caller,
                RequestReader<v1::ImportSessionRequest>& reader, v1::Session& response,
                CallEnd& end)
      : SerializedHandler(services, caller, end),
        reader_(reader),
        response_(response),
        arrival_(std::make_shared<Arrival<SessionFacts>>()),
        charge_(services.engine.QueueCharge()) {
    gone_first_ = true;
  }

 private:
  absl::StatusOr<Next> Work(bool may_wait) override {
    if (auto imported = arrival_->Take()) {
      MNEMON_RETURN_IF_ERROR(imported->status());
      gone_first_ = false;
      caller_.progress().AddDelivered();
      caller_.progress().SetSession((*imported)->id);
      ToMessage(**imported, response_);
      return Next::kEnd;
    }
    switch (read_.load()) {
      case Read::kInFlight:
        return Next::kWait;
      case Read::kMessage:
        MNEMON_RETURN_IF_ERROR(TakeMessage());
        [[fallthrough]];
      case Read::kIdle:
        read_ = Read::kInFlight;
        // Its peer has as long for each message as for the first.
        open_call_->AwaitMessage();
        reader_.Read(request_);
        return Next::kWait;
      case Read::kEnd:
        break;
    }
    if (sent_) return Next::kWait;
    if (!may_wait) return Next::kApart;
    sent_ = true;
    MNEMON_RETURN_IF_ERROR(Import());
    return Next::kWait;
  }

  absl::Status TakeMessage() {
    if (request_.has_open()) {
      if (open_request_) return OpenedTwice();
      MNEMON_ASSIGN_OR_RETURN(open_request_, FromMessage(request_.open()));
      scope_ = ScopeOf(request_.open());
      size_ = request_.open().size_bytes();
      if (size_ < 0) return InvalidField("open.size_bytes", "size_bytes is negative");
      services_.RecordNames(caller_, "", open_request_->model);
      caller_.progress().SetSession(open_request_->id);
      return absl::OkStatus();
    }
    if (!open_request_) return NotOpened();
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
    if (!open_request_) return NotOpened();
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

  RequestReader<v1::ImportSessionRequest>& reader_;
  v1::Session& response_;
  const std::shared_ptr<Arrival<SessionFacts>> arrival_;
  std::optional<ImportSessionRequest> open_request_;  // with what has come so far
  int64_t size_ = 0;
  ByteCharge charge_;
  bool sent_ = false;  // to the engine
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
