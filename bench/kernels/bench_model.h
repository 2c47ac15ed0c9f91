// SPDX-License-Identifier: MIT
// A model with drawn weights, and the decoder that would serve it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/compute/kernels.h"
#include "model/decoder/decoder.h"
#include "model/families/config.h"

namespace mnemon {

class Model;
struct Compute;

class BenchModel {
 public:
  // Weights are drawn from a fixed seed: the same numbers in each run and on every
  // device; no tensor is all zero. Throws c10::Error if `device` runs out of memory.
  static absl::StatusOr<std::unique_ptr<BenchModel>> Make(std::string_view architecture,
                                                          std::string_view size,
                                                          const Compute& compute);
  // The same on the CPU with one thread.
  static absl::StatusOr<std::unique_ptr<BenchModel>> Make(std::string_view architecture,
                                                          std::string_view size);
  ~BenchModel();

  const std::string& architecture() const { return architecture_; }  // as given
  const std::string& size() const { return size_; }
  const ModelConfig& config() const { return config_; }
  const ModelDescription& description() const { return decoder_->model(); }
  Decoder& decoder() const { return *decoder_; }
  WeightFormat format() const { return format_; }  // format that the decoder reads
  // Layout that Decoder::Import of this model takes.
  const StateSpec& carry_spec() const;
  int64_t parameters() const { return parameters_; }

 private:
  BenchModel(std::string_view architecture, std::string_view size,
             const ModelConfig& config, WeightFormat format,
             std::unique_ptr<Model> model, std::unique_ptr<Decoder> decoder);

  const std::string architecture_;
  const std::string size_;
  const ModelConfig config_;
  const WeightFormat format_;
  const std::unique_ptr<Model> model_;
  const std::unique_ptr<Decoder> decoder_;
  const int64_t parameters_;
};

// Writes a model of `config` with the same drawn weights as BenchModel as a checkpoint
// without a tokenizer. INVALID_ARGUMENT if the configuration is not valid.
absl::Status WriteDrawnCheckpoint(const ModelConfig& config, const std::string& dir);

}  // namespace mnemon
