// SPDX-License-Identifier: MIT
#include "bench/kernels/model_size.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/families/families.h"

namespace mnemon {
namespace {

constexpr std::string_view kSizes[] = {"XS", "S", "M", "G", "SEED"};

void SetSizes(ModelConfig& config, int64_t width, int64_t layers, int64_t heads,
              int64_t d_ff, int64_t vocab) {
  config.d_model = width;
  config.layers = layers;
  config.heads = heads;
  config.d_ff = d_ff;
  config.vocab = vocab;
}

}  // namespace

std::vector<std::string> BenchArchitectures() {
  std::vector<std::string> names = TypedNames();
  std::erase_if(names, [](const std::string& name) {
    ModelConfig config;
    return !SetArchitecture(config, name).ok() ||
           !FindFamily(config.architecture).value()->autoregressive();
  });
  return names;
}

std::span<const std::string_view> BenchSizes() { return kSizes; }

absl::StatusOr<ModelConfig> SizedConfig(std::string_view architecture,
                                        std::string_view size) {
  ModelConfig named;
  MNEMON_RETURN_IF_ERROR(SetArchitecture(named, architecture));
  if (std::ranges::find(kSizes, size) == std::end(kSizes)) {
    return MakeError(
        absl::StatusCode::kNotFound,
        StrCat("unknown size ", Quoted(size), "; known: ", StrJoin(kSizes, ", ")),
        {.reason = "NOT_FOUND"});
  }
  MNEMON_ASSIGN_OR_RETURN(const Family* family, FindFamily(named.architecture));
  ModelConfig config = size == "SEED" ? family->reference() : family->usual();
  config.projection = named.projection;
  if (size == "XS") SetSizes(config, 128, 4, 4, 512, 128);
  if (size == "S") SetSizes(config, 256, 6, 8, 1024, 128);
  if (size == "M") SetSizes(config, 512, 8, 8, 2048, 128);
  if (size == "G") SetSizes(config, 768, 12, 12, 3072, 50257);
  return config;
}

}  // namespace mnemon
