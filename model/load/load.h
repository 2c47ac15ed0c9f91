// SPDX-License-Identifier: MIT
// Loading of a model directory for serving, without torch unless the sequence form
// serves the model.
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
  std::string config_json;   // our own as by ConfigToJson, else the file
  ModelDescription description;
  std::string model_id;  // see docs/checkpoint_format.md
  int64_t parameters = 0;
  std::vector<TensorInfo> tensors;  // in the files, in the order of the architecture
  WeightFormat format = WeightFormat::kFp32;  // format of the matrices that steps read
  std::unique_ptr<Tokenizer> tokenizer;  // null: the checkpoint has none, only ids work
  absl::Status no_tokenizer;             // why its tokenizer is not supported
  ChatTemplate chat_template;
  // Template of a model of another project, which replaces `chat`; null if there is
  // none, or if it is not supported, and why.
  std::shared_ptr<const ChatProgram> chat_program;
  absl::Status no_chat_program;
  GenerationDefaults generation;
  std::string kernels;  // instruction set or device, such as "avx2"; or "torch"
  std::unique_ptr<DeviceDriver> device;  // for the decoder; null: the CPU
  // One of the two is set.
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<Predictor> predictor;
};

// Makes the default decoder with copies of the data of `views`, all tensors of
// `config`.
using SequenceDecoderMaker = std::function<absl::StatusOr<std::unique_ptr<Decoder>>(
    const ModelDescription& model, const TensorViews& views,
    const std::string& device)>;

// Where and how a model computes.
struct ServeModelOptions {
  std::string device = "cpu";  // value of --device; for autoregressive models
  // Most positions of a session; none: as many as the model has.
  std::optional<int64_t> max_context = {};
  // Its pool and its device must outlive the model.
  DecoderOptions decoder;
  // Opens a device for the step form if `decoder` has none. Null: with another device
  // than "cpu" the sequence form serves.
  std::function<absl::StatusOr<std::unique_ptr<DeviceDriver>>()> open_device = {};
  // Null: the sequence module, which programs that link libtorch must not load.
  SequenceDecoderMaker make_sequence = {};
};

// Reads, checks and packs the model in `dir`. Errors of ReadModelFiles, MakeDecoder
// and, if it is needed, the sequence module; INVALID_ARGUMENT for a max_context beyond
// the model's. No file contents stay in memory.
absl::StatusOr<ServedModel> LoadServedModel(const std::string& dir,
                                            const ServeModelOptions& options);

}  // namespace mnemon
