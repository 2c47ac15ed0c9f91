// SPDX-License-Identifier: MIT
#include "model/sampling/sampling_params.h"

#include <cmath>
#include <cstddef>
#include <string>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

// Products and sums with logits stay far from the limits of a double.
constexpr double kMostPenalty = 1000;
constexpr double kLeastRepetition = 0.001;
constexpr int32_t kMostWindow = 65536;
constexpr size_t kMostBiases = 1024;

// NaN is in no range.
absl::Status InRange(const char* field, double value, double least, double most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return InvalidField(
      field, StrCat(field, " must be from ", least, " to ", most, ", got ", value));
}

absl::Status InUnit(const char* field, double value) {
  if (value > 0 && value <= 1) return absl::OkStatus();
  return InvalidField(field,
                      StrCat(field, " must be above 0 and at most 1, got ", value));
}

absl::Status CheckBias(const std::vector<LogitBias>& biases, int64_t vocab) {
  if (biases.size() > kMostBiases) {
    return InvalidField(
        "logit_bias",
        StrCat("at most ", kMostBiases, " entries of logit_bias, got ", biases.size()));
  }
  for (size_t i = 0; i < biases.size(); ++i) {
    const auto [token, bias] = biases[i];
    const std::string field = StrCat("logit_bias[", i, "]");
    if (token < 0 || token >= vocab) {
      return InvalidField(
          field, StrCat("token ", token, " of ", field, " is not in 0..", vocab - 1));
    }
    if (std::isnan(bias) || bias == INFINITY) {
      return InvalidField(
          field, StrCat("the bias of ", field, " must be finite or -inf, got ", bias));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateSampling(const SamplingParams& params, int64_t vocab) {
  if (!std::isfinite(params.temperature) || params.temperature < 0) {
    return InvalidField("temperature", StrCat("temperature must be finite and >= 0",
                                              ", got ", params.temperature));
  }
  if (params.top_k < 0) {
    return InvalidField("top_k",
                        StrCat("top_k must be >= 0 (0 = off), got ", params.top_k));
  }
  MNEMON_RETURN_IF_ERROR(InUnit("top_p", params.top_p));
  MNEMON_RETURN_IF_ERROR(InRange("min_p", params.min_p, 0, 1));
  MNEMON_RETURN_IF_ERROR(InUnit("typical_p", params.typical_p));
  MNEMON_RETURN_IF_ERROR(InRange("repetition_penalty", params.repetition_penalty,
                                 kLeastRepetition, kMostPenalty));
  MNEMON_RETURN_IF_ERROR(InRange("frequency_penalty", params.frequency_penalty,
                                 -kMostPenalty, kMostPenalty));
  MNEMON_RETURN_IF_ERROR(InRange("presence_penalty", params.presence_penalty,
                                 -kMostPenalty, kMostPenalty));
  MNEMON_RETURN_IF_ERROR(
      InRange("penalty_window_tokens", params.penalty_window_tokens, 0, kMostWindow));
  return CheckBias(params.logit_bias, vocab);
}

}  // namespace mnemon
