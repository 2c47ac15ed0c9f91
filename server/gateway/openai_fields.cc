// SPDX-License-Identifier: MIT
#include "server/gateway/openai_fields.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"
#include "server/requests/random.h"

namespace mnemon {
namespace {

using nlohmann::json;

constexpr int64_t kMostInt = INT32_MAX;
constexpr size_t kMostStops = 16;
constexpr size_t kMostBiases = 1024;
constexpr char kModels[] = "models/";

void ReadLogitBias(JsonFields& fields, v1::Sampling& sampling) {
  const json* const bias = fields.Any("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object() || bias->size() > kMostBiases) {
    return fields.Fault(
        "logit_bias", StrCat("must be an object of at most ", kMostBiases, " entries"));
  }
  for (const auto& [key, value] : bias->items()) {
    int32_t token = 0;
    const auto [end, fault] =
        std::from_chars(key.data(), key.data() + key.size(), token);
    if (fault != std::errc() || end != key.data() + key.size() || !value.is_number()) {
      return fields.Fault("logit_bias",
                          StrCat("must map token ids to numbers; at ", Quoted(key)));
    }
    v1::LogitBias& entry = *sampling.add_logit_bias();
    entry.set_token_id(token);
    entry.set_bias(value.get<float>());
  }
}

}  // namespace

void ReadGeneration(JsonFields& fields, v1::GenerateRequest& request) {
  if (const auto model = fields.Text("model")) request.set_model(kModels + *model);
  v1::Sampling& sampling = *request.mutable_sampling();
  if (const auto v = fields.Number("temperature")) sampling.set_temperature(*v);
  if (const auto v = fields.Number("top_p")) sampling.set_top_p(*v);
  if (const auto v = fields.Number("min_p")) sampling.set_min_p(*v);
  if (const auto v = fields.Number("typical_p")) sampling.set_typical_p(*v);
  if (const auto v = fields.Number("presence_penalty")) {
    sampling.set_presence_penalty(*v);
  }
  if (const auto v = fields.Number("frequency_penalty")) {
    sampling.set_frequency_penalty(*v);
  }
  if (const auto v = fields.Number("repetition_penalty")) {
    sampling.set_repetition_penalty(*v);
  }
  if (const auto v = fields.Integer("penalty_window_tokens", 0, kMostInt)) {
    sampling.set_penalty_window_tokens(static_cast<int32_t>(*v));
  }
  if (const auto v = fields.Integer("top_k", 0, kMostInt)) {
    sampling.set_top_k(static_cast<int32_t>(*v));
  }
  const auto seed = fields.Integer("seed", INT64_MIN, INT64_MAX);
  sampling.set_seed(seed.value_or(static_cast<int64_t>(RandomNumber() >> 11)));
  ReadLogitBias(fields, sampling);
  for (std::string& stop : fields.Texts("stop", kMostStops)) {
    request.mutable_stopping()->add_stop_strings(std::move(stop));
  }
  if (const json* const ids = fields.Any("stop_token_ids")) {
    const bool all = ids->is_array() && ids->size() <= 1024 &&
                     std::all_of(ids->begin(), ids->end(), [](const json& id) {
                       return id.is_number_unsigned() &&
                              id.get<uint64_t>() <= static_cast<uint64_t>(kMostInt);
                     });
    if (!all) return fields.Fault("stop_token_ids", "must be a list of token ids");
    for (const json& id : *ids) {
      request.mutable_stopping()->add_stop_token_ids(id.get<int32_t>());
    }
  }
  if (fields.Boolean("ignore_eos").value_or(false)) {
    request.mutable_stopping()->set_ignore_eos(true);
  }
  fields.Ignore("user");
}

v1::GenerateRequest ChoiceOf(const v1::GenerateRequest& request, int64_t i) {
  v1::GenerateRequest choice = request;
  const auto seed = static_cast<uint64_t>(request.sampling().seed());
  choice.mutable_sampling()->set_seed(
      static_cast<int64_t>(seed + static_cast<uint64_t>(i)));
  return choice;
}

StreamFields ReadStream(JsonFields& fields) {
  StreamFields out{.stream = fields.Boolean("stream").value_or(false)};
  const json* const options = fields.Any("stream_options");
  if (options == nullptr) return out;
  JsonFields inner(*options);
  out.usage = inner.Boolean("include_usage").value_or(false);
  inner.Ignore("include_obfuscation");
  if (const absl::Status status = inner.End(); !status.ok()) fields.Fault(status);
  return out;
}

std::string ReadConversation(JsonFields& fields, const std::string& body,
                             const std::string& field,
                             const std::string& instructions) {
  using Ordered = nlohmann::ordered_json;
  const Ordered given = Ordered::parse(body);
  Ordered conversation = Ordered::object();
  for (const std::string& name :
       {field, std::string("tools"), std::string("chat_template_kwargs")}) {
    fields.Ignore(name);
    const auto value = given.find(name);
    if (value == given.end() || value->is_null()) continue;
    conversation[name == field ? "messages" : name] = *value;
  }
  const auto messages = conversation.find("messages");
  if (messages == conversation.end()) {
    fields.Fault(field, "is missing");
    return "";
  }
  if (messages->is_string()) {
    *messages = Ordered::array({{{"role", "user"}, {"content", *messages}}});
  }
  if (!instructions.empty() && messages->is_array()) {
    messages->insert(messages->begin(),
                     Ordered{{"role", "system"}, {"content", instructions}});
  }
  return conversation.dump();
}

absl::Status InOpenAiTerms(const absl::Status& status, const std::string& field,
                           int before) {
  constexpr std::string_view kConversation = "prompt.conversation";
  constexpr std::string_view kMessages = "messages";
  std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail || !detail->field.starts_with("prompt")) return InOpenAiTerms(status);
  std::string_view path = detail->field;
  path.remove_prefix(std::min(path.size(), kConversation.size() + 1));
  if (path.empty() || path == kMessages) {
    detail->field = field;
  } else if (path.starts_with(kMessages)) {
    path.remove_prefix(kMessages.size() + 1);
    int index = 0;
    const auto end = std::from_chars(path.data(), path.data() + path.size(), index).ptr;
    detail->field = StrCat(field, "[", index - before, std::string(end, path.end()));
  } else {
    detail->field = std::string(path);
  }
  return MakeError(status.code(), std::string(status.message()), *std::move(detail));
}

absl::Status InOpenAiTerms(const absl::Status& status) {
  std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail || detail->field.empty()) return status;
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"stopping.stop_strings", "stop"},
      {"stopping.max_tokens", "max_tokens"},
      {"stopping.", ""},
      {"sampling.", ""},
      {"output.top_candidate_count", "logprobs"},
      {"session.model", "model"},
      {"prompt.text", "prompt"},
      {"prompt.tokens.ids", "prompt"}};
  for (const auto& [ours, theirs] : kNames) {
    if (!detail->field.starts_with(ours)) continue;
    detail->field = StrCat(theirs, detail->field.substr(ours.size()));
    break;
  }
  return MakeError(status.code(), std::string(status.message()), *std::move(detail));
}

std::string FinishReasonOf(const v1::FinishFacts& finish) {
  return finish.finish_reason() == v1::FinishFacts::STOP ? "stop" : "length";
}

json StopReasonOf(const v1::FinishFacts& finish) {
  switch (finish.stop_reason_case()) {
    case v1::FinishFacts::kStopString:
      return finish.stop_string();
    case v1::FinishFacts::kStopTokenId:
      return finish.stop_token_id();
    case v1::FinishFacts::kEosTokenId:
      return finish.eos_token_id();
    case v1::FinishFacts::STOP_REASON_NOT_SET:
      break;
  }
  return nullptr;
}

json UsageJson(const UsageCount& usage) {
  return {{"prompt_tokens", usage.prompt},
          {"completion_tokens", usage.generated},
          {"total_tokens", usage.prompt + usage.generated}};
}

std::string TokenTexts::Bytes(int32_t token) const {
  const auto text = engine_.Detokenize(model_, {token});
  return text.ok() ? text->raw : StrCat("token_id:", token);
}

std::string TokenTexts::Text(int32_t token) const {
  const auto text = engine_.Detokenize(model_, {token});
  return text.ok() ? text->text : StrCat("token_id:", token);
}

int64_t NowSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string ModelName(const std::string& resource) {
  return resource.starts_with(kModels) ? resource.substr(sizeof(kModels) - 1)
                                       : resource;
}

}  // namespace mnemon
