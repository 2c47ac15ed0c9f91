// SPDX-License-Identifier: MIT
#include "server/gateway/generation_job.h"

#include <atomic>
#include <new>
#include <utility>

#include "base/strings.h"
#include "server/gateway/api_json.h"
#include "server/service/methods.h"

namespace mnemon {

using nlohmann::json;

// One call of Generate, read message by message: the next message is made when it is
// asked for, so a slow peer pauses only its own session. Next and Cancel are called,
// and the job is told, on the job's strand. Lives until the call is over; the handler
// holds no reference.
class GenerationReader final : public GatewayCaller<Caller>,
                               public ResponseWriter<v1::GenerateResponse> {
 public:
  GenerationReader(std::shared_ptr<GenerationJob> job, size_t index,
                   v1::GenerateRequest request)
      : GatewayCaller(job->shared().service, "mnemon.v1.Generation/Generate",
                      job->request_id()),
        request_(std::move(request)),
        index_(index),
        job_(std::move(job)) {
    progress().AddReceivedBytes(static_cast<int64_t>(request_.ByteSizeLong()));
  }

  // The first message follows. May throw std::bad_alloc: then there is no call.
  void Start() {
    Keep([this] {
      handler_ =
          MakeGenerateHandler(job_->shared().service.parts(), *this, request_, *this);
      handler_->Start();
    });
  }

  // Asks for the next message. Once after each GenerationJob::OnMessage.
  void Next() { Release(/*taken=*/true); }

  // Ends the call; GenerationJob::OnEnd follows.
  void Cancel() {
    if (lost_) {
      const auto released = std::move(job_);
      return;
    }
    if (gone() || over_) return;
    SetGone();
    handler_->OnGone();
    Release(/*taken=*/false);
  }

  std::function<void(const absl::Status&)> CancelFunction() override {
    return [this, weak = weak_from_this(),
            weak_job = std::weak_ptr(job_)](const absl::Status&) {
      const auto self = weak.lock();
      const auto job = weak_job.lock();
      if (self == nullptr || job == nullptr) return;
      try {
        job->Post([this, self] {
          broken_off_ = true;
          Release(/*taken=*/false);
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
      job_->Post([this, self = shared_from_this(), &message, last] {
        held_ = true;
        last_ = last;
        if (gone() || broken_off_) return Release(/*taken=*/false);
        job_->OnMessage(index_, message);
      });
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  // The held message, if any, is no longer needed.
  void Release(bool taken) {
    if (!std::exchange(held_, false)) return;
    last_ ? End() : handler_->OnWritten(taken);
  }

  void End() {
    const auto self = TakeSelf();
    try {
      job_->Post([this, self] {
        over_ = true;
        EndRecord();
        handler_->OnDone();
        const auto job = std::move(job_);
        job->OnEnd(index_, end_);
      });
    } catch (const std::bad_alloc&) {
      lost_ = true;
      EndRecord();
      handler_->OnDone();
      job_->exchange().Abort();
    }
  }

  const v1::GenerateRequest request_;
  const size_t index_;
  std::shared_ptr<GenerationJob> job_;  // null after the end
  std::unique_ptr<StreamHandler> handler_;
  absl::Status end_;  // constant once it is posted
  std::atomic<bool> lost_ = false;
  // Used on the strand only.
  bool held_ = false;        // a message, until it is released
  bool last_ = false;        // the end follows that message
  bool broken_off_ = false;  // messages are dropped
  bool over_ = false;
};

std::string GenerationJob::Event(const json& data, const char* name) {
  const std::string line = StrCat("data: ", JsonText(data), "\n\n");
  return name == nullptr ? line : StrCat("event: ", name, "\n", line);
}

void GenerationJob::Run() {
  const absl::StatusOr<json> body = ParseBody(request().body);
  absl::Status status = body.ok() ? Parse(*body) : body.status();
  int64_t bytes = 0;  // each generation has a prompt of its own
  for (const auto& one : requests_) bytes += static_cast<int64_t>(one.ByteSizeLong());
  if (status.ok()) status = Charge(bytes);
  if (!status.ok()) return Fail(InOwnTerms(status));
  Prepare([this] { StartReaders(); });
}

absl::Status GenerationJob::Charge(int64_t more) {
  return charge_.TrySet(charge_.bytes() + more) ? absl::OkStatus() : BodyMemoryError();
}

void GenerationJob::StartReaders() {
  if (gone()) return;
  std::vector<v1::GenerateRequest> requests = std::move(requests_);
  left_ = requests.size();
  readers_.resize(left_);
  const auto self = std::static_pointer_cast<GenerationJob>(shared_from_this());
  for (size_t i = 0; i < requests.size(); ++i) {
    auto reader = std::make_shared<GenerationReader>(self, i, std::move(requests[i]));
    reader->Start();
    readers_[i] = std::move(reader);
  }
}

void GenerationJob::OnMessage(size_t index, const v1::GenerateResponse& message) {
  if (over()) return;
  if (!stream_) {
    if (const absl::Status status = ChargeAnswer(message); !status.ok()) {
      BreakOff();
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
    BreakOff();
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
    // Makes proxies pass events on at once.
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
      // The peer has everything, and may go at once.
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
  BreakOff();
  until_written_ = nullptr;
  if (last_) return exchange().Abort();
  until_written_ = shared_from_this();
  last_ = true;
  Write({.text = ErrorEvents(status)});
}

void GenerationJob::OnGone() {
  // Released even if what follows throws.
  const std::shared_ptr<ApiCall> self = std::exchange(until_written_, nullptr);
  ApiCall::OnGone();
  BreakOff();
}

void GenerationJob::BreakOff() {
  for (const auto& reader : readers_) {
    if (reader != nullptr) reader->Cancel();
  }
  if (!std::exchange(discarded_, true)) Discard();
}

}  // namespace mnemon
