// SPDX-License-Identifier: MIT
#include <bit>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/rpc/messages.h"
#include "server/rpc/resource_name.h"

namespace mnemon {
namespace {

// A field that is not available yet, and whether the request sets it.
struct Later {
  std::string_view path;
  bool set;
};

template <size_t N>
absl::Status RefuseSet(const Later (&fields)[N]) {
  for (const Later& field : fields) {
    if (field.set) return FieldNotAvailable(field.path);
  }
  return absl::OkStatus();
}

absl::Status RefuseLaterFields(const v1::GenerateRequest& r) {
  const v1::Sampling& sampling = r.sampling();
  const v1::Stopping& stopping = r.stopping();
  const v1::OutputOptions& output = r.output();
  return RefuseSet({
      {"request_id", !r.request_id().empty()},
      {"resume_after_index", r.has_resume_after_index()},
      {"priority", r.priority() == v1::BATCH},
      {"sampling.min_p", sampling.has_min_p()},
      {"sampling.typical_p", sampling.has_typical_p()},
      {"sampling.repetition_penalty", sampling.has_repetition_penalty()},
      {"sampling.frequency_penalty", sampling.has_frequency_penalty()},
      {"sampling.presence_penalty", sampling.has_presence_penalty()},
      {"sampling.penalty_window_tokens", sampling.has_penalty_window_tokens()},
      {"sampling.logit_bias", sampling.logit_bias_size() > 0},
      {"sampling.constraint", sampling.has_constraint()},
      {"stopping.stop_strings", stopping.stop_strings_size() > 0},
      {"stopping.ignore_eos", stopping.has_ignore_eos()},
      {"stopping.time_limit", stopping.has_time_limit()},
      {"output.logprobs", output.has_logprobs()},
      {"output.top_candidate_count", output.has_top_candidate_count()},
      {"output.candidate_ids", output.candidate_ids_size() > 0},
      {"output.prompt_logprobs", output.has_prompt_logprobs()},
      {"output.introspection", output.has_introspection()},
  });
}

Prompt FromPrompt(const v1::Prompt& prompt) {
  if (!prompt.has_tokens()) return prompt.text();
  return std::vector<int32_t>(prompt.tokens().ids().begin(),
                              prompt.tokens().ids().end());
}

std::string_view PromptPath(const v1::Prompt& prompt) {
  switch (prompt.content_case()) {
    case v1::Prompt::kText:
      return "prompt.text";
    case v1::Prompt::kTokens:
      return "prompt.tokens.ids";
    case v1::Prompt::CONTENT_NOT_SET:
      break;
  }
  return "prompt";
}

v1::FinishFacts::FinishReason ToReason(FinishReason reason) {
  switch (reason) {
    case FinishReason::kMaxTokens:
      return v1::FinishFacts::MAX_TOKENS;
    case FinishReason::kStopToken:
    case FinishReason::kStopString:
      return v1::FinishFacts::STOP;
    case FinishReason::kTimeLimit:
      return v1::FinishFacts::TIME_LIMIT;
    case FinishReason::kContextLimit:
      break;
  }
  return v1::FinishFacts::CONTEXT_LIMIT;
}

}  // namespace

RequestScope ScopeOf(const v1::GenerateRequest& r) {
  return {.session = r.session(),
          .model = r.model(),
          .paths = {{"prompt", PromptPath(r.prompt())},
                    {"temperature", "sampling.temperature"},
                    {"top_k", "sampling.top_k"},
                    {"top_p", "sampling.top_p"},
                    {"max_tokens", "stopping.max_tokens"},
                    {"stop_token_ids", "stopping.stop_token_ids"}}};
}

absl::StatusOr<GenerateRequest> FromMessage(const v1::GenerateRequest& r) {
  if (!v1::Priority_IsValid(r.priority())) {
    return InvalidField(
        "priority", StrCat("priority has no value ", static_cast<int>(r.priority())));
  }
  MNEMON_RETURN_IF_ERROR(RefuseLaterFields(r));

  GenerateRequest request;
  MNEMON_ASSIGN_OR_RETURN(request.session,
                          ParseOptionalSession(r.session(), "session"));
  MNEMON_ASSIGN_OR_RETURN(request.model, ParseOptionalModel(r.model(), "model"));
  request.prompt = FromPrompt(r.prompt());
  const v1::Sampling& sampling = r.sampling();
  if (sampling.has_temperature()) request.sampling.temperature = sampling.temperature();
  if (sampling.has_top_k()) request.sampling.top_k = sampling.top_k();
  if (sampling.has_top_p()) request.sampling.top_p = sampling.top_p();
  if (sampling.has_seed()) request.seed = std::bit_cast<uint64_t>(sampling.seed());
  const v1::Stopping& stopping = r.stopping();
  if (stopping.has_max_tokens()) request.max_tokens = stopping.max_tokens();
  request.stop_tokens.assign(stopping.stop_token_ids().begin(),
                             stopping.stop_token_ids().end());
  return request;
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
  }
  out.set_first_index(chunk.first_index);
  out.mutable_tokens()->Add(chunk.tokens.begin(), chunk.tokens.end());
  out.set_text(chunk.text);
  if (chunk.finish) {
    v1::FinishFacts& finish = *out.mutable_finish();
    finish.set_finish_reason(ToReason(chunk.finish->reason));
    if (chunk.finish->stop_token) finish.set_stop_token_id(*chunk.finish->stop_token);
    finish.set_generated_token_count(chunk.finish->generated_tokens);
  }
}

}  // namespace mnemon
