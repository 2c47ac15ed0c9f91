// SPDX-License-Identifier: MIT
// The configuration of a model, which defines everything but its weights. A single
// field list (VisitConfigFields) drives JSON, equality, printing and range checks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/blocks/fast_weights/settings.h"
#include "model/compute/activation.h"

namespace mnemon {

enum class PositionKind { kNone, kSinusoidal, kLearned, kAlibi, kRelative };
enum class Window { kSegment, kSliding };
enum class FeatureMapKind { kDpfp, kElu };
enum class Normalise { kNone, kZ };
enum class Projection { kPerLayer, kShared };
enum class PositionBias { kFree, kTied };
enum class Mask { kNone, kCausal };

struct ModelConfig {
  int64_t format_version = 1;
  std::string architecture;  // a name in the table of families.cc
  int64_t d_model = 0;       // D
  int64_t heads = 0;         // H, divides D; head width K = D / H
  int64_t layers = 0;        // L
  int64_t d_ff = 0;          // F
  int64_t vocab = 0;         // V
  // Rows of the position table for the past (P); the context length of causal.
  int64_t positions = 4096;
  PositionKind position_kind = PositionKind::kNone;
  Window window = Window::kSliding;
  // M of transformer_xl; of feedback: most memories that a token sees, 0 = all.
  int64_t mem_len = 0;
  // phi of fast_weights, and the order of DPFP.
  FeatureMapKind feature_map = FeatureMapKind::kDpfp;
  int64_t nu = 1;
  UpdateRule update_rule = UpdateRule::kDelta;
  Normalise normalise = Normalise::kNone;
  Projection projection = Projection::kPerLayer;
  PositionBias position_bias = PositionBias::kFree;
  bool embed_scale = false;  // embedding times sqrt(D)
  bool tie_head = false;
  Activation activation = Activation::kRelu;
  bool gated = false;
  Mask mask = Mask::kNone;
  bool norm_logits = false;
  int64_t kv_heads = 0;  // heads of keys and values; 0: as many as of queries
  double dropout = 0.0;

  // Head width K. REQUIRES: validated.
  int64_t head_width() const { return d_model / heads; }

  bool operator==(const ModelConfig&) const = default;
};

inline constexpr int64_t kConfigFormatVersion = 1;

// Bounds of an integer field, both inclusive.
struct FieldRange {
  int64_t least;
  int64_t most;
};

// Calls visit(key, field, range) for integers and visit(key, field) for everything
// else, in the order of the file. The only list of fields.
template <class Config, class Visitor>
void VisitConfigFields(Config& c, Visitor&& visit) {
  visit("format_version", c.format_version, FieldRange{1, kConfigFormatVersion});
  visit("architecture", c.architecture);
  visit("d_model", c.d_model, FieldRange{1, 65536});
  visit("heads", c.heads, FieldRange{1, 4096});
  visit("layers", c.layers, FieldRange{1, 1024});
  visit("d_ff", c.d_ff, FieldRange{1, 1 << 20});
  visit("vocab", c.vocab, FieldRange{1, 1 << 24});
  visit("positions", c.positions, FieldRange{1, 1 << 24});
  visit("position_kind", c.position_kind);
  visit("window", c.window);
  visit("mem_len", c.mem_len, FieldRange{0, 1 << 20});
  visit("nu", c.nu, FieldRange{1, 1024});
  visit("feature_map", c.feature_map);
  visit("update_rule", c.update_rule);
  visit("normalise", c.normalise);
  visit("projection", c.projection);
  visit("position_bias", c.position_bias);
  visit("embed_scale", c.embed_scale);
  visit("tie_head", c.tie_head);
  visit("activation", c.activation);
  visit("gated", c.gated);
  visit("mask", c.mask);
  visit("norm_logits", c.norm_logits);
  visit("kv_heads", c.kv_heads, FieldRange{0, 4096});
  visit("dropout", c.dropout);
}

// Range and consistency checks for every architecture: each field in its range, heads
// divides d_model, 0 <= dropout < 1. One INVALID_ARGUMENT lists all faults.
// Architectures add their own checks: see families.h.
absl::Status ValidateConfig(const ModelConfig& config);

// Parses config.json. Unknown keys, missing required keys (architecture, d_model,
// heads, layers, d_ff, vocab), wrong types and out-of-range values are one
// INVALID_ARGUMENT that lists them all; a newer format_version is FAILED_PRECONDITION
// naming both versions.
absl::StatusOr<ModelConfig> ParseConfig(std::string_view json);

// Sets one field from text, as for `--set model.d_model=64`. INVALID_ARGUMENT names the
// key and its values.
absl::Status SetConfigField(ModelConfig& config, std::string_view key,
                            std::string_view value);

// config.json: every key, one per line, in the order of the field list.
std::string ConfigToJson(const ModelConfig& config);

// Name of an enumerator in config.json.
std::string_view Name(PositionKind value);
std::string_view Name(Window value);
std::string_view Name(FeatureMapKind value);
std::string_view Name(UpdateRule value);
std::string_view Name(Normalise value);
std::string_view Name(Projection value);
std::string_view Name(PositionBias value);
std::string_view Name(Activation value);
std::string_view Name(Mask value);

}  // namespace mnemon
