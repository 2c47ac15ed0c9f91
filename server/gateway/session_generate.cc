// SPDX-License-Identifier: MIT
// A turn of a session: the fields of the gRPC call as JSON.
#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/gateway/api_json.h"
#include "server/gateway/generation_job.h"
#include "server/requests/random.h"

namespace mnemon {
namespace {

using nlohmann::json;

class SessionGenerate final : public GenerationJob {
 public:
  using GenerationJob::GenerationJob;

 private:
  absl::Status Parse(const json& body) override {
    v1::GenerateRequest request;
    json fields = body;
    if (fields.is_object()) {
      MNEMON_RETURN_IF_ERROR(TakeStream(fields));
      // A prompt of text may be a string; a conversation is an object.
      const auto prompt = fields.find("prompt");
      if (prompt != fields.end() && prompt->is_string()) {
        fields["prompt"] = json{{"text", *prompt}};
      } else if (prompt != fields.end() && prompt->contains("messages")) {
        fields["prompt"] = Conversation();
      }
    }
    MNEMON_RETURN_IF_ERROR(FromJson(fields, request));
    request.set_session(StrCat("sessions/", id()));
    DrawSeed(request);
    requests().push_back(std::move(request));
    return absl::OkStatus();
  }

  // The prompt of the body, with its keys in their order.
  json Conversation() {
    nlohmann::ordered_json given =
        nlohmann::ordered_json::parse(ApiCall::request().body)["prompt"];
    json prompt = json::object();
    if (const auto unknown = given.find("unknown_characters"); unknown != given.end()) {
      prompt["unknown_characters"] = *unknown;
      given.erase(unknown);
    }
    prompt["conversation"] = given.dump();
    return prompt;
  }

  absl::Status TakeStream(json& fields) {
    const auto stream = fields.find("stream");
    if (stream == fields.end()) return absl::OkStatus();
    if (!stream->is_boolean()) {
      return InvalidField("stream", "stream must be true or false");
    }
    SetStream(stream->get<bool>());
    fields.erase("stream");
    return absl::OkStatus();
  }

  // Draws a seed that JavaScript's numbers hold, if the call has sampling of its own;
  // else that of the session or the server is used.
  static void DrawSeed(v1::GenerateRequest& request) {
    if (!request.has_sampling() || request.sampling().has_seed()) return;
    request.mutable_sampling()->set_seed(static_cast<int64_t>(RandomNumber() >> 11));
  }

  std::string Take(size_t, const v1::GenerateResponse& message) override {
    if (stream()) return Event(ToJson(message));
    text_ += message.text();
    if (tokens_ == 0) first_index_ = message.first_index();
    tokens_ += message.tokens_size();
    whole_.MergeFrom(message);
    return "";
  }

  std::string LastEvents() override { return "data: [DONE]\n\n"; }

  json Whole() override {
    whole_.clear_progress();
    whole_.set_text(text_);
    whole_.set_first_index(first_index_);
    return ToJson(whole_);
  }

  // Unless it is a stream:
  v1::GenerateResponse whole_;
  std::string text_;
  int64_t first_index_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace

std::shared_ptr<ApiCall> MakeSessionGenerate(ApiStart start) {
  return std::make_shared<SessionGenerate>(std::move(start));
}

}  // namespace mnemon
