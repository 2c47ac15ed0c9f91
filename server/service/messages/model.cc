// SPDX-License-Identifier: MIT
// Conversions for calls on models: facts, load, predictions.
#include <algorithm>
#include <chrono>
#include <span>

#include <google/protobuf/util/time_util.h>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/service/messages/messages.h"

namespace mnemon {
namespace {

absl::StatusOr<PredictMask> ReadMask(v1::PredictRequest::Mask mask) {
  switch (mask) {
    case v1::PredictRequest::MASK_UNSPECIFIED:
      return PredictMask::kConfig;
    case v1::PredictRequest::NONE:
      return PredictMask::kNone;
    case v1::PredictRequest::CAUSAL:
      return PredictMask::kCausal;
    case v1::PredictRequest::EXPLICIT:
      return PredictMask::kExplicit;
    default:
      return NoSuchValue("mask", mask);
  }
}

absl::StatusOr<AttentionMaps> ReadMaps(v1::PredictRequest::Maps maps) {
  switch (maps) {
    case v1::PredictRequest::MAPS_UNSPECIFIED:
    case v1::PredictRequest::NO_MAPS:
      return AttentionMaps::kNone;
    case v1::PredictRequest::USED:
      return AttentionMaps::kUsed;
    case v1::PredictRequest::NOTEBOOK:
      return AttentionMaps::kNotebook;
    default:
      return NoSuchValue("maps", maps);
  }
}

void SetArray(std::span<const float> values, const std::vector<int64_t>& shape,
              v1::FloatArray& out) {
  out.mutable_shape()->Add(shape.begin(), shape.end());
  out.mutable_values()->Add(values.begin(), values.end());
}

}  // namespace

RequestScope ScopeOf(const v1::PredictRequest& r) {
  return {.model = r.model(), .paths = {{"tokens", "sequences"}}};
}

absl::StatusOr<PredictRequest> FromMessage(const v1::PredictRequest& r) {
  PredictRequest request;
  MNEMON_ASSIGN_OR_RETURN(request.model, ParseOptionalModel(r.model(), "model"));
  MNEMON_ASSIGN_OR_RETURN(request.mask, ReadMask(r.mask()));
  MNEMON_ASSIGN_OR_RETURN(request.maps, ReadMaps(r.maps()));
  request.batch = r.sequences_size();
  if (request.batch == 0) return InvalidField("sequences", "there is no sequence");
  const int time = r.sequences(0).ids_size();
  for (int i = 0; i < r.sequences_size(); ++i) {
    const auto& ids = r.sequences(i).ids();
    if (ids.size() != time || time == 0) {
      return InvalidField(StrCat("sequences[", i, "]"),
                          StrCat("all sequences need one length of at least 1, got ",
                                 time, " and ", ids.size()));
    }
    request.tokens.insert(request.tokens.end(), ids.begin(), ids.end());
  }
  request.explicit_mask.assign(r.explicit_mask().begin(), r.explicit_mask().end());
  return request;
}

void ToMessage(const Predictor::Output& output, const PredictShape& shape,
               v1::PredictResponse& out) {
  SetArray(output.logits, {shape.batch, shape.time, shape.vocab},
           *out.mutable_logits());
  const int64_t pairs = shape.batch * shape.time * shape.time;
  ReserveMore(output.maps.size(), *out.mutable_maps());
  for (const UnsetFloats& map : output.maps) {
    const int64_t heads = static_cast<int64_t>(map.size()) / pairs;
    SetArray(map, {shape.batch, heads, shape.time, shape.time}, *out.add_maps());
  }
}

void ToMessage(const EngineStats& stats, v1::Load& out) {
  int64_t queue_capacity = 0, session_capacity = 0, state_capacity_bytes = 0;
  std::chrono::duration<double> wait{};
  for (const ModelStats& model : stats.models) {
    queue_capacity += model.max_waiting;
    session_capacity += model.session_capacity;
    state_capacity_bytes += model.state_capacity_bytes;
    wait = std::max(wait, model.wait);
  }
  out.set_running_call_count(stats.running);
  out.set_queued_call_count(stats.queued);
  out.set_queue_capacity(queue_capacity);
  out.set_session_count(stats.sessions);
  out.set_session_capacity(session_capacity);
  out.set_state_size_bytes(stats.state_bytes);
  out.set_state_capacity_bytes(state_capacity_bytes);
  // An estimate, of which a year is as much as for ever.
  const std::chrono::duration<double> most = std::chrono::hours(24 * 365);
  *out.mutable_queue_duration() =
      google::protobuf::util::TimeUtil::NanosecondsToDuration(
          std::chrono::duration_cast<std::chrono::nanoseconds>(std::min(wait, most))
              .count());
  out.set_computed_token_count(stats.tokens_computed);
  out.set_generated_token_count(stats.tokens_generated);
  out.set_draining(stats.draining);
}

void ToMessage(const ModelFacts& facts, v1::Model& out) {
  out.set_name(ModelResource(facts.name));
  out.set_model_id(facts.model_id);
  out.set_numerics_id(facts.numerics_id);
  out.set_architecture(facts.architecture);
  out.set_config_json(facts.config_json);
  out.set_vocab_size(facts.vocab);
  if (facts.context_limit) out.set_context_limit(*facts.context_limit);
  out.set_has_tokenizer(facts.has_tokenizer);
  out.set_has_chat_template(facts.has_chat_template());
  out.set_parameter_count(facts.parameters);
  out.set_session_state_size_bytes(facts.state_bytes_per_session);
  // The first of them where there are several.
  if (!facts.generation.end_tokens.empty()) {
    out.set_eos_token_id(facts.generation.end_tokens.front());
  }
  out.set_precision(facts.precision);
  out.set_kernel_target(facts.kernels);
  out.set_generates(facts.generates);
  for (const IntrospectionField& one : kIntrospectionFields) {
    if (facts.introspection.*one.field) {
      out.mutable_introspection()->add_paths(std::string(one.name));
    }
  }
}

}  // namespace mnemon
