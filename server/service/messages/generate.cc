// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <initializer_list>
#include <iterator>
#include <utility>

#include <google/protobuf/util/time_util.h>

#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/service/messages/messages.h"

namespace mnemon {
namespace {

using google::protobuf::util::TimeUtil;

// UNIMPLEMENTED for the first field that is set, of fields that are not available yet.
absl::Status RefuseSet(
    std::initializer_list<std::pair<std::string_view, bool>> fields) {
  for (const auto& [path, set] : fields) {
    if (set) return FieldNotAvailable(path);
  }
  return absl::OkStatus();
}

std::string_view PromptPath(const v1::Prompt& prompt) {
  switch (prompt.content_case()) {
    case v1::Prompt::kText:
      return "prompt.text";
    case v1::Prompt::kTokens:
      return "prompt.tokens.ids";
    case v1::Prompt::kConversation:
      return "prompt.conversation";
    case v1::Prompt::CONTENT_NOT_SET:
      break;
  }
  return "prompt";
}

// Copies the fields that are set; the engine checks their values.
void ReadSampling(const v1::Sampling& from, RequestedSampling& to) {
  if (from.has_temperature()) to.temperature = from.temperature();
  if (from.has_top_k()) to.top_k = from.top_k();
  if (from.has_top_p()) to.top_p = from.top_p();
  if (from.has_min_p()) to.min_p = from.min_p();
  if (from.has_typical_p()) to.typical_p = from.typical_p();
  if (from.has_repetition_penalty()) to.repetition_penalty = from.repetition_penalty();
  if (from.has_frequency_penalty()) to.frequency_penalty = from.frequency_penalty();
  if (from.has_presence_penalty()) to.presence_penalty = from.presence_penalty();
  if (from.has_penalty_window_tokens()) {
    to.penalty_window_tokens = from.penalty_window_tokens();
  }
  for (const v1::LogitBias& entry : from.logit_bias()) {
    to.logit_bias.push_back({.token = entry.token_id(), .bias = entry.bias()});
  }
}

CandidateChoice ReadCandidates(const v1::OutputOptions& output) {
  return {.most_likely = output.top_candidate_count(),
          .ids = {output.candidate_ids().begin(), output.candidate_ids().end()}};
}

absl::StatusOr<IntrospectionFields> ReadIntrospection(
    const google::protobuf::FieldMask& mask) {
  IntrospectionFields fields;
  for (const std::string& path : mask.paths()) {
    const auto* const known =
        std::ranges::find(kIntrospectionFields, path, &IntrospectionField::name);
    if (known == std::end(kIntrospectionFields)) {
      return InvalidField("output.introspection",
                          StrCat("output.introspection has no path ", Quoted(path),
                                 "; there are ", NamesOf({true, true, true, true})));
    }
    fields.*known->field = true;
  }
  return fields;
}

v1::FinishFacts::FinishReason ToReason(FinishReason reason) {
  switch (reason) {
    case FinishReason::kMaxTokens:
      return v1::FinishFacts::MAX_TOKENS;
    case FinishReason::kStopToken:
    case FinishReason::kStopString:
    case FinishReason::kEndToken:
      return v1::FinishFacts::STOP;
    case FinishReason::kTimeLimit:
      return v1::FinishFacts::TIME_LIMIT;
    case FinishReason::kContextLimit:
      break;
  }
  return v1::FinishFacts::CONTEXT_LIMIT;
}

bool IsBelow(std::string_view message, std::string_view path) {
  return path == message || (path.size() > message.size() &&
                             path.starts_with(message) && path[message.size()] == '.');
}

}  // namespace

absl::StatusOr<SessionSampling> FromMessage(const v1::Sampling& sampling,
                                            std::string_view path) {
  if (sampling.has_constraint()) return FieldNotAvailable(StrCat(path, ".constraint"));
  SessionSampling out;
  ReadSampling(sampling, out.values);
  if (sampling.has_seed()) out.seed = std::bit_cast<uint64_t>(sampling.seed());
  return out;
}

void ToMessage(const SessionSampling& sampling, v1::Sampling& out) {
  const RequestedSampling& from = sampling.values;
  out.set_temperature(from.temperature);
  out.set_top_k(from.top_k);
  out.set_top_p(from.top_p);
  out.set_min_p(from.min_p);
  out.set_typical_p(from.typical_p);
  out.set_repetition_penalty(from.repetition_penalty);
  out.set_frequency_penalty(from.frequency_penalty);
  out.set_presence_penalty(from.presence_penalty);
  out.set_penalty_window_tokens(from.penalty_window_tokens);
  ReserveMore(from.logit_bias.size(), *out.mutable_logit_bias());
  for (const LogitBias& entry : from.logit_bias) {
    v1::LogitBias& bias = *out.add_logit_bias();
    bias.set_token_id(entry.token);
    bias.set_bias(entry.bias);
  }
  if (sampling.seed) out.set_seed(std::bit_cast<int64_t>(*sampling.seed));
}

RequestScope ScopeOf(const v1::GenerateRequest& r) {
  return {.session = r.session(),
          .model = r.model(),
          .paths = {{"prompt", PromptPath(r.prompt())},
                    {"max_tokens", "stopping.max_tokens"},
                    {"stop_token_ids", "stopping.stop_token_ids"},
                    {"stop_strings", "stopping.stop_strings"},
                    {"time_limit", "stopping.time_limit"},
                    {"top_candidate_count", "output.top_candidate_count"},
                    {"candidate_ids", "output.candidate_ids"},
                    {"introspection", "output.introspection"}},
          .sampling = "sampling"};
}

RequestScope ScopeOf(const v1::ScoreRequest::Open& r) {
  return {.session = r.session(),
          .model = r.model(),
          .paths = {{"session", "open.session"},
                    {"model", "open.model"},
                    {"prompt", "part"},
                    {"prompt.conversation", "part.conversation"},
                    {"prompt.unknown_characters", "part.unknown_characters"},
                    {"request_id", "open.request_id"},
                    {"expected_token_count", "open.expected_token_count"},
                    {"top_candidate_count", "open.output.top_candidate_count"},
                    {"candidate_ids", "open.output.candidate_ids"}}};
}

absl::StatusOr<Prompt> FromMessage(const v1::Prompt& prompt) {
  if (prompt.has_tokens()) {
    return std::vector<int32_t>(prompt.tokens().ids().begin(),
                                prompt.tokens().ids().end());
  }
  UnknownCharacters unknown = UnknownCharacters::kAsModel;
  switch (prompt.unknown_characters()) {
    case v1::UNKNOWN_CHARACTERS_UNSPECIFIED:
      break;
    case v1::REFUSE:
      unknown = UnknownCharacters::kRefuse;
      break;
    case v1::SKIP:
      unknown = UnknownCharacters::kSkip;
      break;
    case v1::REPLACE:
      unknown = UnknownCharacters::kReplace;
      break;
    default:
      return InvalidField("prompt.unknown_characters",
                          StrCat("unknown_characters has no value ",
                                 static_cast<int>(prompt.unknown_characters())));
  }
  if (prompt.has_conversation()) {
    return ConversationText{.json = prompt.conversation(), .unknown = unknown};
  }
  if (unknown == UnknownCharacters::kAsModel) return prompt.text();
  return LenientText{.text = prompt.text(), .unknown = unknown};
}

absl::StatusOr<ScoreRequest> FromMessage(const v1::ScoreRequest::Open& r) {
  MNEMON_RETURN_IF_ERROR(
      RefuseSet({{"open.output.prompt_logprobs", r.output().has_prompt_logprobs()},
                 {"open.output.introspection", r.output().has_introspection()}}));
  ScoreRequest request{.candidates = ReadCandidates(r.output()), .commit = r.commit()};
  MNEMON_ASSIGN_OR_RETURN(request.session,
                          ParseOptionalSession(r.session(), "open.session"));
  MNEMON_ASSIGN_OR_RETURN(request.model, ParseOptionalModel(r.model(), "open.model"));
  request.request_id = r.request_id();
  if (r.has_expected_token_count()) request.expected_tokens = r.expected_token_count();
  return request;
}

absl::StatusOr<GenerateRequest> FromMessage(const v1::GenerateRequest& r,
                                            const RequestedSampling& defaults) {
  const v1::Sampling& sampling = r.sampling();
  if (!v1::Priority_IsValid(r.priority())) return NoSuchValue("priority", r.priority());
  MNEMON_RETURN_IF_ERROR(
      RefuseSet({{"priority", r.priority() == v1::BATCH},
                 {"sampling.constraint", sampling.has_constraint()},
                 {"output.prompt_logprobs", r.output().has_prompt_logprobs()}}));
  if (!v1::OnDisconnect_IsValid(r.on_disconnect())) {
    return NoSuchValue("on_disconnect", r.on_disconnect());
  }

  GenerateRequest request;
  if (r.has_resume_after_index()) request.resume_after = r.resume_after_index();
  if (r.has_expected_token_count()) {
    request.expected_position = r.expected_token_count();
  }
  if (r.on_disconnect() == v1::CONTINUE) {
    request.on_disconnect = OnDisconnect::kContinue;
  }
  MNEMON_ASSIGN_OR_RETURN(request.session,
                          ParseOptionalSession(r.session(), "session"));
  MNEMON_ASSIGN_OR_RETURN(request.model, ParseOptionalModel(r.model(), "model"));
  MNEMON_ASSIGN_OR_RETURN(request.prompt, FromMessage(r.prompt()));
  request.request_id = r.request_id();
  request.sampling = defaults;
  ReadSampling(sampling, request.sampling);
  if (sampling.has_seed()) request.seed = std::bit_cast<uint64_t>(sampling.seed());
  request.session_sampling = !r.has_sampling();
  const v1::Stopping& stopping = r.stopping();
  if (stopping.has_max_tokens()) request.max_tokens = stopping.max_tokens();
  request.stop_tokens.assign(stopping.stop_token_ids().begin(),
                             stopping.stop_token_ids().end());
  request.ignore_end = stopping.ignore_eos();
  request.stop_strings.assign(stopping.stop_strings().begin(),
                              stopping.stop_strings().end());
  if (stopping.has_time_limit()) {
    MNEMON_ASSIGN_OR_RETURN(request.time_limit,
                            FromDuration(stopping.time_limit(), "stopping.time_limit"));
  }
  request.logprobs.candidates = ReadCandidates(r.output());
  request.logprobs.wanted = r.output().logprobs() ||
                            request.logprobs.candidates.most_likely != 0 ||
                            !request.logprobs.candidates.ids.empty();
  MNEMON_ASSIGN_OR_RETURN(request.introspection,
                          ReadIntrospection(r.output().introspection()));
  return request;
}

v1::GenerateRequest TurnOf(const v1::ConverseRequest::Open& open,
                           const v1::ConverseRequest::Turn& turn) {
  v1::GenerateRequest request;
  request.set_session(open.session());
  request.set_model(open.model());
  request.set_priority(open.priority());
  if (turn.has_prompt()) *request.mutable_prompt() = turn.prompt();
  if (turn.has_sampling()) {
    *request.mutable_sampling() = turn.sampling();
  } else if (open.has_sampling()) {
    *request.mutable_sampling() = open.sampling();
  }
  *request.mutable_stopping() = turn.has_stopping() ? turn.stopping() : open.stopping();
  *request.mutable_output() = open.output();
  request.set_request_id(turn.request_id());
  if (turn.has_resume_after_index()) {
    request.set_resume_after_index(turn.resume_after_index());
  }
  if (turn.has_expected_token_count()) {
    request.set_expected_token_count(turn.expected_token_count());
  }
  request.set_on_disconnect(turn.on_disconnect());
  return request;
}

absl::Status ErrorOfTurn(const absl::Status& error,
                         const v1::ConverseRequest::Open& open,
                         const v1::ConverseRequest::Turn& turn) {
  std::optional<ErrorDetail> detail = GetErrorDetail(error);
  if (!detail || detail->field.empty()) return error;
  const std::string path = RequestPath(detail->field, ScopeOf(TurnOf(open, turn)));
  bool of_open = path == "session" || path == "model" || path == "priority" ||
                 IsBelow("output", path);
  of_open = of_open || (IsBelow("sampling", path) && !turn.has_sampling());
  of_open = of_open || (IsBelow("stopping", path) && !turn.has_stopping());
  detail->field = StrCat(of_open ? "open." : "turn.", path);
  return MakeError(error.code(), std::string(error.message()), *std::move(detail));
}

void ToMessage(const TokenLogprobs& logprobs, int64_t index, v1::TokenLogprobs& out) {
  out.set_index(index);
  out.set_token_id(logprobs.token);
  out.set_logprob(logprobs.logprob);
  ReserveMore(logprobs.candidates.size(), *out.mutable_candidates());
  for (const TokenCandidate& candidate : logprobs.candidates) {
    v1::TokenLogprobs::Candidate& to = *out.add_candidates();
    to.set_token_id(candidate.token);
    to.set_logprob(candidate.logprob);
  }
}

void ToMessage(const Introspection& introspection, int64_t index,
               v1::Introspection& out) {
  const auto add = [](const std::vector<float>& from,
                      google::protobuf::RepeatedField<float>& to) {
    to.Add(from.begin(), from.end());
  };
  out.set_index(index);
  add(introspection.hidden_state, *out.mutable_hidden_state());
  add(introspection.update_norms, *out.mutable_update_norms());
  add(introspection.state_norms, *out.mutable_state_norms());
  const MemoryReads& reads = introspection.memory_reads;
  ReserveMore(static_cast<size_t>(reads.layers * reads.heads),
              *out.mutable_memory_reads());
  const float* weights = reads.weights.data();
  for (int64_t i = 0; i < reads.layers * reads.heads; ++i) {
    v1::MemoryRead& to = *out.add_memory_reads();
    to.set_layer(static_cast<int32_t>(i / reads.heads));
    to.set_head(static_cast<int32_t>(i % reads.heads));
    to.set_first_index(reads.first_index);
    to.mutable_weights()->Add(weights, weights + reads.positions);
    weights += reads.positions;
  }
}

void ToMessage(const TokenChunk& chunk, const std::string& session,
               const std::string& model, v1::GenerateResponse& out) {
  out.Clear();
  if (chunk.start) {
    v1::PromptFacts& prompt = *out.mutable_prompt();
    prompt.set_session(session);
    prompt.set_model(model);
    prompt.set_first_index(chunk.start->first_index);
    prompt.set_token_count(chunk.start->prompt_tokens);
    prompt.set_seed(std::bit_cast<int64_t>(chunk.start->seed));
    *prompt.mutable_queue_duration() =
        TimeUtil::NanosecondsToDuration(chunk.start->queue_time.count());
  }
  if (chunk.progress) {
    v1::Progress& progress = *out.mutable_progress();
    progress.set_computed_token_count(chunk.progress->computed);
    progress.set_token_count(chunk.progress->of);
  }
  out.set_first_index(chunk.first_index);
  out.mutable_tokens()->Add(chunk.tokens.begin(), chunk.tokens.end());
  out.set_text(chunk.text);
  ReserveMore(chunk.logprobs.size(), *out.mutable_logprobs());
  for (size_t i = 0; i < chunk.logprobs.size(); ++i) {
    ToMessage(chunk.logprobs[i], chunk.first_index + static_cast<int64_t>(i),
              *out.add_logprobs());
  }
  ReserveMore(chunk.introspections.size(), *out.mutable_introspection());
  for (size_t i = 0; i < chunk.introspections.size(); ++i) {
    ToMessage(chunk.introspections[i], chunk.first_index + static_cast<int64_t>(i),
              *out.add_introspection());
  }
  if (chunk.finish) {
    v1::FinishFacts& finish = *out.mutable_finish();
    finish.set_finish_reason(ToReason(chunk.finish->reason));
    if (chunk.finish->reason == FinishReason::kEndToken) {
      finish.set_eos_token_id(*chunk.finish->stop_token);
    } else if (chunk.finish->stop_token) {
      finish.set_stop_token_id(*chunk.finish->stop_token);
    }
    if (chunk.finish->stop_string) finish.set_stop_string(*chunk.finish->stop_string);
    finish.set_generated_token_count(chunk.finish->generated_tokens);
    finish.set_token_count(chunk.first_index +
                           static_cast<int64_t>(chunk.tokens.size()));
    *finish.mutable_prompt_duration() =
        TimeUtil::NanosecondsToDuration(chunk.finish->prompt_time.count());
    *finish.mutable_generation_duration() =
        TimeUtil::NanosecondsToDuration(chunk.finish->generation_time.count());
  }
}

}  // namespace mnemon
