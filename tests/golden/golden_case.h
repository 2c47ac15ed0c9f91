// SPDX-License-Identifier: MIT
// A folder of reference numbers: config.json, weights.safetensors, io.safetensors.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "model/io/safetensors.h"
#include "model/sequence/model.h"
#include "nlohmann/json.hpp"

namespace mnemon {

// Cases of models; those below full/ are not committed.
inline constexpr const char* kGoldenCases[] = {"feedback_000",
                                               "feedback_002",
                                               "feedback_kv",
                                               "fast_weights_nu1",
                                               "fast_weights_nu2",
                                               "fast_weights_nu3",
                                               "xl_carry",
                                               "xl_no_memory",
                                               "xl_single",
                                               "xl_truncated",
                                               "transformer",
                                               "encoder",
                                               "fast_weights_odd_head",
                                               "full/feedback_kv_p4096",
                                               "full/xl_p4096"};

// Name of a test.
inline std::string GoldenCaseName(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

// The folder of case `name` ("xl_carry", "full/xl_p4096"): a committed one, else below
// $MNEMON_TEST_DATA/golden; nullopt if neither has it.
std::optional<std::string> FindGolden(const std::string& name);

class GoldenCase {
 public:
  static absl::StatusOr<GoldenCase> Load(const std::string& directory);

  const nlohmann::json& config() const { return config_; }
  bool Has(const std::string& array) const { return io_.Find(array) != nullptr; }
  // An array of io.safetensors. REQUIRES: Has(array).
  at::Tensor Get(const std::string& array) const;
  // A tensor of weights.safetensors, under its foreign name. REQUIRES: it is there.
  at::Tensor GetWeight(const std::string& name) const;
  std::vector<std::string> Arrays() const;

  // Gradients under our names; absent: a parameter that takes no part.
  absl::StatusOr<std::vector<std::pair<std::string, at::Tensor>>> Gradients() const;

  // The imported model with its weights, gradients on, on the device that
  // MNEMON_TEST_DEVICE names (the CPU).
  absl::StatusOr<std::unique_ptr<Model>> Import(bool convert_000 = false) const;

  // Whether a carry continues the model of this case.
  bool autoregressive() const { return config_["architecture"] != "encoder"; }

  // Lengths of the calls of Forward that cover all tokens.
  std::vector<int64_t> Segments() const;

 private:
  GoldenCase(std::string config_text, Safetensors weights, Safetensors io)
      : config_text_(std::move(config_text)),
        config_(nlohmann::json::parse(config_text_)),
        weights_(std::move(weights)),
        io_(std::move(io)) {}

  std::string config_text_;
  nlohmann::json config_;
  Safetensors weights_;
  Safetensors io_;
};

}  // namespace mnemon
