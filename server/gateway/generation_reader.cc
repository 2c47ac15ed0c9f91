// SPDX-License-Identifier: MIT
#include "server/gateway/generation_reader.h"

#include <atomic>
#include <new>
#include <utility>

#include "server/service/stream_handlers.h"

namespace mnemon {
namespace {

// The handler holds no reference: the reader lives, by self_, until the call is over.
class Reader final : public GenerationReader,
                     public GatewayCaller<Caller>,
                     public ResponseWriter<v1::GenerateResponse>,
                     public std::enable_shared_from_this<Reader> {
 public:
  Reader(const Service& service, v1::GenerateRequest request,
         const std::string& request_id, Events events)
      : GatewayCaller(service, "mnemon.v1.Generation/Generate", request_id),
        request_(std::move(request)),
        events_(std::move(events)) {
    progress().AddReceivedBytes(static_cast<int64_t>(request_.ByteSizeLong()));
  }

  // May throw std::bad_alloc: then there is no call.
  void Start(const CallServices& parts) {
    self_ = shared_from_this();
    try {
      handler_ = MakeGenerateHandler(parts, *this, request_, *this);
      handler_->Start();
    } catch (const std::bad_alloc&) {
      self_ = nullptr;
      EndRecord();
      throw;
    }
  }

  void Next() override { Release(/*taken=*/true); }

  void Cancel() override {
    if (lost_) {
      const Events released = std::move(events_);
      return;
    }
    if (gone() || over_) return;
    SetGone();
    handler_->OnGone();
    Release(/*taken=*/false);
  }

  std::function<void(const absl::Status&)> CancelFunction() override {
    return [weak = weak_from_this()](const absl::Status&) {
      const std::shared_ptr<Reader> reader = weak.lock();
      if (reader == nullptr) return;
      try {
        reader->events_.post([reader] {
          reader->broken_off_ = true;
          reader->Release(/*taken=*/false);
        });
      } catch (const std::bad_alloc&) {
        // The HTTP server closes a connection that is not read.
      }
    };
  }

  void Write(const v1::GenerateResponse& message) override {
    if (!Deliver(message, /*last=*/false)) handler_->OnWritten(false);
  }

  void WriteLast(const v1::GenerateResponse& message, const absl::Status& status,
                 const RequestScope& scope) override {
    SetEnd(status, scope);
    if (!Deliver(message, /*last=*/true)) End();
  }

  void Finish(const absl::Status& status, const RequestScope& scope) override {
    SetEnd(status, scope);
    End();
  }

 private:
  void SetEnd(const absl::Status& status, const RequestScope& scope) {
    end_ = PublicStatus(status, scope, &progress());
    progress().End(end_.code());
  }

  // False: memory has run out.
  bool Deliver(const v1::GenerateResponse& message, bool last) {
    progress().AddSentBytes(static_cast<int64_t>(message.ByteSizeLong()));
    try {
      events_.post([self = shared_from_this(), &message, last] {
        self->held_ = true;
        self->last_ = last;
        if (self->gone() || self->broken_off_) return self->Release(/*taken=*/false);
        self->events_.on_message(message);
      });
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  // The message that is held, if any, is not needed any more.
  void Release(bool taken) {
    if (!std::exchange(held_, false)) return;
    last_ ? End() : handler_->OnWritten(taken);
  }

  void End() {
    const std::shared_ptr<Reader> self = std::move(self_);
    try {
      events_.post([self] {
        self->over_ = true;
        self->EndRecord();
        self->handler_->OnDone();
        const Events events = std::move(self->events_);
        events.on_end(self->end_);
      });
    } catch (const std::bad_alloc&) {
      lost_ = true;
      EndRecord();
      handler_->OnDone();
      events_.on_lost();
    }
  }

  const v1::GenerateRequest request_;
  Events events_;
  std::unique_ptr<StreamHandler> handler_;
  std::shared_ptr<Reader> self_;  // until the call is over
  absl::Status end_;              // constant once it is posted
  std::atomic<bool> lost_ = false;
  // Of the strand.
  bool held_ = false;        // a message, until it is released
  bool last_ = false;        // the end follows that message
  bool broken_off_ = false;  // messages are dropped
  bool over_ = false;
};

}  // namespace

std::shared_ptr<GenerationReader> GenerationReader::Start(const Service& service,
                                                          v1::GenerateRequest request,
                                                          const std::string& request_id,
                                                          Events events) {
  const auto reader = std::make_shared<Reader>(service, std::move(request), request_id,
                                               std::move(events));
  reader->Start(service.parts());
  return reader;
}

}  // namespace mnemon
