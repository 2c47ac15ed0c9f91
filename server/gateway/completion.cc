// SPDX-License-Identifier: MIT
// OpenAI's text completions: every prompt n times, all at once.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/gateway/generation_job.h"
#include "server/gateway/jobs.h"
#include "server/gateway/openai_fields.h"
#include "server/requests/random.h"

namespace mnemon {
namespace {

using nlohmann::json;

constexpr int32_t kDefaultTextTokens = 16;  // OpenAI's
constexpr int64_t kMostCandidates = 20;

// What one generation has given.
struct TextChoice {
  std::string text;
  json logprobs;  // OpenAI's object; null: not asked for
  std::optional<v1::FinishFacts> finish;
};

class Completion final : public GenerationJob {
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
    const auto max_tokens = fields.Integer("max_tokens", 0, INT32_MAX);
    request.mutable_stopping()->set_max_tokens(
        static_cast<int32_t>(max_tokens.value_or(kDefaultTextTokens)));
    const auto candidates = fields.Integer("logprobs", 0, kMostCandidates);
    if (candidates) {
      request.mutable_output()->set_logprobs(true);
      request.mutable_output()->set_top_candidate_count(
          static_cast<int32_t>(*candidates));
    }
    echo_ = fields.Boolean("echo").value_or(false);
    if (echo_ && candidates) fields.Refuse("echo", false);
    fields.Refuse("suffix", nullptr);
    fields.Refuse("best_of", copies);
    std::vector<v1::Prompt> prompts;
    ReadPrompts(fields, prompts);
    MNEMON_RETURN_IF_ERROR(fields.End());
    if (prompts.size() * static_cast<size_t>(copies) > kMost) {
      return InvalidField("n", StrCat(prompts.size(), " prompts with n ", copies,
                                      ": at most ", kMost, " choices in one call"));
    }
    for (const v1::Prompt& prompt : prompts) {
      for (int64_t i = 0; i < copies; ++i) {
        v1::GenerateRequest one = ChoiceOf(request, i);
        *one.mutable_prompt() = prompt;
        AddRequest(std::move(one));
      }
    }
    choices_.resize(requests().size());
    offsets_.resize(requests().size());
    MNEMON_ASSIGN_OR_RETURN(const ModelFacts model,
                            shared().engine.GetModel(ModelName(request.model())));
    model_ = model.name;
    texts_.emplace(shared().engine, model_);
    return Echo();
  }

  // A string, a list of strings, a list of token ids, or a list of such lists.
  static void ReadPrompts(JsonFields& fields, std::vector<v1::Prompt>& prompts) {
    const json* const value = fields.Any("prompt");
    if (value == nullptr) return fields.Fault("prompt", "is missing");
    const bool many =
        value->is_array() && !value->empty() && !value->front().is_number();
    for (const json& one : many ? *value : json::array({*value})) {
      v1::Prompt& prompt = prompts.emplace_back();
      bool good = one.is_string() || (one.is_array() && !one.empty());
      if (one.is_string()) {
        prompt.set_text(one.get<std::string>());
      } else if (good) {
        for (const json& id : one) {
          good = good && id.is_number_unsigned() && id.get<uint64_t>() <= INT32_MAX;
          if (good) prompt.mutable_tokens()->add_ids(id.get<int32_t>());
        }
      }
      if (!good || prompts.size() > kMost) {
        return fields.Fault(
            "prompt", StrCat("must be a string, a list of token ids, or a list of "
                             "at most ",
                             kMost, " of these"));
      }
    }
  }

  absl::Status Echo() {
    if (!echo_) return absl::OkStatus();
    for (size_t i = 0; i < choices_.size(); ++i) {
      const v1::Prompt& prompt = requests()[i].prompt();
      choices_[i].text = prompt.text();
      if (!prompt.has_tokens()) continue;
      MNEMON_ASSIGN_OR_RETURN(
          const DetokenizedText text,
          shared().engine.Detokenize(
              model_, {prompt.tokens().ids().begin(), prompt.tokens().ids().end()}));
      choices_[i].text = text.text;
    }
    for (size_t i = 0; i < choices_.size(); ++i) {
      offsets_[i] = CodePoints(choices_[i].text);
    }
    return absl::OkStatus();
  }

  std::string Take(size_t index, const v1::GenerateResponse& message) override {
    TextChoice& choice = choices_[index];
    if (message.has_prompt()) usage_.prompt += message.prompt().token_count();
    if (message.has_finish()) {
      usage_.generated += message.finish().generated_token_count();
      choice.finish = message.finish();
    }
    // In a stream the choice keeps nothing: `piece` is what it gives this time.
    TextChoice piece;
    TextChoice& to = stream() ? piece : choice;
    if (stream()) to.text = std::exchange(choice.text, "");
    AddLogprobs(message, offsets_[index], to.logprobs);
    to.text += message.text();
    offsets_[index] += CodePoints(message.text());
    if (!stream()) return "";
    piece.finish = choice.finish;
    if (piece.text.empty() && piece.logprobs.is_null() && !piece.finish) return "";
    return Event(Body({ChoiceJson(index, piece)}));
  }

  static int64_t CodePoints(const std::string& text) {
    return std::count_if(text.begin(), text.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    });
  }
  void AddLogprobs(const v1::GenerateResponse& message, int64_t offset,
                   json& to) const {
    if (message.logprobs_size() == 0) return;
    if (to.is_null()) {
      to = {{"tokens", json::array()},
            {"token_logprobs", json::array()},
            {"top_logprobs", json::array()},
            {"text_offset", json::array()}};
    }
    for (const v1::TokenLogprobs& one : message.logprobs()) {
      const std::string text = texts_->Text(one.token_id());
      to["tokens"].push_back(text);
      to["token_logprobs"].push_back(one.logprob());
      json top = json::object();
      for (const auto& candidate : one.candidates()) {
        top[texts_->Text(candidate.token_id())] = candidate.logprob();
      }
      to["top_logprobs"].push_back(std::move(top));
      to["text_offset"].push_back(offset);
      offset += CodePoints(text);
    }
  }

  static json ChoiceJson(size_t index, const TextChoice& choice) {
    json out = {{"index", index},
                {"text", choice.text},
                {"logprobs", choice.logprobs},
                {"finish_reason", nullptr}};
    if (!choice.finish) return out;
    out["finish_reason"] = FinishReasonOf(*choice.finish);
    out["stop_reason"] = StopReasonOf(*choice.finish);
    return out;
  }

  json Body(json choices) const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", model_},
            {"choices", std::move(choices)}};
  }

  std::string LastEvents() override {
    std::string events;
    if (stream_usage_) {
      json body = Body(json::array());
      body["usage"] = UsageJson(usage_);
      events = Event(body);
    }
    return events + "data: [DONE]\n\n";
  }

  json Whole() override {
    json choices = json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      choices.push_back(ChoiceJson(i, choices_[i]));
    }
    json body = Body(std::move(choices));
    body["usage"] = UsageJson(usage_);
    return body;
  }

  absl::Status InOwnTerms(const absl::Status& status) const override {
    return InOpenAiTerms(status);
  }

  const std::string id_ = "cmpl-" + RandomId();
  const int64_t created_ = NowSeconds();
  std::string model_;
  std::optional<TokenTexts> texts_;
  bool echo_ = false;
  bool stream_usage_ = false;
  UsageCount usage_;
  std::vector<TextChoice> choices_;
  std::vector<int64_t> offsets_;  // of the next text of each choice, in characters
};

}  // namespace

std::shared_ptr<ApiCall> MakeCompletion(GatewayShared& shared,
                                        std::shared_ptr<HttpExchange> exchange,
                                        BodyCharge body) {
  return std::make_shared<Completion>(shared, std::move(exchange), std::move(body));
}

}  // namespace mnemon
