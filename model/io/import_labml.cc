// SPDX-License-Identifier: MIT
#include "model/io/import_labml.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/tensor_names.h"
#include "model/families/labml.h"
#include "model/io/tensor_check.h"

namespace mnemon {
namespace {

// The table is a computed buffer, not learned; ours is computed too, so the file's is
// only compared with the formula.
absl::Status CheckSinusoid(const Safetensors& weights, const std::string& name,
                           int64_t width) {
  MNEMON_ASSIGN_OR_RETURN(const std::vector<float> table,
                          weights.Floats(*weights.Find(name)));
  constexpr double kTolerance = 1e-3;
  for (size_t at = 0; at < table.size(); ++at) {
    const int64_t row = static_cast<int64_t>(at) / width;
    const int64_t column = static_cast<int64_t>(at) % width;
    const auto even = static_cast<double>(column - column % 2);
    const double rate = std::exp(-even * std::log(1e4) / static_cast<double>(width));
    const double angle = static_cast<double>(row) * rate;
    const double wanted = column % 2 == 0 ? std::sin(angle) : std::cos(angle);
    if (!(std::abs(table[at] - wanted) <= kTolerance)) {
      return absl::InvalidArgumentError(StrCat(Quoted(name), " holds ", table[at],
                                               " at position ", row, ", column ",
                                               column, ", the sinusoid is ", wanted));
    }
  }
  return absl::OkStatus();
}

// S[r, h] = u[h] . R[r, h], which makes the scores of both forms equal.
std::vector<float> FreeBias(const std::vector<float>& query_bias,
                            const std::vector<float>& relative_key, int64_t width) {
  std::vector<float> bias(relative_key.size() / static_cast<size_t>(width));
  for (size_t i = 0; i < bias.size(); ++i) {
    const size_t key = i * static_cast<size_t>(width);
    const size_t query = key % query_bias.size();
    double sum = 0;
    for (size_t k = 0; k < static_cast<size_t>(width); ++k) {
      sum += static_cast<double>(query_bias[query + k]) * relative_key[key + k];
    }
    bias[i] = static_cast<float>(sum);
  }
  return bias;
}

// The free biases of all layers, in order.
absl::StatusOr<std::vector<std::vector<float>>> FreeBiases(const Safetensors& weights,
                                                           const LabmlModel& model) {
  const auto floats = [&](const std::string& ours) {
    const auto found =
        std::find_if(model.tensors.begin(), model.tensors.end(),
                     [&](const RenamedTensor& tensor) { return tensor.ours == ours; });
    return weights.Floats(*weights.Find(found->foreign));
  };
  std::vector<std::vector<float>> biases;
  for (int64_t i = 0; i < model.config.layers; ++i) {
    MNEMON_ASSIGN_OR_RETURN(const std::vector<float> query_bias,
                            floats(names::Layer(i, names::kQueryBias)));
    MNEMON_ASSIGN_OR_RETURN(const std::vector<float> relative_key,
                            floats(names::Layer(i, names::kRelativeKey)));
    biases.push_back(FreeBias(query_bias, relative_key, model.config.head_width()));
  }
  return biases;
}

}  // namespace

absl::StatusOr<ImportedModel> ImportLabml(std::string_view config_json,
                                          const Safetensors& weights,
                                          bool convert_000) {
  MNEMON_ASSIGN_OR_RETURN(const LabmlModel model,
                          ReadLabmlModel(config_json, [&](std::string_view name) {
                            const TensorInfo* found = weights.Find(name);
                            return found == nullptr ? nullptr : &found->shape;
                          }));
  ImportedModel result = {.config = model.config, .weights = {}};
  ModelConfig& config = result.config;
  if (convert_000 && config.position_bias != PositionBias::kTied) {
    return absl::InvalidArgumentError(
        "labml config: only a feedback model of seed_form 000 can be converted");
  }

  std::vector<TensorShape> expected;
  for (const RenamedTensor& tensor : model.tensors) {
    expected.push_back({tensor.foreign, tensor.shape});
  }
  const std::string& sinusoid = model.sinusoid.name;
  if (!sinusoid.empty()) expected.push_back({sinusoid, model.sinusoid.shape});
  MNEMON_RETURN_IF_ERROR(
      CheckTensors({&weights, 1}, NeededOf(expected), FindBadWeights(weights)));
  if (!sinusoid.empty()) {
    MNEMON_RETURN_IF_ERROR(CheckSinusoid(weights, sinusoid, config.d_model));
  }

  std::vector<TensorToWrite> tensors;
  for (const RenamedTensor& tensor : model.tensors) {
    tensors.push_back({tensor.ours, DType::kF32, tensor.shape,
                       weights.Bytes(*weights.Find(tensor.foreign))});
  }
  std::vector<std::vector<float>> biases;
  if (convert_000) {
    config.position_bias = PositionBias::kFree;
    MNEMON_ASSIGN_OR_RETURN(biases, FreeBiases(weights, model));
    for (int64_t i = 0; i < config.layers; ++i) {
      const std::vector<float>& bias = biases[static_cast<size_t>(i)];
      tensors.push_back(
          {names::Layer(i, names::kRelativeBias),
           DType::kF32,
           {config.positions, config.heads},
           {reinterpret_cast<const char*>(bias.data()), bias.size() * sizeof(float)}});
    }
  }
  MNEMON_ASSIGN_OR_RETURN(result.weights, FormatSafetensors(tensors));
  return result;
}

}  // namespace mnemon
