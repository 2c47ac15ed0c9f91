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
#include "server/gateway/api_json.h"

namespace mnemon {

class GenerationReader;

// Virtual methods are what the forms of the API do in their own ways. In a stream a
// generation goes on when its last events are written.
class GenerationJob : public ApiCall {
 public:
  // The most generations of one call.
  static constexpr size_t kMost = 16;

 protected:
  using ApiCall::ApiCall;

  // Reads the body: adds at least one of `requests`, and calls SetStream.
  virtual absl::Status Parse(const nlohmann::json& body) = 0;
  // Runs before the generations; calls `next`, or Fail to end the call.
  virtual void Prepare(std::function<void()> next) { next(); }
  // Takes a message of the generation `index`; in a stream returns its events.
  virtual std::string Take(size_t index, const v1::GenerateResponse& message) = 0;
  // Runs when all generations have ended well, before the end of the answer.
  virtual void Conclude(std::function<void()> next) { next(); }
  // The call fails, or its peer is gone: undoes Prepare. At most once.
  virtual void Discard() {}
  virtual std::string LastEvents() = 0;
  // The answer, if it is not a stream.
  virtual nlohmann::json Whole() = 0;
  // An error with this form's names of fields; its events in a stream.
  virtual absl::Status InOwnTerms(const absl::Status& status) const { return status; }
  virtual std::string ErrorEvents(const absl::Status& status) {
    return Event(ErrorJson(status));
  }

  std::vector<v1::GenerateRequest>& requests() { return requests_; }
  void SetStream(bool stream) { stream_ = stream; }
  bool stream() const { return stream_; }

  // "data: {...}\n\n", after a line "event: NAME" if there is a name.
  static std::string Event(const nlohmann::json& data, const char* name = nullptr);

 private:
  friend class GenerationReader;

  struct Part {
    std::string text;
    size_t reader = SIZE_MAX;  // whose next message is asked for once this is written
  };

  void Run() final;
  void OnGone() override;
  void FailStream(const absl::Status& status) final;
  absl::Status ChargeAnswer(const v1::GenerateResponse& message);
  // Charges more bytes. MEMORY_LIMIT.
  absl::Status Charge(int64_t more);
  void StartReaders();
  void OnMessage(size_t index, const v1::GenerateResponse& message);
  void OnEnd(size_t index, const absl::Status& status);
  void Finish();
  void Write(Part part);
  void OnWritten();
  // Further messages of the generations are not answered.
  bool over() const { return failed_ || gone() || (answered() && !begun_); }
  // Ends the generations of a call that fails, or whose peer is gone.
  void BreakOff();

  std::vector<v1::GenerateRequest> requests_;
  bool stream_ = false;
  std::vector<std::shared_ptr<GenerationReader>> readers_;  // null: ended
  size_t left_ = 0;
  bool failed_ = false;
  bool discarded_ = false;
  bool begun_ = false;
  bool writing_ = false;
  bool last_ = false;  // nothing is written after what waits
  size_t written_for_ = SIZE_MAX;
  std::deque<Part> waiting_;
  ByteCharge charge_{shared().bodies};
  int64_t uncharged_ = 0;
  // Keeps this object while a stream is written: the exchange holds no reference.
  std::shared_ptr<ApiCall> until_written_;
};

// The forms of the API; see the routes.
std::shared_ptr<ApiCall> MakeCompletion(ApiStart start);
std::shared_ptr<ApiCall> MakeChatCompletion(ApiStart start);
std::shared_ptr<ApiCall> MakeResponse(ApiStart start);
std::shared_ptr<ApiCall> MakeDeleteResponse(ApiStart start);
// GenerateRequest and GenerateResponse as JSON. An answer that is not a stream holds
// what all messages of the stream do.
std::shared_ptr<ApiCall> MakeSessionGenerate(ApiStart start);

}  // namespace mnemon
