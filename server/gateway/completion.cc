// SPDX-License-Identifier: MIT
// OpenAI's text completions: every prompt n times, all at once.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/gateway/openai_fields.h"

namespace mnemon {
namespace {

using nlohmann::json;

constexpr int32_t kDefaultTextTokens = 16;  // OpenAI's
constexpr int64_t kMostCandidates = 20;

struct TextChoice {
  std::string text;
  json logprobs;  // OpenAI's object; null: not asked for
};

class Completion final : public ChoicesJob {
 public:
  explicit Completion(ApiStart start)
      : ChoicesJob(std::move(start), "cmpl-", "text_completion", "text_completion") {}

 private:
  absl::Status Parse(const json& body) override {
    JsonFields fields(body);
    v1::GenerateRequest request;
    ReadGeneration(fields, request);
    ReadChoices(fields);
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
    fields.Refuse("best_of", copies());
    std::vector<v1::Prompt> prompts;
    ReadPrompts(fields, prompts);
    MNEMON_RETURN_IF_ERROR(fields.End());
    if (prompts.size() * static_cast<size_t>(copies()) > kMost) {
      return InvalidField("n", StrCat(prompts.size(), " prompts with n ", copies(),
                                      ": at most ", kMost, " choices in one call"));
    }
    for (v1::Prompt& prompt : prompts) {
      *request.mutable_prompt() = std::move(prompt);
      AddChoices(request);
    }
    choices_.resize(requests().size());
    offsets_.resize(requests().size());
    MNEMON_ASSIGN_OR_RETURN(const ModelFacts model,
                            shared().engine.GetModel(ModelName(request.model())));
    model_ = model.name;
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
      if (prompt.has_tokens()) {
        MNEMON_ASSIGN_OR_RETURN(
            const DetokenizedText text,
            shared().engine.Detokenize(
                model_, {prompt.tokens().ids().begin(), prompt.tokens().ids().end()}));
        choices_[i].text = text.text;
      }
      offsets_[i] = CodePoints(choices_[i].text);
    }
    return absl::OkStatus();
  }

  std::string Take(size_t index, const v1::GenerateResponse& message) override {
    const bool ended = Count(index, message);
    // In a stream the choice keeps nothing but an echo that has not been sent.
    TextChoice piece;
    TextChoice& to = stream() ? piece : choices_[index];
    if (stream()) to.text = std::exchange(choices_[index].text, "");
    AddLogprobs(message, offsets_[index], to.logprobs);
    to.text += message.text();
    offsets_[index] += CodePoints(message.text());
    if (!stream()) return "";
    if (piece.text.empty() && piece.logprobs.is_null() && !ended) return "";
    return ChoiceEvent(index, ChoiceJson(piece), ended);
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
      const std::string text =
          TextOfToken(shared().engine, model_, one.token_id()).text;
      to["tokens"].push_back(text);
      to["token_logprobs"].push_back(one.logprob());
      json top = json::object();
      for (const auto& candidate : one.candidates()) {
        top[TextOfToken(shared().engine, model_, candidate.token_id()).text] =
            candidate.logprob();
      }
      to["top_logprobs"].push_back(std::move(top));
      to["text_offset"].push_back(offset);
      offset += CodePoints(text);
    }
  }

  static json ChoiceJson(const TextChoice& choice) {
    return {{"text", choice.text}, {"logprobs", choice.logprobs}};
  }
  json Choice(size_t index) const override { return ChoiceJson(choices_[index]); }

  absl::Status InOwnTerms(const absl::Status& status) const override {
    return InOpenAiTerms(status);
  }

  bool echo_ = false;
  std::vector<TextChoice> choices_;
  std::vector<int64_t> offsets_;  // of each choice's next text, in characters
};

}  // namespace

std::shared_ptr<ApiCall> MakeCompletion(ApiStart start) {
  return std::make_shared<Completion>(std::move(start));
}

}  // namespace mnemon
