// SPDX-License-Identifier: MIT
#include "model/sequence/tensors.h"

#include <cstring>
#include <exception>
#include <optional>

#include <ATen/ops/empty.h>

#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

struct TypePair {
  DType file;
  at::ScalarType tensor;
};
constexpr TypePair kTypes[] = {
    {DType::kF32, at::kFloat},    {DType::kF64, at::kDouble}, {DType::kI64, at::kLong},
    {DType::kI32, at::kInt},      {DType::kI16, at::kShort},  {DType::kI8, at::kChar},
    {DType::kU8, at::kByte},      {DType::kBool, at::kBool},  {DType::kF16, at::kHalf},
    {DType::kBF16, at::kBFloat16}};

std::optional<at::ScalarType> TensorType(DType type) {
  for (const auto& [file, tensor] : kTypes) {
    if (file == type) return tensor;
  }
  return std::nullopt;
}

std::optional<DType> FileType(at::ScalarType type) {
  for (const auto& [file, tensor] : kTypes) {
    if (tensor == type) return file;
  }
  return std::nullopt;
}

NamedTensorList WeightsOf(Model& model) {
  NamedTensorList weights;
  model.Visit([&weights](const std::string& name, at::Tensor& tensor) {
    weights.emplace_back(name, tensor);
  });
  return weights;
}

}  // namespace

absl::StatusOr<at::Tensor> ToTensor(const Safetensors& file, const TensorInfo& info) {
  const std::optional<at::ScalarType> type = TensorType(info.dtype);
  if (!type) {
    return absl::InvalidArgumentError(StrCat("tensor ", Quoted(info.name), ": type ",
                                             Name(info.dtype), " is not supported"));
  }
  try {
    at::Tensor tensor = at::empty(info.shape, *type);
    const std::string_view bytes = file.Bytes(info);
    if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
    return tensor;
  } catch (const std::exception&) {
    return absl::ResourceExhaustedError(StrCat("no memory for tensor ",
                                               Quoted(info.name), ", ",
                                               Describe(info.dtype, info.shape)));
  }
}

absl::StatusOr<std::string> FormatTensors(const NamedTensorList& tensors) {
  std::vector<TensorToWrite> to_write;
  std::vector<at::Tensor> kept;
  for (const auto& [name, tensor] : tensors) {
    const std::optional<DType> type = FileType(tensor.scalar_type());
    if (!type) {
      return absl::InvalidArgumentError(
          StrCat("tensor ", Quoted(name), ": its type has no name in safetensors"));
    }
    kept.push_back(tensor.detach().cpu().contiguous());
    to_write.push_back(
        {name,
         *type,
         tensor.sizes().vec(),
         {static_cast<const char*>(kept.back().data_ptr()), kept.back().nbytes()}});
  }
  return FormatSafetensors(to_write);
}

absl::StatusOr<std::string> FormatWeights(Model& model) {
  const NamedTensorList weights = WeightsOf(model);
  for (const auto& [name, tensor] : weights) {
    if (tensor.scalar_type() != at::kFloat) {
      return absl::InvalidArgumentError(
          StrCat("tensor ", Quoted(name), ": a checkpoint holds float32 weights only"));
    }
  }
  return FormatTensors(weights);
}

}  // namespace mnemon
