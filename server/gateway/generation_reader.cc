// SPDX-License-Identifier: MIT
#include "server/gateway/generation_reader.h"

#include <atomic>
#include <exception>
#include <utility>

#include "client/status.h"

namespace mnemon {
namespace {

// gRPC holds no reference: it lives, by self_, until OnDone has been handled.
class Reader final : public GenerationReader,
                     public grpc::ClientReadReactor<v1::GenerateResponse>,
                     public std::enable_shared_from_this<Reader> {
 public:
  Reader(v1::GenerateRequest request, const std::string& request_id, Events events)
      : request_(std::move(request)), events_(std::move(events)) {
    context_.AddMetadata("x-request-id", request_id);
  }

  void Start(v1::Generation::Stub& stub) {
    self_ = shared_from_this();
    stub.async()->Generate(&context_, &request_, this);
    // Without it the call could be done, and this reactor with it, before the message
    // that waits is handled.
    AddHold();
    StartRead(&response_);
    StartCall();
  }

  void Next() override {
    if (cancelled_ || reading_) return;
    reading_ = true;
    StartRead(&response_);
  }

  void Cancel() override {
    if (std::exchange(cancelled_, true)) return;
    context_.TryCancel();
    if (!reading_) LetGo();
  }

  void OnReadDone(bool ok) override {
    try {
      events_.post([self = shared_from_this(), ok] {
        self->reading_ = false;
        if (!ok || self->cancelled_) return self->LetGo();
        self->events_.on_message(self->response_);
      });
    } catch (const std::exception&) {
      // Memory ran out: the call ends, and tells so if it can.
      context_.TryCancel();
      LetGo();
    }
  }

  void OnDone(const grpc::Status& status) override {
    events_.post([self = std::move(self_), status] {
      const Events events = std::move(self->events_);
      events.on_end(client::FromGrpcStatus(status));
    });
  }

 private:
  void LetGo() {
    if (held_.exchange(false)) RemoveHold();
  }

  grpc::ClientContext context_;
  const v1::GenerateRequest request_;
  v1::GenerateResponse response_;
  Events events_;
  bool reading_ = true;
  bool cancelled_ = false;
  std::atomic<bool> held_ = true;
  std::shared_ptr<Reader> self_;
};

}  // namespace

std::shared_ptr<GenerationReader> GenerationReader::Start(v1::Generation::Stub& stub,
                                                          v1::GenerateRequest request,
                                                          const std::string& request_id,
                                                          Events events) {
  const auto reader =
      std::make_shared<Reader>(std::move(request), request_id, std::move(events));
  reader->Start(stub);
  return reader;
}

}  // namespace mnemon
