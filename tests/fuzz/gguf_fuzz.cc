// SPDX-License-Identifier: MIT
// A GGUF file of any kind is refused with a message, or its tensors lie within it; one
// of a known model makes a safetensors file, whatever pieces it is written in, and a
// tokenizer that is read or refused with a message.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "model/io/gguf.h"
#include "model/io/gguf_model.h"
#include "model/io/gguf_tokenizer.h"
#include "model/io/gguf_weights.h"

namespace {

std::string WrittenInPieces(mnemon::GgufWeights& weights, size_t piece) {
  std::string whole(static_cast<size_t>(weights.size()), '\0');
  for (size_t at = 0; at < whole.size(); at += piece) {
    weights.Write(static_cast<int64_t>(at),
                  {whole.data() + at, std::min(piece, whole.size() - at)});
  }
  return whole;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mnemon;
  const std::string_view image(reinterpret_cast<const char*>(data), size);
  const auto gguf = ParseGguf(image);
  if (!gguf.ok()) {
    MNEMON_CHECK(!gguf.status().message().empty());
    return 0;
  }
  for (const GgufTensor& tensor : gguf->tensors) {
    MNEMON_CHECK(tensor.begin >= 0 && tensor.begin < tensor.end);
    MNEMON_CHECK(tensor.end <= static_cast<int64_t>(size));
    MNEMON_CHECK(gguf->FindTensor(tensor.name) == &tensor);
  }
  const auto json = GgufTokenizerJson(*gguf);
  MNEMON_CHECK(json.ok() || !json.status().message().empty());
  (void)GgufTokenizerConfig(*gguf);
  const auto model = ReadGgufModel(*gguf, image);
  if (!model.ok()) {
    MNEMON_CHECK(!model.status().message().empty());
    return 0;
  }
  for (const MadeNumbers numbers : {MadeNumbers::kExact, MadeNumbers::kBf16}) {
    auto weights = GgufWeights::Make(image, model->tensors, numbers);
    if (!weights.ok()) continue;
    const std::string whole = WrittenInPieces(*weights, size_t{1} << 19);
    MNEMON_CHECK(whole == WrittenInPieces(*weights, 1001));
    const auto file = Safetensors::FromBytes(whole);
    MNEMON_CHECK(file.ok());
    MNEMON_CHECK(file->header().tensors.size() == model->tensors.size());
  }
  return 0;
}
