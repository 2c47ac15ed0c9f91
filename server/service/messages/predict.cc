// SPDX-License-Identifier: MIT
#include <span>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/service/messages/messages.h"
#include "server/service/messages/resource_name.h"

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
      return InvalidField("mask", StrCat("mask has no value ", static_cast<int>(mask)));
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
      return InvalidField("maps", StrCat("maps has no value ", static_cast<int>(maps)));
  }
}

void SetArray(std::span<const float> values, const std::vector<int64_t>& shape,
              v1::FloatArray& out) {
  out.mutable_shape()->Add(shape.begin(), shape.end());
  out.mutable_values()->Add(values.begin(), values.end());
}

}  // namespace

RequestScope ScopeOf(const v1::PredictRequest& r) {
  return {.session = "", .model = r.model(), .paths = {{"tokens", "sequences"}}};
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

}  // namespace mnemon
