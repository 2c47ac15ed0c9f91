// SPDX-License-Identifier: MIT
// OpenAI's responses: each is a session, "resp_ID" the session "resp-ID". A response
// with a previous one continues a fork of that one's session, so that its history is
// not computed again.
#include <algorithm>
#include <ctime>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/quote.h"
#include "base/resource_id.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "mnemon/v1/sessions.pb.h"
#include "server/gateway/openai_fields.h"
#include "server/requests/random.h"

namespace mnemon {
namespace {

using nlohmann::json;

constexpr int32_t kDefaultOutputTokens = 256;
constexpr char kInput[] = "input";
constexpr std::string_view kResponse = "resp_";
constexpr std::string_view kSession = "sessions/resp-";

std::string SessionOf(std::string_view response) {
  return StrCat(kSession, response.substr(kResponse.size()));
}

absl::Status CheckId(const std::string& id, const char* field) {
  if (id.starts_with(kResponse) &&
      IsResourceId(StrCat("resp-", id.substr(kResponse.size())))) {
    return absl::OkStatus();
  }
  return InvalidField(field,
                      StrCat(Quoted(id), " is not the id of a response: resp_..."));
}

absl::Status NoResponse(const std::string& id, const char* field) {
  return MakeError(absl::StatusCode::kNotFound,
                   StrCat("there is no response ", Quoted(id)),
                   {.reason = "RESPONSE_NOT_FOUND", .field = field});
}

class Response final : public GenerationJob {
 public:
  using GenerationJob::GenerationJob;

 private:
  absl::Status Parse(const json& body) override {
    JsonFields fields(body);
    v1::GenerateRequest request;
    ReadGeneration(fields, request);
    SetStream(ReadStream(fields).has_value());
    const auto limit = fields.Integer("max_output_tokens", 0, INT32_MAX);
    store_ = fields.Boolean("store").value_or(true);
    previous_ = fields.Text("previous_response_id").value_or("");
    if (!previous_.empty()) fields.Fault(CheckId(previous_, "previous_response_id"));
    instructions_ = fields.Text("instructions").value_or("");
    const absl::StatusOr<ModelFacts> model = ModelOf(request);
    const bool ends = model.ok() && !model->generation.end_tokens.empty();
    if (limit || !ends) {
      limit_ = static_cast<int32_t>(limit.value_or(kDefaultOutputTokens));
      request.mutable_stopping()->set_max_tokens(*limit_);
    }
    request.mutable_prompt()->set_conversation(
        ReadConversation(fields, ApiCall::request().body, kInput, instructions_));
    RefuseOthers(fields);
    ReadMetadata(fields);
    const RequestedSampling own =
        model.ok() ? model->generation.sampling : RequestedSampling{};
    const v1::Sampling& asked = request.sampling();
    temperature_ = asked.has_temperature() ? asked.temperature() : own.temperature;
    top_p_ = asked.has_top_p() ? asked.top_p() : own.top_p;
    MNEMON_RETURN_IF_ERROR(fields.End());
    requests().push_back(std::move(request));
    return absl::OkStatus();
  }

  // The model that will answer. One that does not exist is reported later.
  absl::StatusOr<ModelFacts> ModelOf(const v1::GenerateRequest& request) const {
    const Engine& engine = shared().engine;
    if (!request.model().empty() || previous_.empty()) {
      return engine.GetModel(ModelName(request.model()));
    }
    MNEMON_ASSIGN_OR_RETURN(
        const std::string name,
        engine.ModelOfSession(StrCat(
            "resp-", previous_.substr(std::min(previous_.size(), kResponse.size())))));
    return engine.GetModel(name);
  }

  // With OpenAI's limits.
  void ReadMetadata(JsonFields& fields) {
    constexpr size_t kMost = 16, kMostKey = 64, kMostValue = 512;
    const json* const given = fields.Any("metadata");
    if (given == nullptr) return;
    bool fits = given->is_object() && given->size() <= kMost;
    if (fits) {
      for (const auto& [key, value] : given->items()) {
        fits = fits && key.size() <= kMostKey && value.is_string() &&
               value.get_ref<const std::string&>().size() <= kMostValue;
      }
    }
    if (fits) {
      metadata_ = *given;
    } else {
      fields.Fault("metadata", StrCat("must be an object of at most ", kMost,
                                      " strings of at most ", kMostValue,
                                      " bytes, with keys of at most ", kMostKey));
    }
  }

  static void RefuseOthers(JsonFields& fields) {
    const json* const choice = fields.Any("tool_choice");
    if (choice == nullptr || *choice != "auto") fields.Refuse("tool_choice", "none");
    fields.Refuse("text", json{{"format", {{"type", "text"}}}});
    fields.Refuse("background", false);
    fields.Refuse("include", json::array());
    fields.Refuse("truncation", "disabled");
    fields.Refuse("conversation", nullptr);
    for (const char* name : {"parallel_tool_calls", "reasoning", "service_tier",
                             "safety_identifier", "prompt_cache_key"}) {
      fields.Ignore(name);
    }
  }

  void Prepare(std::function<void()> next) override {
    const std::string id = SessionOf(id_).substr(std::string_view("sessions/").size());
    auto done = [this, next = std::move(next)](const absl::Status& status,
                                               const v1::Session& reply) {
      if (!status.ok()) return Fail(InOwnTerms(status));
      made_ = true;
      if (gone()) return Discard();
      SetSession(reply, next);
    };
    if (previous_.empty()) {
      v1::CreateSessionRequest create;
      create.set_session_id(id);
      create.mutable_session()->set_model(requests().front().model());
      return Call(kCreateSession, std::move(create), std::move(done),
                  WhenGone::kFinish);
    }
    v1::ForkSessionRequest fork;
    fork.set_name(SessionOf(previous_));
    fork.set_session_id(id);
    Call(kForkSession, std::move(fork), std::move(done), WhenGone::kFinish);
  }

  void SetSession(const v1::Session& session, const std::function<void()>& next) {
    model_ = ModelName(session.model());
    v1::GenerateRequest& request = requests().front();
    if (!request.model().empty() && request.model() != session.model()) {
      return Abandon(
          MakeError(absl::StatusCode::kInvalidArgument,
                    StrCat("the previous response is of the model ", Quoted(model_)),
                    {.reason = "MODEL_MISMATCH", .field = "model"}));
    }
    request.set_session(session.name());
    next();
  }

  void Abandon(const absl::Status& status) {
    Discard();
    Fail(InOwnTerms(status));
  }

  void Discard() override {
    if (!std::exchange(made_, false)) return;
    v1::DeleteSessionRequest request;
    request.set_name(SessionOf(id_));
    request.set_allow_missing(true);
    Call(
        kDeleteSession, std::move(request), [](const auto&, const auto&) {},
        WhenGone::kFinish);
  }

  std::string Take(size_t, const v1::GenerateResponse& message) override {
    if (message.has_prompt()) prompt_tokens_ += message.prompt().token_count();
    if (message.has_finish()) finish_ = message.finish();
    tokens_.insert(tokens_.end(), message.tokens().begin(), message.tokens().end());
    text_ += message.text();
    if (!stream()) return "";
    std::string events;
    if (message.has_prompt()) events = FirstEvents();
    if (!message.text().empty()) {
      events += OwnEvent(Place("response.output_text.delta", "delta", message.text()));
    }
    return events;
  }

  // The text ends before a stop string, the history after it: the history is cut to the
  // text, so that the next response goes on from there.
  void Conclude(std::function<void()> next) override {
    if (!store_) {
      Discard();
      return next();
    }
    const int64_t beyond = TokensBeyondText();
    if (beyond == 0) return next();
    v1::RewindSessionRequest rewind;
    rewind.set_name(SessionOf(id_));
    rewind.set_token_count(finish_->token_count() - beyond);
    Call(kRewindSession, std::move(rewind),
         [this, next = std::move(next)](const absl::Status& status, const auto&) {
           if (!status.ok()) return Abandon(status);
           next();
         });
  }

  int64_t TokensBeyondText() const {
    if (!finish_->has_stop_string()) return 0;
    const auto all = shared().engine.Detokenize(model_, tokens_);
    if (!all.ok() || !all->raw.starts_with(text_)) return 0;
    size_t left = all->raw.size();
    int64_t beyond = 0;
    for (auto token = tokens_.rbegin(); token != tokens_.rend(); ++token) {
      const size_t bytes = TextOfToken(shared().engine, model_, *token).raw.size();
      if (left < text_.size() + bytes) break;
      left -= bytes;
      ++beyond;
    }
    return beyond;
  }

  // {"type": NAME, KEY: VALUE} with the place of the only part of text.
  json Place(const char* name, const char* key, json value) const {
    return {{"type", name},
            {key, std::move(value)},
            {"item_id", item_id_},
            {"output_index", 0},
            {"content_index", 0}};
  }

  std::string OwnEvent(json data) {
    data["sequence_number"] = sequence_++;
    const std::string name = data["type"];
    return Event(data, name.c_str());
  }

  json Part() const {
    return {{"type", "output_text"},
            {"text", text_},
            {"annotations", json::array()},
            {"logprobs", json::array()}};
  }

  json Item(const char* status, json content) const {
    return {{"id", item_id_},
            {"type", "message"},
            {"role", "assistant"},
            {"status", status},
            {"content", std::move(content)}};
  }

  std::string FirstEvents() {
    const std::string text = std::exchange(text_, "");
    std::string events;
    for (const char* type : {"response.created", "response.in_progress"}) {
      events += OwnEvent({{"type", type}, {"response", Body("in_progress")}});
    }
    events += OwnEvent({{"type", "response.output_item.added"},
                        {"output_index", 0},
                        {"item", Item("in_progress", json::array())}});
    events += OwnEvent(Place("response.content_part.added", "part", Part()));
    text_ = text;
    return events;
  }

  std::string LastEvents() override {
    json text = Place("response.output_text.done", "text", text_);
    text["logprobs"] = json::array();
    const std::string status = StatusText();
    std::string events = OwnEvent(std::move(text));
    events += OwnEvent(Place("response.content_part.done", "part", Part()));
    events += OwnEvent({{"type", "response.output_item.done"},
                        {"output_index", 0},
                        {"item", Item(status.c_str(), json::array({Part()}))}});
    events += OwnEvent({{"type", StrCat("response.", status)}, {"response", Whole()}});
    return events;
  }

  std::string ErrorEvents(const absl::Status& status) override {
    json failed = Body("failed");
    const json error = ErrorJson(status)["error"];
    failed["error"] = {{"code", error["code"]}, {"message", error["message"]}};
    return OwnEvent({{"type", "response.failed"}, {"response", std::move(failed)}});
  }

  std::string StatusText() const {
    return FinishReasonOf(*finish_) == "stop" ? "completed" : "incomplete";
  }

  json Body(const std::string& status) const {
    return {{"id", id_},
            {"object", "response"},
            {"created_at", created_},
            {"status", status},
            {"error", nullptr},
            {"incomplete_details", nullptr},
            {"instructions", instructions_.empty() ? json() : json(instructions_)},
            {"max_output_tokens", limit_ ? json(*limit_) : json()},
            {"model", model_},
            {"output", json::array()},
            {"parallel_tool_calls", false},
            {"previous_response_id", previous_.empty() ? json() : json(previous_)},
            {"store", store_},
            {"temperature", temperature_},
            {"top_p", top_p_},
            {"text", {{"format", {{"type", "text"}}}}},
            {"tool_choice", "none"},
            {"tools", json::array()},
            {"truncation", "disabled"},
            {"metadata", metadata_}};
  }

  json Whole() override {
    const std::string status = StatusText();
    json body = Body(status);
    if (status == "incomplete") {
      body["incomplete_details"] = {{"reason", "max_output_tokens"}};
    }
    body["output"] = json::array({Item(status.c_str(), json::array({Part()}))});
    const int64_t generated = finish_->generated_token_count();
    body["usage"] = {{"input_tokens", prompt_tokens_},
                     {"input_tokens_details", {{"cached_tokens", 0}}},
                     {"output_tokens", generated},
                     {"output_tokens_details", {{"reasoning_tokens", 0}}},
                     {"total_tokens", prompt_tokens_ + generated}};
    return body;
  }

  absl::Status InOwnTerms(const absl::Status& status) const override {
    std::optional<ErrorDetail> detail = GetErrorDetail(status);
    if (!detail) return status;
    if (detail->reason == "SESSION_NOT_FOUND" && !previous_.empty()) {
      return NoResponse(previous_, "previous_response_id");
    }
    if (detail->field != "stopping.max_tokens") {
      return InOpenAiTerms(status, kInput, instructions_.empty() ? 0 : 1);
    }
    detail->field = "max_output_tokens";
    return MakeError(status.code(), std::string(status.message()), *std::move(detail));
  }

  const std::string random_ = RandomId();
  const std::string id_ = StrCat(kResponse, random_);
  const std::string item_id_ = "msg_" + random_;
  const int64_t created_ = std::time(nullptr);
  std::string model_;
  std::string previous_;
  std::string instructions_;
  json metadata_ = json::object();
  std::optional<int32_t> limit_;  // none: to the end of the text or the context
  double temperature_ = 1.0;
  double top_p_ = 1.0;
  bool store_ = true;
  bool made_ = false;  // the session
  int64_t sequence_ = 0;
  int64_t prompt_tokens_ = 0;
  std::string text_;
  std::vector<int32_t> tokens_;
  std::optional<v1::FinishFacts> finish_;
};

class DeleteResponse final : public ApiCall {
 public:
  using ApiCall::ApiCall;

 private:
  void Run() override {
    if (const absl::Status fault = CheckId(id(), "response_id"); !fault.ok()) {
      return Fail(fault);
    }
    v1::DeleteSessionRequest request;
    request.set_name(SessionOf(id()));
    Call(kDeleteSession, std::move(request),
         [this](const absl::Status& status, const auto&) {
           if (absl::IsNotFound(status)) return Fail(NoResponse(id(), "response_id"));
           if (!status.ok()) return Fail(status);
           Reply({{"id", id()}, {"object", "response"}, {"deleted", true}});
         });
  }
};

}  // namespace

std::shared_ptr<ApiCall> MakeResponse(ApiStart start) {
  return std::make_shared<Response>(std::move(start));
}

std::shared_ptr<ApiCall> MakeDeleteResponse(ApiStart start) {
  return std::make_shared<DeleteResponse>(std::move(start));
}

}  // namespace mnemon
