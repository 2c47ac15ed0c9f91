// SPDX-License-Identifier: MIT
#include "model/default/default_predictor.h"

#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>

#include "base/status_macros.h"
#include "base/strings.h"
#include "model/sequence/device.h"
#include "model/sequence/runtime.h"

namespace mnemon {
namespace {

constexpr int kPredictorRevision = 1;

void Append(const at::Tensor& tensor, std::vector<float>& out) {
  const at::Tensor values = tensor.to(at::kCPU).contiguous();
  const float* begin = values.data_ptr<float>();
  out.insert(out.end(), begin, begin + values.numel());
}

class DefaultPredictor final : public Predictor {
 public:
  explicit DefaultPredictor(const Model& model)
      : model_(model),
        numerics_id_(StrCat("default/fp32/", DeviceClass(DeviceOf(model)), "/torch-",
                            TensorLibraryVersion(), "/r", kPredictorRevision)) {}

  const ModelConfig& config() const override { return model_.config(); }
  const std::string& numerics_id() const override { return numerics_id_; }
  int64_t max_positions() const override { return config().positions; }

  absl::StatusOr<Output> Predict(const Input& input) override {
    MNEMON_RETURN_IF_ERROR(CheckPredict(input, config(), max_positions()));
    Output output;
    const SingleThreaded single_threaded;
    MNEMON_RETURN_IF_ERROR(RunTensors([&]() -> absl::Status {
      const c10::InferenceMode inference;
      const size_t time = input.tokens.size() / input.batch;
      for (int64_t row = 0; row < input.batch; ++row) {
        MNEMON_ASSIGN_OR_RETURN(
            const ForwardResult result,
            model_.Forward(Tokens(input.tokens.subspan(row * time, time)), {},
                           {.mask = MaskOf(input, row), .maps = input.maps}));
        Append(result.logits, output.logits);
        output.maps.resize(result.maps.size());
        for (size_t i = 0; i < result.maps.size(); ++i) {
          Append(result.maps[i], output.maps[i]);
        }
      }
      return absl::OkStatus();
    }));
    return output;
  }

 private:
  static at::Tensor Tokens(std::span<const int32_t> ids) {
    at::Tensor tokens = at::empty({1, static_cast<int64_t>(ids.size())}, at::kLong);
    std::copy(ids.begin(), ids.end(), tokens.data_ptr<int64_t>());
    return tokens;
  }

  // ForwardOptions::mask for one sequence of the batch.
  at::Tensor MaskOf(const Input& input, int64_t row) const {
    const int64_t time = static_cast<int64_t>(input.tokens.size()) / input.batch;
    const Mask configured = config().mask;
    switch (input.mask) {
      case PredictMask::kConfig:
        return {};
      case PredictMask::kNone:
        return configured == Mask::kNone ? at::Tensor()
                                         : at::ones({time, time}, at::kByte);
      case PredictMask::kCausal:
        return configured == Mask::kCausal ? at::Tensor()
                                           : at::ones({time, time}, at::kByte).tril();
      case PredictMask::kExplicit:
        break;
    }
    const size_t one = static_cast<size_t>(time * time);
    const bool shared = input.explicit_mask.size() == one;
    const auto bytes = input.explicit_mask.subspan(shared ? 0 : row * one, one);
    at::Tensor mask = at::empty({time, time}, at::kByte);
    std::copy(bytes.begin(), bytes.end(), mask.data_ptr<uint8_t>());
    return mask;
  }

  const Model& model_;
  const std::string numerics_id_;
};

}  // namespace

std::unique_ptr<Predictor> MakeDefaultPredictor(const Model& model) {
  return std::make_unique<DefaultPredictor>(model);
}

}  // namespace mnemon
