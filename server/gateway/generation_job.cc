// SPDX-License-Identifier: MIT
#include "server/gateway/generation_job.h"

#include <utility>

#include "base/strings.h"
#include "server/gateway/json_fields.h"

namespace mnemon {

using nlohmann::json;

std::string GenerationJob::Event(const json& data, const char* name) {
  const std::string line = StrCat(
      "data: ", data.dump(-1, ' ', false, json::error_handler_t::replace), "\n\n");
  return name == nullptr ? line : StrCat("event: ", name, "\n", line);
}

void GenerationJob::Run() {
  const absl::StatusOr<json> body = ParseBody(request().body);
  absl::Status status = body.ok() ? Parse(*body) : body.status();
  if (status.ok()) status = ChargeRequests();
  if (!status.ok()) return Fail(InOwnTerms(status));
  Prepare([this] { StartReaders(); });
}

// Prompts are there once for each generation.
absl::Status GenerationJob::ChargeRequests() {
  int64_t bytes = 0;
  for (const auto& one : requests_) bytes += static_cast<int64_t>(one.ByteSizeLong());
  return Charge(bytes);
}

absl::Status GenerationJob::Charge(int64_t bytes) {
  BodyCharge charge = shared().Reserve(bytes);
  if (charge == nullptr) return GatewayShared::MemoryLimit();
  charges_.push_back(std::move(charge));
  return absl::OkStatus();
}

void GenerationJob::StartReaders() {
  if (gone()) return;
  std::vector<v1::GenerateRequest> requests = std::move(requests_);
  left_ = requests.size();
  readers_.resize(left_);
  const std::shared_ptr<ApiCall> self = shared_from_this();
  for (size_t i = 0; i < requests.size(); ++i) {
    readers_[i] = GenerationReader::Start(
        shared().service, std::move(requests[i]), request_id(),
        {.post = [this, self](std::function<void()> work) { Post(std::move(work)); },
         .on_message = [this, i](const auto& message) { OnMessage(i, message); },
         .on_end = [this, i](const auto& status) { OnEnd(i, status); },
         .on_lost = [this] { exchange().Abort(); }});
  }
}

void GenerationJob::OnMessage(size_t index, const v1::GenerateResponse& message) {
  if (over()) return;
  if (!stream_) {
    if (const absl::Status status = ChargeAnswer(message); !status.ok()) {
      CancelAll();
      DiscardOnce();
      return Fail(status);
    }
  }
  std::string events = Take(index, message);
  if (!stream_ || events.empty()) return readers_[index]->Next();
  Write({.text = std::move(events), .reader = index});
}

absl::Status GenerationJob::ChargeAnswer(const v1::GenerateResponse& message) {
  constexpr int64_t kJsonFactor = 16;  // from a message to the objects made of it
  constexpr int64_t kStep = 16384;
  uncharged_ += kJsonFactor * static_cast<int64_t>(message.ByteSizeLong());
  if (uncharged_ < kStep) return absl::OkStatus();
  return Charge(std::exchange(uncharged_, 0));
}

void GenerationJob::OnEnd(size_t index, const absl::Status& status) {
  readers_[index] = nullptr;
  if (over()) return;
  if (!status.ok()) {
    CancelAll();
    DiscardOnce();
    return Fail(InOwnTerms(status));
  }
  if (--left_ > 0) return;
  Conclude([this] { Finish(); });
}

void GenerationJob::Finish() {
  if (over()) return;
  if (!stream_) return Reply(Whole());
  std::string events = LastEvents();
  last_ = true;
  Write({.text = std::move(events)});
}

void GenerationJob::Write(Part part) {
  if (!begun_) {
    begun_ = writing_ = true;
    until_written_ = shared_from_this();
    SetAnswered();
    written_for_ = part.reader;
    std::vector<HttpHeader> headers = Headers();
    // Proxies pass events on at once.
    headers.push_back({"X-Accel-Buffering", "no"});
    return exchange().Begin({.type = "text/event-stream; charset=utf-8",
                             .body = std::move(part.text),
                             .headers = std::move(headers)},
                            [weak = weak_from_this()] {
                              const std::shared_ptr<ApiCall> call = weak.lock();
                              if (call == nullptr) return;
                              auto& job = static_cast<GenerationJob&>(*call);
                              job.Post([&job] { job.OnWritten(); });
                            });
  }
  waiting_.push_back(std::move(part));
  if (!writing_) OnWritten();
}

void GenerationJob::OnWritten() {
  writing_ = false;
  const size_t reader = std::exchange(written_for_, SIZE_MAX);
  if (reader < readers_.size() && readers_[reader] != nullptr) readers_[reader]->Next();
  if (waiting_.empty()) {
    if (last_) {
      // The peer has been told all of it, and may go at once.
      discarded_ = true;
      exchange().End();
      until_written_ = nullptr;
    }
    return;
  }
  writing_ = true;
  Part part = std::move(waiting_.front());
  waiting_.pop_front();
  written_for_ = part.reader;
  exchange().Write(std::move(part.text));
}

void GenerationJob::FailStream(const absl::Status& status) {
  if (over()) return;
  failed_ = true;
  CancelAll();
  DiscardOnce();
  until_written_ = nullptr;
  if (last_) return exchange().Abort();
  until_written_ = shared_from_this();
  last_ = true;
  Write({.text = ErrorEvents(status)});
}

void GenerationJob::OnGone() {
  // Also where what follows throws.
  const std::shared_ptr<ApiCall> self = std::exchange(until_written_, nullptr);
  ApiCall::OnGone();
  CancelAll();
  DiscardOnce();
}

void GenerationJob::DiscardOnce() {
  if (!std::exchange(discarded_, true)) Discard();
}

void GenerationJob::CancelAll() {
  for (const auto& reader : readers_) {
    if (reader != nullptr) reader->Cancel();
  }
}

}  // namespace mnemon
