// SPDX-License-Identifier: MIT
// The loading of a model directory into what serves it, without torch unless the
// sequence form serves the model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/compute/device/device_driver.h"
#include "model/compute/weights.h"
#include "model/decoder/decoder.h"
#include "model/description/description.h"
#include "model/io/safetensors.h"
#include "model/program/make_decoder.h"
#include "model/sampling/generation_defaults.h"
#include "model/text/chat_program.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"

namespace mnemon {

struct ServedModel {
  std::string architecture;  // or the model_type
  std::string config_json;   // of ours as ConfigToJson has it, else the file
  ModelDescription description;
  std::string model_id;  // see docs/checkpoint_format.md
  int64_t parameters = 0;
  std::vector<TensorInfo> tensors;  // of the files, in the order of the architecture
  WeightFormat format = WeightFormat::kFp32;  // of the matrices that steps read
  std::unique_ptr<Tokenizer> tokenizer;  // null: the checkpoint has none, only ids work
  absl::Status no_tokenizer;             // why its tokenizer is not supported
  ChatTemplate chat_template;
  // In place of it: the template of a model of another project; null: it has none, or
  // one that is not supported, and why.
  std::shared_ptr<const ChatProgram> chat_program;
  absl::Status no_chat_program;
  GenerationDefaults generation;
  std::string kernels;  // instruction set or device, as "avx2"; "torch"
  std::unique_ptr<DeviceDriver> device;  // that the decoder computes on; null: the CPU
  // One of the two.
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<Predictor> predictor;
};

// Makes the default decoder with copies of what `views` show, all tensors of `config`.
using SequenceDecoderMaker = std::function<absl::StatusOr<std::unique_ptr<Decoder>>(
    const ModelDescription& model, const TensorViews& views,
    const std::string& device)>;

// Where and how a model computes.
struct ServeModelOptions {
  std::string device = "cpu";  // as of --device; of autoregressive models
  // Positions of a session at most; none: as many as the model has.
  std::optional<int64_t> max_context = {};
  // Its pool must outlive the model, and its device.
  DecoderOptions decoder;
  // Opens a device for the step form alone, where `decoder` has none. Null: with
  // another device than "cpu" it is the sequence form that serves.
  std::function<absl::StatusOr<std::unique_ptr<DeviceDriver>>()> open_device = {};
  // Null: the sequence module, which programs with libtorch must not load.
  SequenceDecoderMaker make_sequence = {};
};

// Reads, checks and packs the model in `dir`; the errors of ReadModelFiles,
// MakeDecoder, and of the sequence module where one is needed; INVALID_ARGUMENT for a
// max_context beyond the model's. Nothing of the files stays in memory.
absl::StatusOr<ServedModel> LoadServedModel(const std::string& dir,
                                            const ServeModelOptions& options);

}  // namespace mnemon
