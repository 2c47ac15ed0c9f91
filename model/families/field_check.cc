// SPDX-License-Identifier: MIT
#include "model/families/field_check.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "base/error.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr auto kCommon =
    std::to_array<std::string_view>({"format_version", "architecture", "d_model",
                                     "heads", "layers", "d_ff", "vocab", "dropout"});

template <class T>
std::string Text(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(Name(value));
  } else {
    return StrCat(value);
  }
}

// The fields in order, each as text.
std::vector<std::pair<std::string_view, std::string>> Values(
    const ModelConfig& config) {
  std::vector<std::pair<std::string_view, std::string>> values;
  VisitConfigFields(config, [&](std::string_view key, const auto& field, auto&&...) {
    values.emplace_back(key, Text(field));
  });
  return values;
}

bool Contains(const auto& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

}  // namespace

FieldCheck::FieldCheck(const ModelConfig& config,
                       std::initializer_list<std::string_view> used)
    : architecture_(config.architecture) {
  const auto values = Values(config);
  const auto defaults = Values(ModelConfig{});
  for (size_t i = 0; i < values.size(); ++i) {
    const auto& [key, value] = values[i];
    if (Contains(kCommon, key) || Contains(used, key)) continue;
    Require(value == defaults[i].second, key,
            StrCat(defaults[i].second, ", not ", value));
  }
}

void FieldCheck::Require(bool holds, std::string_view field, std::string_view needed) {
  if (holds) return;
  if (faults_.empty()) first_field_ = field;
  faults_.push_back(StrCat(field, " must be ", needed));
}

absl::Status FieldCheck::status() const {
  if (faults_.empty()) return absl::OkStatus();
  return InvalidField(first_field_, StrCat("architecture ", architecture_,
                                           " does not take this configuration: ",
                                           StrJoin(faults_, "; ")));
}

}  // namespace mnemon
