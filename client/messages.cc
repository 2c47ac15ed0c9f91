// SPDX-License-Identifier: MIT
#include "client/messages.h"

#include <utility>

#include <algorithm>
#include <bit>

#include "base/status_macros.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"

namespace mnemon::client {
namespace {

// Limits of one message of a Score call.
constexpr size_t kPartTokens = 16384;
constexpr size_t kPartBytes = 65536;
// Longer times from an untrusted server are ignored.
constexpr int64_t kMaxQueueSeconds = 24 * 3600;

std::string Resource(std::string_view prefix, const std::string& id) {
  if (id.empty() || id.compare(0, prefix.size(), prefix) == 0) return id;
  return StrCat(prefix, id);
}
void SetOutput(const LogprobOptions& from, v1::OutputOptions& to) {
  if (!from.wanted) return;
  to.set_logprobs(true);
  to.set_top_candidate_count(from.most_likely);
  to.mutable_candidate_ids()->Add(from.ids.begin(), from.ids.end());
}

void SetStopping(const StoppingOptions& options, v1::Stopping& stopping) {
  if (options.max_tokens) stopping.set_max_tokens(*options.max_tokens);
  stopping.mutable_stop_token_ids()->Add(options.stop_token_ids.begin(),
                                         options.stop_token_ids.end());
  for (const std::string& text : options.stop_strings) stopping.add_stop_strings(text);
  if (options.ignore_eos) stopping.set_ignore_eos(true);
  if (options.time_limit) {
    SetDuration(*options.time_limit, *stopping.mutable_time_limit());
  }
}

absl::StatusOr<FloatArray> ReadArray(const v1::FloatArray& array, std::string_view name,
                                     int rank) {
  // Compared without a product that could overflow.
  bool fits = array.shape_size() == rank;
  int64_t left = array.values_size();
  for (const int64_t size : array.shape()) {
    fits = fits && size > 0 && left % size == 0;
    if (fits) left /= size;
  }
  if (!fits || left != 1) {
    return absl::DataLossError(StrCat("the server sent ", array.values_size(),
                                      " values of ", name, " with the shape [",
                                      StrJoin(array.shape(), ", "), "]"));
  }
  return FloatArray{.shape = {array.shape().begin(), array.shape().end()},
                    .values = {array.values().begin(), array.values().end()}};
}

std::string ConversationJson(const std::vector<Message>& messages) {
  auto list = nlohmann::ordered_json::array();
  for (const Message& message : messages) {
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  // Invalid UTF-8 becomes U+FFFD.
  return nlohmann::ordered_json{{"messages", std::move(list)}}.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void SetUnknown(UnknownCharacters unknown, v1::Prompt& prompt) {
  constexpr v1::UnknownCharacters kAll[] = {v1::UNKNOWN_CHARACTERS_UNSPECIFIED,
                                            v1::REFUSE, v1::SKIP, v1::REPLACE};
  if (unknown != UnknownCharacters::kAsModel) {
    prompt.set_unknown_characters(kAll[static_cast<int>(unknown)]);
  }
}

}  // namespace

std::string SessionResource(const std::string& id) { return Resource("sessions/", id); }
std::string ModelResource(const std::string& name) { return Resource("models/", name); }

std::string LastPart(const std::string& resource) {
  return resource.substr(resource.find('/') + 1);
}

void SetDuration(std::chrono::milliseconds time, google::protobuf::Duration& out) {
  out.set_seconds(time.count() / 1000);
  out.set_nanos(static_cast<int32_t>(time.count() % 1000 * 1'000'000));
}

void SetSampling(const SamplingOptions& options, v1::Sampling& sampling) {
  if (options.temperature) sampling.set_temperature(*options.temperature);
  if (options.top_k) sampling.set_top_k(*options.top_k);
  if (options.top_p) sampling.set_top_p(*options.top_p);
  if (options.min_p) sampling.set_min_p(*options.min_p);
  if (options.typical_p) sampling.set_typical_p(*options.typical_p);
  if (options.repetition_penalty) {
    sampling.set_repetition_penalty(*options.repetition_penalty);
  }
  if (options.frequency_penalty) {
    sampling.set_frequency_penalty(*options.frequency_penalty);
  }
  if (options.presence_penalty) {
    sampling.set_presence_penalty(*options.presence_penalty);
  }
  if (options.penalty_window_tokens) {
    sampling.set_penalty_window_tokens(*options.penalty_window_tokens);
  }
  for (const TokenBias& entry : options.logit_bias) {
    v1::LogitBias& out = *sampling.add_logit_bias();
    out.set_token_id(entry.token);
    out.set_bias(entry.bias);
  }
  if (options.seed) sampling.set_seed(std::bit_cast<int64_t>(*options.seed));
}

v1::GenerateRequest ToMessage(const GenerateOptions& options) {
  v1::GenerateRequest request;
  request.set_session(SessionResource(options.session));
  request.set_model(ModelResource(options.model));
  if (!options.tokens.empty()) {
    request.mutable_prompt()->mutable_tokens()->mutable_ids()->Add(
        options.tokens.begin(), options.tokens.end());
  } else if (!options.messages.empty()) {
    request.mutable_prompt()->set_conversation(ConversationJson(options.messages));
  } else if (!options.text.empty()) {
    request.mutable_prompt()->set_text(options.text);
  }
  if (request.has_prompt()) {
    SetUnknown(options.unknown_characters, *request.mutable_prompt());
  }
  // Without any, the session's own apply.
  v1::Sampling sampling;
  SetSampling(options.sampling, sampling);
  if (sampling.ByteSizeLong() > 0) *request.mutable_sampling() = std::move(sampling);
  SetStopping(options.stopping, *request.mutable_stopping());
  SetOutput(options.logprobs, *request.mutable_output());
  request.set_request_id(options.request_id);
  if (options.resume.on_disconnect == OnDisconnect::kContinue) {
    request.set_on_disconnect(v1::CONTINUE);
  }
  if (options.resume.after) request.set_resume_after_index(*options.resume.after);
  if (options.expected_tokens) {
    request.set_expected_token_count(*options.expected_tokens);
  }
  return request;
}

void ForEachScoreMessage(const ScoreOptions& options,
                         const std::function<bool(const v1::ScoreRequest&)>& send) {
  v1::ScoreRequest message;
  v1::ScoreRequest::Open& open = *message.mutable_open();
  open.set_session(SessionResource(options.session));
  open.set_model(ModelResource(options.model));
  open.set_commit(options.commit);
  open.mutable_output()->set_top_candidate_count(options.most_likely);
  open.mutable_output()->mutable_candidate_ids()->Add(options.ids.begin(),
                                                      options.ids.end());
  if (!send(message)) return;
  for (size_t at = 0; at < options.tokens.size();) {
    const size_t count = std::min(options.tokens.size() - at, kPartTokens);
    const auto begin = options.tokens.begin() + static_cast<ptrdiff_t>(at);
    message.mutable_part()->mutable_tokens()->mutable_ids()->Assign(
        begin, begin + static_cast<ptrdiff_t>(count));
    if (!send(message)) return;
    at += count;
  }
  const std::string& text = options.text;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.size(), at + kPartBytes);
    // Bytes 10xxxxxx continue a character, at most three of them.
    for (int i = 0; i < 3 && end < text.size() && (text[end] & 0xc0) == 0x80; ++i)
      --end;
    message.mutable_part()->set_text(text.substr(at, end - at));
    SetUnknown(options.unknown_characters, *message.mutable_part());
    if (!send(message)) return;
    at = end;
  }
}

v1::DrainRequest DrainWithin(std::optional<std::chrono::milliseconds> grace) {
  v1::DrainRequest request;
  if (grace) SetDuration(*grace, *request.mutable_grace());
  return request;
}

v1::PredictRequest ToMessage(const PredictOptions& options) {
  using R = v1::PredictRequest;
  constexpr R::Mask kMasks[] = {R::MASK_UNSPECIFIED, R::NONE, R::CAUSAL, R::EXPLICIT};
  constexpr R::Maps kMaps[] = {R::NO_MAPS, R::USED, R::NOTEBOOK};
  R request;
  request.set_model(ModelResource(options.model));
  for (const std::vector<int32_t>& ids : options.sequences) {
    request.add_sequences()->mutable_ids()->Add(ids.begin(), ids.end());
  }
  request.set_mask(kMasks[static_cast<int>(options.mask)]);
  request.set_explicit_mask(options.explicit_mask.data(), options.explicit_mask.size());
  request.set_maps(kMaps[static_cast<int>(options.maps)]);
  return request;
}

absl::StatusOr<PredictResult> FromMessage(const v1::PredictResponse& message) {
  PredictResult result;
  MNEMON_ASSIGN_OR_RETURN(result.logits, ReadArray(message.logits(), "logits", 3));
  for (const v1::FloatArray& map : message.maps()) {
    MNEMON_ASSIGN_OR_RETURN(result.maps.emplace_back(), ReadArray(map, "map", 4));
  }
  return result;
}

ScoreResult FromMessage(const v1::ScoreResponse::Summary& message) {
  return {.tokens = message.token_count(), .logprob_sum = message.logprob_sum()};
}

ServerLoad FromMessage(const v1::Load& message) {
  return {.running_calls = message.running_call_count(),
          .queued_calls = message.queued_call_count(),
          .queue_capacity = message.queue_capacity(),
          .sessions = message.session_count(),
          .session_capacity = message.session_capacity(),
          .state_size_bytes = message.state_size_bytes(),
          .state_capacity_bytes = message.state_capacity_bytes(),
          .queue_time = std::chrono::seconds(message.queue_duration().seconds()) +
                        std::chrono::nanoseconds(message.queue_duration().nanos()),
          .computed_tokens = message.computed_token_count(),
          .generated_tokens = message.generated_token_count(),
          .draining = message.draining()};
}

GenerateChunk FromMessage(const v1::GenerateResponse& message) {
  GenerateChunk chunk{.text = message.text(),
                      .tokens = {message.tokens().begin(), message.tokens().end()},
                      .first_index = message.first_index()};
  for (const v1::TokenLogprobs& one : message.logprobs()) {
    chunk.logprobs.push_back(FromMessage(one));
  }
  return chunk;
}

TokenLogprobs FromMessage(const v1::TokenLogprobs& message) {
  TokenLogprobs result{.index = message.index(),
                       .token = message.token_id(),
                       .logprob = message.logprob()};
  for (const v1::TokenLogprobs::Candidate& one : message.candidates()) {
    result.candidates.push_back({.token = one.token_id(), .logprob = one.logprob()});
  }
  return result;
}

bool TakeFacts(const v1::GenerateResponse& message, GenerateResult& result) {
  if (message.has_prompt()) {
    result.seed = std::bit_cast<uint64_t>(message.prompt().seed());
    result.resumed_tokens = message.prompt().first_index();
    result.prompt_tokens = message.prompt().token_count();
    const google::protobuf::Duration& queue = message.prompt().queue_duration();
    if (queue.seconds() >= 0 && queue.seconds() < kMaxQueueSeconds) {
      result.queue_time = std::chrono::seconds(queue.seconds()) +
                          std::chrono::nanoseconds(queue.nanos());
    }
    result.model = LastPart(message.prompt().model());
  }
  if (!message.has_finish()) return false;
  result.finish_reason =
      v1::FinishFacts::FinishReason_Name(message.finish().finish_reason());
  result.stop_string = message.finish().stop_string();
  result.generated_tokens = message.finish().generated_token_count();
  result.history_tokens = message.finish().token_count();
  return true;
}

}  // namespace mnemon::client
