// SPDX-License-Identifier: MIT
// OpenAI's chat completions: the messages in the model's chat template, n answers.
#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "server/gateway/generation_job.h"
#include "server/gateway/jobs.h"
#include "server/gateway/openai_fields.h"
#include "server/requests/random.h"

namespace mnemon {
namespace {

using nlohmann::json;

// What has no end of its own would go on to the limit of the context.
constexpr int32_t kDefaultChatTokens = 256;
constexpr int64_t kMostTopLogprobs = 20;
constexpr char kMessages[] = "messages";

struct ChatChoice {
  std::string text;
  json logprobs = json::array();
  std::optional<v1::FinishFacts> finish;
  bool begun = false;
};

class ChatCompletion final : public GenerationJob {
 public:
  using GenerationJob::GenerationJob;

 private:
  absl::Status Parse(const json& body) override {
    JsonFields fields(body);
    v1::GenerateRequest request;
    ReadGeneration(fields, request);
    const StreamFields stream = ReadStream(fields);
    SetStream(stream.stream);
    stream_usage_ = stream.usage;
    const int64_t copies = fields.Integer("n", 1, kMost).value_or(1);
    const auto old_limit = fields.Integer("max_tokens", 0, INT32_MAX);
    const auto limit = fields.Integer("max_completion_tokens", 0, INT32_MAX);
    const absl::StatusOr<ModelFacts> found =
        shared().engine.GetModel(ModelName(request.model()));
    const bool ends = found.ok() && !found->generation.end_tokens.empty();
    if (limit || old_limit || !ends) {
      request.mutable_stopping()->set_max_tokens(
          static_cast<int32_t>(limit.value_or(old_limit.value_or(kDefaultChatTokens))));
    }
    logprobs_ = fields.Boolean("logprobs").value_or(false);
    const auto candidates = fields.Integer("top_logprobs", 0, kMostTopLogprobs);
    if (logprobs_) {
      request.mutable_output()->set_logprobs(true);
      request.mutable_output()->set_top_candidate_count(
          static_cast<int32_t>(candidates.value_or(0)));
    } else if (candidates.value_or(0) > 0) {
      fields.Fault("top_logprobs", "needs logprobs");
    }
    RefuseOthers(fields);
    request.mutable_prompt()->set_conversation(
        ReadConversation(fields, ApiCall::request().body, kMessages));
    MNEMON_RETURN_IF_ERROR(fields.End());
    MNEMON_RETURN_IF_ERROR(found.status());
    model_ = found->name;
    texts_.emplace(shared().engine, model_);
    for (int64_t i = 0; i < copies; ++i) {
      AddRequest(ChoiceOf(request, i));
    }
    choices_.resize(requests().size());
    return absl::OkStatus();
  }

  static void RefuseOthers(JsonFields& fields) {
    // What a model writes to call a tool is given as text.
    const json* const choice = fields.Any("tool_choice");
    if (choice == nullptr || *choice != "auto") fields.Refuse("tool_choice", "none");
    fields.Refuse("functions", json::array());
    fields.Refuse("response_format", json{{"type", "text"}});
    fields.Refuse("modalities", json::array({"text"}));
    for (const char* name : {"metadata", "store", "service_tier", "parallel_tool_calls",
                             "safety_identifier", "prompt_cache_key"}) {
      fields.Ignore(name);
    }
  }

  std::string Take(size_t index, const v1::GenerateResponse& message) override {
    ChatChoice& choice = choices_[index];
    if (message.has_prompt()) usage_.prompt += message.prompt().token_count();
    if (message.has_finish()) {
      usage_.generated += message.finish().generated_token_count();
      choice.finish = message.finish();
    }
    json logprobs = Logprobs(message);
    if (!stream()) {
      choice.text += message.text();
      for (json& one : logprobs) choice.logprobs.push_back(std::move(one));
      return "";
    }
    std::string events;
    if (!std::exchange(choice.begun, true)) {
      events += Event(Chunk(index, {{"role", "assistant"}, {"content", ""}}));
    }
    if (!message.text().empty() || !logprobs.empty()) {
      events += Event(Chunk(index, {{"content", message.text()}}, logprobs));
    }
    if (message.has_finish()) {
      events += Event(Chunk(index, json::object(), json::array(), &*choice.finish));
    }
    return events;
  }

  json Logprobs(const v1::GenerateResponse& message) const {
    json out = json::array();
    if (!logprobs_) return out;
    const auto entry = [this](int32_t token, float logprob) -> json {
      const std::string bytes = texts_->Bytes(token);
      json list = json::array();
      for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
      return {{"token", texts_->Text(token)},
              {"logprob", logprob},
              {"bytes", std::move(list)}};
    };
    for (const v1::TokenLogprobs& one : message.logprobs()) {
      json& to = out.emplace_back(entry(one.token_id(), one.logprob()));
      to["top_logprobs"] = json::array();
      for (const auto& candidate : one.candidates()) {
        to["top_logprobs"].push_back(entry(candidate.token_id(), candidate.logprob()));
      }
    }
    return out;
  }

  json Body(const char* object, json choices) const {
    return {{"id", id_},
            {"object", object},
            {"created", created_},
            {"model", model_},
            {"choices", std::move(choices)}};
  }

  json LogprobsJson(json content) const {
    if (!logprobs_) return nullptr;
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }

  static void SetFinish(const v1::FinishFacts& finish, json& choice) {
    choice["finish_reason"] = FinishReasonOf(finish);
    choice["stop_reason"] = StopReasonOf(finish);
  }

  json Chunk(size_t index, json delta, const json& logprobs = json::array(),
             const v1::FinishFacts* finish = nullptr) const {
    json choice = {{"index", index},
                   {"delta", std::move(delta)},
                   {"logprobs", logprobs.empty() ? json() : LogprobsJson(logprobs)},
                   {"finish_reason", nullptr}};
    if (finish != nullptr) SetFinish(*finish, choice);
    return Body("chat.completion.chunk", json::array({std::move(choice)}));
  }

  std::string LastEvents() override {
    std::string events;
    if (stream_usage_) {
      json body = Body("chat.completion.chunk", json::array());
      body["usage"] = UsageJson(usage_);
      events = Event(body);
    }
    return events + "data: [DONE]\n\n";
  }

  json Whole() override {
    json choices = json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      json choice = {{"index", i},
                     {"message",
                      {{"role", "assistant"},
                       {"content", choices_[i].text},
                       {"refusal", nullptr}}},
                     {"logprobs", LogprobsJson(choices_[i].logprobs)}};
      SetFinish(*choices_[i].finish, choice);
      choices.push_back(std::move(choice));
    }
    json body = Body("chat.completion", std::move(choices));
    body["usage"] = UsageJson(usage_);
    return body;
  }

  absl::Status InOwnTerms(const absl::Status& status) const override {
    return InOpenAiTerms(status, kMessages, /*before=*/0);
  }

  const std::string id_ = "chatcmpl-" + RandomId();
  const int64_t created_ = NowSeconds();
  std::string model_;
  std::optional<TokenTexts> texts_;
  bool logprobs_ = false;
  bool stream_usage_ = false;
  UsageCount usage_;
  std::vector<ChatChoice> choices_;
};

}  // namespace

std::shared_ptr<ApiCall> MakeChatCompletion(GatewayShared& shared,
                                            std::shared_ptr<HttpExchange> exchange,
                                            BodyCharge body) {
  return std::make_shared<ChatCompletion>(shared, std::move(exchange), std::move(body));
}

}  // namespace mnemon
