// SPDX-License-Identifier: MIT
#include "bench/model_size.h"

#include <algorithm>

#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr std::string_view kArchitectures[] = {
    "feedback", "feedback_shared", "fast_weights", "transformer_xl", "causal"};
constexpr std::string_view kSizes[] = {"XS", "S", "M", "G", "SEED"};

absl::Status Unknown(std::string_view what, std::string_view name,
                     std::span<const std::string_view> known) {
  return MakeError(
      absl::StatusCode::kNotFound,
      StrCat("unknown ", what, " ", Quoted(name), "; known: ", StrJoin(known, ", ")),
      {.reason = "NOT_FOUND"});
}

void SetSizes(ModelConfig& config, int64_t width, int64_t layers, int64_t heads,
              int64_t d_ff, int64_t vocab) {
  config.d_model = width;
  config.layers = layers;
  config.heads = heads;
  config.d_ff = d_ff;
  config.vocab = vocab;
}

// What the architecture adds to the common sizes.
void SetKind(ModelConfig& config, std::string_view architecture) {
  config.architecture = architecture;
  if (architecture == "feedback_shared") {
    config.architecture = "feedback";
    config.projection = Projection::kShared;
  }
  if (architecture == "causal") {
    config.position_kind = PositionKind::kLearned;
    config.tie_head = true;
  } else if (architecture != "fast_weights") {
    config.position_kind = PositionKind::kRelative;
  }
  if (architecture == "transformer_xl") config.mem_len = 256;
}

void SetReferenceExperiment(ModelConfig& config, std::string_view architecture) {
  if (architecture == "transformer_xl") {
    SetSizes(config, 128, 6, 4, 256, 65);
    config.window = Window::kSegment;
    config.mem_len = 32;
  } else if (architecture == "causal") {
    SetSizes(config, 256, 6, 16, 1024, 65);
    config.position_kind = PositionKind::kSinusoidal;
    config.embed_scale = true;
    config.tie_head = false;
    config.positions = 5000;
  } else {
    SetSizes(config, 512, 6, 8, 2048, 65);
  }
}

}  // namespace

std::span<const std::string_view> BenchArchitectures() { return kArchitectures; }

std::span<const std::string_view> BenchSizes() { return kSizes; }

absl::StatusOr<ModelConfig> SizedConfig(std::string_view architecture,
                                        std::string_view size) {
  const auto known = [](std::span<const std::string_view> names,
                        std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (!known(kArchitectures, architecture)) {
    return Unknown("architecture", architecture, kArchitectures);
  }
  if (!known(kSizes, size)) return Unknown("size", size, kSizes);
  ModelConfig config;
  SetKind(config, architecture);
  if (size == "XS") SetSizes(config, 128, 4, 4, 512, 128);
  if (size == "S") SetSizes(config, 256, 6, 8, 1024, 128);
  if (size == "M") SetSizes(config, 512, 8, 8, 2048, 128);
  if (size == "G") SetSizes(config, 768, 12, 12, 3072, 50257);
  if (size == "SEED") SetReferenceExperiment(config, architecture);
  return config;
}

}  // namespace mnemon
