// SPDX-License-Identifier: MIT
#include "model/load/quantise.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/packed_weights.h"
#include "model/compute/tensor_names.h"
#include "model/io/tensor_check.h"
#include "model/load/model_files.h"

namespace mnemon {
namespace {

struct Int8Matrix {
  std::vector<int8_t> numbers;  // [out, in]
  std::vector<float> scales;    // [out]
};

// All numbers of a tensor of floats.
std::vector<float> Values(const TensorView& view) {
  std::vector<float> values(view.count());
  ReadRows(view, 0, view.rows(), values.data());
  return values;
}

Int8Matrix Quantise(const TensorView& matrix) {
  const auto rows = static_cast<size_t>(matrix.shape[0]);
  const auto width = static_cast<size_t>(matrix.shape[1]);
  Int8Matrix made{.numbers = std::vector<int8_t>(rows * width),
                  .scales = std::vector<float>(rows)};
  const std::vector<float> values = Values(matrix);
  for (size_t r = 0; r < rows; ++r) {
    made.scales[r] = QuantiseRow(std::span(values).subspan(r * width, width),
                                 made.numbers.data() + r * width);
  }
  return made;
}

template <class T>
std::string_view BytesOf(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// model.safetensors of the int8 checkpoint.
absl::StatusOr<std::string> FormatInt8Weights(const ModelFiles& files) {
  std::map<std::string, TensorView> views;
  for (TensorView& view : ViewWeights(files)) views[view.name] = view;
  std::deque<Int8Matrix> matrices;
  std::deque<std::vector<float>> others;
  std::vector<TensorToWrite> tensors;
  for (const TensorShape& tensor : StoredTensors(files.description, /*int8=*/true)) {
    TensorToWrite to{tensor.name, TypeOf(tensor), tensor.shape, {}};
    if (tensor.int8) {
      matrices.push_back(Quantise(views.at(tensor.name)));
      to.data = BytesOf<int8_t>(matrices.back().numbers);
    } else if (names::IsScale(tensor.name)) {
      to.data = BytesOf<float>(matrices.back().scales);  // it follows its matrix
    } else {
      others.push_back(Values(views.at(tensor.name)));
      to.data = BytesOf<float>(others.back());
    }
    tensors.push_back(std::move(to));
  }
  // Floats first, so that they are aligned for any sizes of the others.
  std::ranges::stable_partition(
      tensors, [](const TensorToWrite& to) { return to.dtype == DType::kF32; });
  return FormatSafetensors(tensors);
}

absl::StatusOr<QuantisedCheckpoint> Quantised(const std::string& dir) {
  MNEMON_ASSIGN_OR_RETURN(ModelFiles files, ReadModelFiles(dir));
  if (const absl::Status own = RequireOwn(files); !own.ok()) {
    return Annotated(own, Quoted(dir));
  }
  if (files.int8) {
    return absl::FailedPreconditionError(
        StrCat(Quoted(dir), " is an int8 checkpoint already"));
  }
  MNEMON_ASSIGN_OR_RETURN(VerifiedWeights verified, files.verified.get());
  QuantisedCheckpoint made;
  MNEMON_ASSIGN_OR_RETURN(made.content["model.safetensors"], FormatInt8Weights(files));
  made.content["config.json"] = std::move(files.config_json);
  if (files.tokenizer_json) {
    made.content["tokenizer.json"] = *std::move(files.tokenizer_json);
  }
  if (files.tokenizer_config_json) {
    made.content["tokenizer_config.json"] = *std::move(files.tokenizer_config_json);
  }
  made.source = {.model_id = std::move(verified.model_id),
                 .weights_sha256 = std::move(verified.sha256)};
  made.source_bytes = files.weights.bytes();
  return made;
}

}  // namespace

absl::StatusOr<QuantisedCheckpoint> QuantiseCheckpoint(const std::string& dir) {
  return CatchOutOfMemory(Quoted(dir), [&] { return Quantised(dir); });
}

}  // namespace mnemon
