// SPDX-License-Identifier: MIT
#include "server/gateway/api_call.h"

#include <chrono>
#include <cstddef>
#include <ctime>
#include <exception>
#include <new>

#include <boost/asio/post.hpp>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/strings.h"
#include "server/gateway/api_json.h"
#include "server/gateway/origin_check.h"

namespace mnemon {
namespace {

struct BodyMemory {
  explicit BodyMemory(int64_t most) : budget(most) {}

  ByteBudget budget;
  ByteAccount account{budget};
};

std::shared_ptr<ByteAccount> MakeBodyAccount(int64_t most) {
  const auto memory = std::make_shared<BodyMemory>(most);
  return {memory, &memory->account};
}

}  // namespace

GatewayShared::GatewayShared(Service& service_in, const GatewayOptions& options_in)
    : service(service_in),
      engine(service_in.parts().engine),
      options(options_in),
      start_time(std::time(nullptr)),
      bodies(MakeBodyAccount(options.max_bodies_bytes)) {
  // Not a member: set_value may outlast the wait for it.
  const auto promise = std::make_shared<std::promise<void>>();
  closed = promise->get_future();
  open_call = {nullptr, [promise](std::nullptr_t) { promise->set_value(); }};
}

GatewayShared::~GatewayShared() {
  open_call = nullptr;
  closed.wait();
}

absl::Status BodyMemoryError() {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "requests and answers of HTTP calls take the memory that they have: "
                   "try again, or ask for less at once",
                   {.reason = "MEMORY_LIMIT", .retry_after = std::chrono::seconds(1)});
}

ApiCall::ApiCall(ApiStart start)
    : open_call_(start.shared.open_call),
      start_(std::move(start)),
      request_id_(ChooseRequestId(request().Header("x-request-id"))),
      strand_(boost::asio::make_strand(shared().threads.executor())) {}

ApiCall::~ApiCall() {
  // Memory has run out where there should have been an answer.
  if (!answered_) exchange().Abort();
}

void ApiCall::Start() {
  const bool admitted = exchange().Admit([weak = weak_from_this()] {
    const std::shared_ptr<ApiCall> call = weak.lock();
    if (call == nullptr) return;
    call->Post([call = call.get()] {
      call->gone_ = true;
      call->OnGone();
    });
  });
  if (admitted) return Post([this] { Run(); });
  // Not queued after the work of other calls.
  Fail(MakeError(absl::StatusCode::kResourceExhausted,
                 "too many HTTP calls are under way",
                 {.reason = "CALL_LIMIT", .retry_after = std::chrono::seconds(1)}));
}

void ApiCall::Post(std::function<void()> action) {
  // What asio holds of the strand while it posts must not outlast the gateway, which
  // may end as soon as the action has run.
  const std::shared_ptr<void> open_call = open_call_;
  boost::asio::post(strand_, [self = shared_from_this(), action = std::move(action)] {
    absl::Status failed;
    try {
      return action();
    } catch (const std::bad_alloc&) {
      failed = OutOfMemoryError();
    } catch (const std::exception& error) {
      failed = absl::InternalError(StrCat("exception: ", error.what()));
    }
    try {
      self->OnGone();
      self->Fail(failed);
    } catch (const std::exception&) {
      self->exchange().Abort();
    }
  });
}

void ApiCall::OnGone() {
  for (const auto& one : unary_) {
    if (const auto call = one.lock()) call->OnGone();
  }
}

std::vector<HttpHeader> ApiCall::Headers() const {
  std::vector<HttpHeader> headers =
      CrossOriginHeaders(request(), shared().options.origins);
  headers.push_back({"X-Request-Id", request_id_});
  return headers;
}

void ApiCall::Reply(const nlohmann::json& body) {
  if (answered_) return;
  HttpResponse response{
      .type = "application/json", .body = JsonText(body) + "\n", .headers = Headers()};
  answered_ = true;
  exchange().Respond(std::move(response));
}

void ApiCall::Fail(const absl::Status& status) {
  if (answered_) return FailStream(status);
  HttpResponse response = ErrorResponse(status, Headers());
  answered_ = true;
  exchange().Respond(std::move(response));
}

}  // namespace mnemon
