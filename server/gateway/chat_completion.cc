// SPDX-License-Identifier: MIT
// OpenAI's chat completions: the messages in the model's chat template, n answers.
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "server/gateway/openai_fields.h"

namespace mnemon {
namespace {

using nlohmann::json;

// For models without an end token, which would go on to the limit of the context.
constexpr int32_t kDefaultChatTokens = 256;
constexpr int64_t kMostTopLogprobs = 20;
constexpr char kMessages[] = "messages";

struct ChatChoice {
  std::string text;
  json logprobs = json::array();
  bool begun = false;
};

class ChatCompletion final : public ChoicesJob {
 public:
  explicit ChatCompletion(ApiStart start)
      : ChoicesJob(std::move(start), "chatcmpl-", "chat.completion",
                   "chat.completion.chunk") {}

 private:
  absl::Status Parse(const json& body) override {
    JsonFields fields(body);
    v1::GenerateRequest request;
    ReadGeneration(fields, request);
    ReadChoices(fields);
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
    AddChoices(request);
    choices_.resize(requests().size());
    return absl::OkStatus();
  }

  static void RefuseOthers(JsonFields& fields) {
    // Text with which a model calls a tool is returned as it is.
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
    const bool ended = Count(index, message);
    json logprobs = Logprobs(message);
    if (!stream()) {
      choice.text += message.text();
      for (json& one : logprobs) choice.logprobs.push_back(std::move(one));
      return "";
    }
    std::string events;
    if (!std::exchange(choice.begun, true)) {
      events += Chunk(index, {{"role", "assistant"}, {"content", ""}});
    }
    if (!message.text().empty() || !logprobs.empty()) {
      events += Chunk(index, {{"content", message.text()}}, std::move(logprobs));
    }
    if (ended) events += Chunk(index, json::object(), json::array(), /*ended=*/true);
    return events;
  }

  json Logprobs(const v1::GenerateResponse& message) const {
    json out = json::array();
    if (!logprobs_) return out;
    const auto entry = [this](int32_t token, float logprob) -> json {
      const DetokenizedText text = TextOfToken(shared().engine, model_, token);
      json list = json::array();
      for (const char c : text.raw) list.push_back(static_cast<unsigned char>(c));
      return {{"token", text.text}, {"logprob", logprob}, {"bytes", std::move(list)}};
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

  json LogprobsJson(json content) const {
    if (!logprobs_) return nullptr;
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }

  std::string Chunk(size_t index, json delta, json logprobs = json::array(),
                    bool ended = false) const {
    json list = logprobs.empty() ? json() : LogprobsJson(std::move(logprobs));
    return ChoiceEvent(
        index, {{"delta", std::move(delta)}, {"logprobs", std::move(list)}}, ended);
  }

  json Choice(size_t index) const override {
    return {{"message",
             {{"role", "assistant"},
              {"content", choices_[index].text},
              {"refusal", nullptr}}},
            {"logprobs", LogprobsJson(choices_[index].logprobs)}};
  }

  absl::Status InOwnTerms(const absl::Status& status) const override {
    return InOpenAiTerms(status, kMessages, /*before=*/0);
  }

  bool logprobs_ = false;
  std::vector<ChatChoice> choices_;
};

}  // namespace

std::shared_ptr<ApiCall> MakeChatCompletion(ApiStart start) {
  return std::make_shared<ChatCompletion>(std::move(start));
}

}  // namespace mnemon
