// SPDX-License-Identifier: MIT
#include "model/load/generation_config.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/json.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

using nlohmann::json;

struct Number {
  const char* key;
  double RequestedSampling::*value;
};
constexpr Number kNumbers[] = {
    {"temperature", &RequestedSampling::temperature},
    {"top_p", &RequestedSampling::top_p},
    {"min_p", &RequestedSampling::min_p},
    {"typical_p", &RequestedSampling::typical_p},
    {"repetition_penalty", &RequestedSampling::repetition_penalty},
};

}  // namespace

absl::Status ReadGenerationConfig(std::string_view text, const std::string& file,
                                  int64_t vocab, GenerationDefaults& to) {
  MNEMON_ASSIGN_OR_RETURN(const json object, ParseJson(text, file, {.max_depth = 8}));
  if (!object.is_object()) {
    return absl::InvalidArgumentError(StrCat(file, " is not a JSON object"));
  }
  const auto find = [&](const char* key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  };
  const auto fault = [&](const char* key, const json& value, std::string_view what) {
    return absl::InvalidArgumentError(
        StrCat(file, ": ", key, " is ", value.dump(), ", ", what));
  };
  constexpr char kEnd[] = "eos_token_id";
  if (const json* const ends = find(kEnd)) {
    to.end_tokens.clear();
    for (const json& id : ends->is_array() ? *ends : json::array({*ends})) {
      if (!id.is_number_integer() || id < 0 || id >= vocab) {
        return fault(kEnd, *ends, StrCat("not of tokens 0..", vocab - 1));
      }
      to.end_tokens.push_back(id.get<int32_t>());
    }
    std::ranges::sort(to.end_tokens);
    const auto twice = std::ranges::unique(to.end_tokens);
    to.end_tokens.erase(twice.begin(), twice.end());
  }
  for (const Number& number : kNumbers) {
    const json* const value = find(number.key);
    if (value == nullptr) continue;
    if (!value->is_number()) return fault(number.key, *value, "not a number");
    to.sampling.*number.value = value->get<double>();
  }
  if (const json* const k = find("top_k")) {
    const bool fits = k->is_number_integer() && *k >= 0 && *k <= INT32_MAX;
    if (!fits) return fault("top_k", *k, StrCat("not in 0..", INT32_MAX));
    to.sampling.top_k = k->get<int32_t>();
  }
  if (const json* const sample = find("do_sample")) {
    if (!sample->is_boolean()) return fault("do_sample", *sample, "not true or false");
    if (!sample->get<bool>()) to.sampling.temperature = 0;
  }
  const absl::Status valid = ValidateSampling(to.sampling, vocab);
  return valid.ok() ? valid : Annotated(valid, file);
}

}  // namespace mnemon
