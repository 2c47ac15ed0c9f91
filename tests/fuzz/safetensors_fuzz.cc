// SPDX-License-Identifier: MIT
// A file image of any kind is refused with a message, or is a complete and consistent
// set of tensors, which our own writer can write again.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "model/io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mnemon;
  const auto file = Safetensors::FromBytes({reinterpret_cast<const char*>(data), size});
  if (!file.ok()) {
    MNEMON_CHECK(!file.status().message().empty());
    return 0;
  }
  std::vector<TensorToWrite> tensors;
  size_t bytes = 0;
  for (const TensorInfo& tensor : file->header().tensors) {
    const std::string_view held = file->Bytes(tensor);
    MNEMON_CHECK(held.size() == static_cast<size_t>(tensor.end - tensor.begin));
    MNEMON_CHECK(TensorBytes(tensor.dtype, tensor.shape) ==
                 static_cast<int64_t>(held.size()));
    MNEMON_CHECK(file->Find(tensor.name) == &tensor);
    const auto floats = file->Floats(tensor);
    MNEMON_CHECK(floats.ok() == (tensor.dtype == DType::kF32));
    const auto ints = file->Ints(tensor);
    MNEMON_CHECK(ints.ok() == (tensor.dtype == DType::kI64));
    bytes += held.size();
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, held});
  }
  MNEMON_CHECK(bytes < size);
  const auto image = FormatSafetensors(tensors, file->header().metadata);
  MNEMON_CHECK(image.ok());
  const auto again = Safetensors::FromBytes(*image);
  MNEMON_CHECK(again.ok() && again->header().tensors.size() == tensors.size());
  MNEMON_CHECK(again->header().metadata == file->header().metadata);
  return 0;
}
