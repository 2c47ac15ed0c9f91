// SPDX-License-Identifier: MIT
// A call of the HTTP API that generates text: one or several calls of Generate at once,
// answered whole or as server-sent events.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "mnemon/v1/generation.pb.h"
#include "nlohmann/json.hpp"
#include "server/gateway/api_call.h"
#include "server/gateway/api_error.h"
#include "server/gateway/generation_reader.h"

namespace mnemon {

// What a form of the API does: what is to be generated, and how it reads. In a stream a
// generation goes on when what it gave is written.
class GenerationJob : public ApiCall {
 public:
  // Generations of one call, at most.
  static constexpr size_t kMost = 16;

 protected:
  using ApiCall::ApiCall;

  // Reads the body: AddRequest for each generation, at least one; SetStream.
  virtual absl::Status Parse(const nlohmann::json& body) = 0;
  // What comes before the generations begin; `next` goes on, or Fail ends the call.
  virtual void Prepare(std::function<void()> next) { next(); }
  // A message of the generation `index`: notes what it says; in a stream returns the
  // events for it.
  virtual std::string Take(size_t index, const v1::GenerateResponse& message) = 0;
  // What comes when all generations have ended well, before the answer does.
  virtual void Conclude(std::function<void()> next) { next(); }
  // The call fails, or its peer is gone: what Prepare has made is not wanted. Once.
  virtual void Discard() {}
  // The last events of a stream.
  virtual std::string LastEvents() = 0;
  // The answer that is no stream.
  virtual nlohmann::json Whole() = 0;
  // An error in the terms of this form's fields, and its events behind the beginning of
  // a stream.
  virtual absl::Status InOwnTerms(const absl::Status& status) const { return status; }
  virtual std::string ErrorEvents(const absl::Status& status) {
    return Event(ErrorJson(status));
  }

  void AddRequest(v1::GenerateRequest request) {
    requests_.push_back(std::move(request));
  }
  std::vector<v1::GenerateRequest>& requests() { return requests_; }
  void SetStream(bool stream) { stream_ = stream; }
  bool stream() const { return stream_; }

  // "data: {...}\n\n", with a line "event: NAME" before it where there is a name.
  static std::string Event(const nlohmann::json& data, const char* name = nullptr);

 private:
  // What is to be written, and whose next message it makes room for.
  struct Part {
    std::string text;
    size_t reader = SIZE_MAX;
  };

  void Run() final;
  void OnGone() override;
  void FailStream(const absl::Status& status) final;
  absl::Status ChargeRequests();
  absl::Status ChargeAnswer(const v1::GenerateResponse& message);
  // MEMORY_LIMIT.
  absl::Status Charge(int64_t bytes);
  void StartReaders();
  void OnMessage(size_t index, const v1::GenerateResponse& message);
  void OnEnd(size_t index, const absl::Status& status);
  void Finish();
  void Write(Part part);
  void OnWritten();
  // Nothing that the generations still give is answered.
  bool over() const { return failed_ || gone() || (answered() && !begun_); }
  void CancelAll();
  void DiscardOnce();

  std::vector<v1::GenerateRequest> requests_;
  bool stream_ = false;
  std::vector<std::shared_ptr<GenerationReader>> readers_;  // null: ended
  size_t left_ = 0;
  bool failed_ = false;
  bool discarded_ = false;
  bool begun_ = false;
  bool writing_ = false;
  bool last_ = false;  // nothing is written behind what waits
  size_t written_for_ = SIZE_MAX;
  std::deque<Part> waiting_;
  std::vector<BodyCharge> charges_;
  int64_t uncharged_ = 0;
  // While a stream is written the exchange tells this object, and nobody else holds it.
  std::shared_ptr<ApiCall> until_written_;
};

}  // namespace mnemon
