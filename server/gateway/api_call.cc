// SPDX-License-Identifier: MIT
#include "server/gateway/api_call.h"

#include <chrono>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include <boost/asio/post.hpp>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/strings.h"
#include "server/gateway/api_error.h"
#include "server/gateway/origin_check.h"

namespace mnemon {

bool GrowingCharge::GrowTo(int64_t bytes) {
  if (bytes <= bytes_) return true;
  const int64_t more = bytes - bytes_;
  int64_t now = *charged_;
  do {
    if (now + more > most_) return false;
  } while (!charged_->compare_exchange_weak(now, now + more));
  bytes_ = bytes;
  return true;
}

CallThreads::CallThreads(int count) {
  try {
    while (threads_.size() < static_cast<size_t>(count)) {
      threads_.emplace_back([this] { io_.run(); });
    }
  } catch (const std::system_error&) {
    Join();
    throw;
  }
}

CallThreads::~CallThreads() { Join(); }

void CallThreads::Join() {
  work_.reset();
  for (std::thread& thread : threads_) thread.join();
}

GatewayShared::GatewayShared(Service& service_in, const GatewayOptions& options_in)
    : service(service_in),
      engine(service_in.parts().engine),
      options(options_in),
      start_time(std::chrono::duration_cast<std::chrono::seconds>(
                     std::chrono::system_clock::now().time_since_epoch())
                     .count()) {}

GatewayShared::~GatewayShared() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return calls_ == 0; });
}

GatewayShared::Ticket::Ticket(GatewayShared& shared) : shared_(shared) {
  std::lock_guard lock(shared_.mutex_);
  ++shared_.calls_;
}

GatewayShared::Ticket::~Ticket() {
  std::lock_guard lock(shared_.mutex_);
  if (--shared_.calls_ == 0) shared_.changed_.notify_all();
}

BodyCharge GatewayShared::Reserve(int64_t bytes) {
  std::shared_ptr<GrowingCharge> charge = BeginCharge();
  return charge->GrowTo(bytes) ? std::move(charge) : nullptr;
}

std::shared_ptr<GrowingCharge> GatewayShared::BeginCharge() {
  return std::make_shared<GrowingCharge>(charged_, options.max_bodies_bytes);
}

absl::Status GatewayShared::MemoryLimit() {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "requests and answers of HTTP calls take the memory that they have: "
                   "try again, or ask for less at once",
                   {.reason = "MEMORY_LIMIT", .retry_after = std::chrono::seconds(1)});
}

ApiCall::ApiCall(GatewayShared& shared, std::shared_ptr<HttpExchange> exchange,
                 BodyCharge body)
    : shared_(shared),
      ticket_(shared),
      exchange_(std::move(exchange)),
      body_(std::move(body)),
      request_id_(ChooseRequestId(exchange_->request().Header("x-request-id"))),
      strand_(boost::asio::make_strand(shared.threads_.executor())) {}

ApiCall::~ApiCall() {
  // Memory ran out where there should have been an answer.
  if (!answered_) exchange_->Abort();
}

void ApiCall::Start() {
  const bool admitted = exchange_->Admit([weak = weak_from_this()] {
    const std::shared_ptr<ApiCall> call = weak.lock();
    if (call == nullptr) return;
    call->Post([call = call.get()] {
      call->gone_ = true;
      call->OnGone();
    });
  });
  if (admitted) return Post([this] { Run(); });
  // Not behind what the strands of other calls do.
  Fail(MakeError(absl::StatusCode::kResourceExhausted,
                 "too many HTTP calls are under way",
                 {.reason = "CALL_LIMIT", .retry_after = std::chrono::seconds(1)}));
}

void ApiCall::Post(std::function<void()> action) {
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
      self->exchange_->Abort();
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
      CrossOriginHeaders(exchange_->request(), shared_.options.origins);
  headers.push_back({"X-Request-Id", request_id_});
  return headers;
}

void ApiCall::Reply(const nlohmann::json& body) {
  if (answered_) return;
  HttpResponse response{
      .type = "application/json",
      .body =
          body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n",
      .headers = Headers()};
  answered_ = true;
  exchange_->Respond(std::move(response));
}

void ApiCall::Fail(const absl::Status& status) {
  if (answered_) return FailStream(status);
  HttpResponse response = ErrorResponse(status);
  for (HttpHeader& header : Headers()) response.headers.push_back(std::move(header));
  answered_ = true;
  exchange_->Respond(std::move(response));
}

}  // namespace mnemon
