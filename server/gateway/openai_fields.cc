// SPDX-License-Identifier: MIT
#include "server/gateway/openai_fields.h"

#include <algorithm>
#include <charconv>
#include <ctime>
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

// The string or the token id that ended the generation; null: none did.
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

std::optional<bool> ReadStream(JsonFields& fields) {
  const bool stream = fields.Boolean("stream").value_or(false);
  bool usage = false;
  if (const json* const options = fields.Any("stream_options")) {
    JsonFields inner(*options);
    usage = inner.Boolean("include_usage").value_or(false);
    inner.Ignore("include_obfuscation");
    fields.Fault(inner.End());
  }
  return stream ? std::optional(usage) : std::nullopt;
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
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"stopping.stop_strings", "stop"},
      {"stopping.max_tokens", "max_tokens"},
      {"stopping.", ""},
      {"sampling.", ""},
      {"output.top_candidate_count", "logprobs"},
      {"session.model", "model"},
      {"prompt.text", "prompt"},
      {"prompt.tokens.ids", "prompt"}};
  std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail || detail->field.empty()) return status;
  if (!field.empty() && detail->field.starts_with("prompt")) {
    std::string_view path = detail->field;
    path.remove_prefix(std::min(path.size(), kConversation.size() + 1));
    if (path.empty() || path == kMessages) {
      detail->field = field;
    } else if (path.starts_with(kMessages)) {
      path.remove_prefix(kMessages.size() + 1);
      int index = 0;
      const char* const end =
          std::from_chars(path.data(), path.data() + path.size(), index).ptr;
      detail->field = StrCat(field, "[", index - before, std::string(end, path.end()));
    } else {
      detail->field = std::string(path);
    }
  } else {
    for (const auto& [ours, theirs] : kNames) {
      if (!detail->field.starts_with(ours)) continue;
      detail->field = StrCat(theirs, detail->field.substr(ours.size()));
      break;
    }
  }
  return MakeError(status.code(), std::string(status.message()), *std::move(detail));
}

std::string FinishReasonOf(const v1::FinishFacts& finish) {
  return finish.finish_reason() == v1::FinishFacts::STOP ? "stop" : "length";
}

DetokenizedText TextOfToken(const Engine& engine, const std::string& model,
                            int32_t token) {
  auto text = engine.Detokenize(model, {token});
  if (text.ok()) return *std::move(text);
  const std::string id = StrCat("token_id:", token);
  return {.raw = id, .text = id};
}

std::string ModelName(const std::string& resource) {
  return resource.starts_with(kModels) ? resource.substr(sizeof(kModels) - 1)
                                       : resource;
}

ChoicesJob::ChoicesJob(ApiStart start, const char* id_prefix, const char* object,
                       const char* chunk)
    : GenerationJob(std::move(start)),
      id_(id_prefix + RandomId()),
      object_(object),
      chunk_(chunk),
      created_(std::time(nullptr)) {}

void ChoicesJob::ReadChoices(JsonFields& fields) {
  const std::optional<bool> stream = ReadStream(fields);
  SetStream(stream.has_value());
  stream_usage_ = stream.value_or(false);
  copies_ = fields.Integer("n", 1, kMost).value_or(1);
}

void ChoicesJob::AddChoices(v1::GenerateRequest request) {
  const auto seed = static_cast<uint64_t>(request.sampling().seed());
  for (int64_t i = 0; i < copies_; ++i) {
    request.mutable_sampling()->set_seed(
        static_cast<int64_t>(seed + static_cast<uint64_t>(i)));
    requests().push_back(request);
  }
  ends_.resize(requests().size());
}

bool ChoicesJob::Count(size_t index, const v1::GenerateResponse& message) {
  if (message.has_prompt()) prompt_tokens_ += message.prompt().token_count();
  if (!message.has_finish()) return false;
  generated_tokens_ += message.finish().generated_token_count();
  ends_[index] = message.finish();
  return true;
}

void ChoicesJob::AddEnd(size_t index, bool ended, json& choice) const {
  choice["index"] = index;
  choice["finish_reason"] = nullptr;
  if (!ended) return;
  choice["finish_reason"] = FinishReasonOf(ends_[index]);
  choice["stop_reason"] = StopReasonOf(ends_[index]);
}

json ChoicesJob::Body(const char* type, json choices) const {
  return {{"id", id_},
          {"object", type},
          {"created", created_},
          {"model", model_},
          {"choices", std::move(choices)}};
}

json ChoicesJob::Usage() const {
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", generated_tokens_},
          {"total_tokens", prompt_tokens_ + generated_tokens_}};
}

std::string ChoicesJob::ChoiceEvent(size_t index, json choice, bool ended) const {
  AddEnd(index, ended, choice);
  return Event(Body(chunk_, json::array({std::move(choice)})));
}

std::string ChoicesJob::LastEvents() {
  std::string events;
  if (stream_usage_) {
    json body = Body(chunk_, json::array());
    body["usage"] = Usage();
    events = Event(body);
  }
  return events + "data: [DONE]\n\n";
}

json ChoicesJob::Whole() {
  json choices = json::array();
  for (size_t i = 0; i < ends_.size(); ++i) {
    AddEnd(i, /*ended=*/true, choices.emplace_back(Choice(i)));
  }
  json body = Body(object_, std::move(choices));
  body["usage"] = Usage();
  return body;
}

}  // namespace mnemon
