// SPDX-License-Identifier: MIT
#include "model/sampling/sampling_params.h"

#include <cmath>
#include <cstddef>
#include <string>

#include "base/error.h"
#include "base/float_mode.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr double kMostPenalty = 1000;
constexpr double kLeastRepetition = 0.001;
constexpr int32_t kMostWindow = 65536;
constexpr size_t kMostBiases = 1024;
// Halfway from the largest float32 to the next power of two: it rounds to infinity.
constexpr double kTooHot = 0x1.ffffffp127;

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

absl::Status ValidateSampling(const RequestedSampling& requested, int64_t vocab) {
  if (!std::isfinite(requested.temperature) || requested.temperature < 0) {
    return InvalidField("temperature", StrCat("temperature must be finite and >= 0",
                                              ", got ", requested.temperature));
  }
  if (requested.temperature >= kTooHot) {
    return InvalidField("temperature", StrCat("temperature must be finite in float32",
                                              ", got ", requested.temperature));
  }
  if (requested.top_k < 0) {
    return InvalidField("top_k",
                        StrCat("top_k must be >= 0 (0 = off), got ", requested.top_k));
  }
  MNEMON_RETURN_IF_ERROR(InUnit("top_p", requested.top_p));
  MNEMON_RETURN_IF_ERROR(InRange("min_p", requested.min_p, 0, 1));
  MNEMON_RETURN_IF_ERROR(InUnit("typical_p", requested.typical_p));
  MNEMON_RETURN_IF_ERROR(InRange("repetition_penalty", requested.repetition_penalty,
                                 kLeastRepetition, kMostPenalty));
  MNEMON_RETURN_IF_ERROR(InRange("frequency_penalty", requested.frequency_penalty,
                                 -kMostPenalty, kMostPenalty));
  MNEMON_RETURN_IF_ERROR(InRange("presence_penalty", requested.presence_penalty,
                                 -kMostPenalty, kMostPenalty));
  MNEMON_RETURN_IF_ERROR(InRange("penalty_window_tokens",
                                 requested.penalty_window_tokens, 0, kMostWindow));
  return CheckBias(requested.logit_bias, vocab);
}

SamplingParams Rounded(const RequestedSampling& requested) {
  const IeeeFloatMode mode;
  return {.temperature = static_cast<float>(requested.temperature),
          .top_k = requested.top_k,
          .top_p = static_cast<float>(requested.top_p),
          .min_p = static_cast<float>(requested.min_p),
          .typical_p = static_cast<float>(requested.typical_p),
          .repetition_penalty = static_cast<float>(requested.repetition_penalty),
          .frequency_penalty = static_cast<float>(requested.frequency_penalty),
          .presence_penalty = static_cast<float>(requested.presence_penalty),
          .penalty_window_tokens = requested.penalty_window_tokens,
          .logit_bias = requested.logit_bias,
          .seed = requested.seed};
}

}  // namespace mnemon
